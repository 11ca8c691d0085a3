"""What webhooks send, and chat messages are made from: ``speedtrack.event/1``, an event with its alert.

docs/channels.md describes it. Within the version keys are added, but never renamed or changed in meaning.
"""

from datetime import UTC, datetime

from django.conf import settings

from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.projects.models import Project
from speedtrack.reports.alerts import AlertDetails, AlertEventDocument, AlertMessage, known_alerts
from speedtrack.reports.causes import SettledChangeDocument
from speedtrack.reports.projects import CommitDocument

#: Of an alert that does not exist.
NO_LINES = {"why_not": "There is no commit.", "sentence": "", "hunks": [], "left_out": 0, "further": 0}


def message_of(event: AlertEvent, delivery: str) -> AlertMessage:
    """The event, with its alert's current state. ``delivery``: an id, the same for every attempt."""
    alert = AlertDetails.of(known_alerts().get(pk=event.alert_id))
    return AlertMessage(delivery=delivery, event=AlertEventDocument.of(event), alert=alert)


def worst_first(alert: Alert) -> list[ChangePoint]:
    changes = alert.change_points.select_related("series__benchmark", "series__machine")
    return sorted(changes, key=lambda cp: cp.rank)


def sample_message(project: Project) -> AlertMessage:
    """A message about an alert that does not exist, for tests of a channel."""
    at, page = datetime(2026, 1, 1, tzinfo=UTC), f"{settings.URL}/p/{project.slug}/"
    before, sha, branch = "0" * 40, "1" * 40, project.default_branch
    names = {"id": 0, "project": project.slug, "branch": branch, "before": before, "commit": sha, "created": at}
    commit = {"parents": [before], "authored_at": at, "committed_at": at, "position": None, "unreachable_since": None}
    commit |= {"subject": "A commit that does not exist", "author": "Nobody", "url": page, "page_url": page}
    change = {"series": 0, "benchmark": "get-p16", "metric": "server_cpu_ns_per_request", "machine": "nowhere"}
    change |= {"kind": "step", "status": "confirmed", "is_slowdown": True, "ratio": 1.052, "low": 1.047, "high": 1.057}
    change |= {"from_zero": None}
    change |= {"note": "", "settled_at": at, "alert": 0, "pairs": 12, "p": 0.0002}
    judgement = {"verdict": "worse", "look": "worse", "sign": "!"}
    change |= judgement | {"words": "slower", "instructions": "the same instructions (+0.0%)"}
    alert = {"status": "confirmed", "is_open": True, "is_improvement": False, "is_muted": False, "assignee": None}
    alert |= {"cause": f"since {sha[:10]}", "branches": [branch], "subject": commit["subject"], "commits": 1}
    alert |= {"reverted_by": None, "fixed_by": None, "merged_into": None, "summary": "slower +5.2%: get-p16"}
    alert |= {
        "url": page,
        "page_url": page,
        "fixed_on": [],
        "function_tables": [],
        "lines": NO_LINES,
        "hunks": [],
        "restoration": "",
        "history": [],
    }
    alert |= judgement | {
        "layouts": [],
        "instructions": change["instructions"],
        "is_time_only": True,
        "whole_effect": None,
    }
    alert |= {"which_moved": ["get-p16: the same instructions (+0.0%), slower"]}
    event = {"id": 0, "kind": "test", "at": at, "who": None, "before": "", "after": "confirmed"}
    event |= {"note": "This is a test: no commit is slower."}
    return AlertMessage.model_validate(
        {
            "delivery": "test",
            "event": event,
            "alert": names
            | alert
            | {
                "changes": [SettledChangeDocument.model_validate(names | change)],
                "candidates": [CommitDocument.model_validate({"sha": sha} | commit)],
            },
        }
    )
