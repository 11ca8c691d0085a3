"""The JSON document of an alert's event, ``speedtrack.alert/1``: webhooks send it, chat messages are made from it.

docs/channels.md describes it. Within the version keys are added, but never renamed or changed in meaning.
"""

from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.urls import reverse

from speedtrack.alerts.headlines import headline
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, Verdict
from speedtrack.alerts.pairs import counts
from speedtrack.alerts.pairs.sizes import settling_verdicts
from speedtrack.alerts.triage.restorations import restoration_in_words
from speedtrack.benchmarks import numbers
from speedtrack.ground.texts.text import plain, plain_values
from speedtrack.projects.models import Commit

SCHEMA = "speedtrack.alert/1"
MOST_COMMITS, MOST_CHANGES = 10, 50

EventDocument = dict[str, Any]


def alert_document(event: AlertEvent, delivery: str) -> EventDocument:
    """The event, with its alert's current state. ``delivery``: an id, the same for every attempt."""
    alert = event.alert
    changes = worst_first(alert)
    commits = list(alert.candidates().reverse()[:MOST_COMMITS]) or [alert.commit]
    document: EventDocument = plain_values(
        {
            "schema": SCHEMA,
            "delivery": delivery,
            "summary": headline(changes) or "the alert has no change points left",
            "event": event_part(event),
            "project": {
                "slug": alert.project.slug,
                "name": alert.project.name,
                "url": page_url("project", alert.project.slug),
            },
            "alert": {
                "id": alert.pk,
                "url": page_url("alert", alert.pk),
                "status": alert.status,
                "direction": "slower" if not changes or changes[0].is_slowdown else "faster",
                "created": alert.created.isoformat(),
                "restoration": restoration_in_words(list(alert.events.order_by("pk"))),
            },
            "range": {
                "before": alert.before.sha,
                "commit": alert.commit.sha,
                "count": alert.width,
                "branches": alert.branch_names(),
            },
            "commits": [commit_part(commit) for commit in commits],
            "changes": change_parts(changes[:MOST_CHANGES]),
            "change_count": len(changes),
            "which_moved": counts.which_moved(changes),
            "function_tables": [asdict(table) for table in counts.function_tables(changes)],
        }
    )
    return document


def page_url(page: str, *arguments: object) -> str:
    return settings.URL + reverse(page, args=arguments)


def worst_first(alert: Alert) -> list[ChangePoint]:
    changes = alert.change_points.select_related("series__benchmark", "series__machine")
    return sorted(changes, key=lambda cp: cp.rank)


def event_part(event: AlertEvent) -> EventDocument:
    return {
        "id": event.pk,
        "kind": event.kind,
        "at": event.at.isoformat(),
        "by": event.who.username if event.who else None,
        "before": event.before,
        "after": event.after,
        "note": event.note,
    }


def commit_part(commit: Commit) -> EventDocument:
    return {
        "sha": commit.sha,
        "short": commit.short,
        "subject": plain(commit.subject).replace("\n", " "),
        "author": commit.author_name,
        "url": page_url("commit", commit.project.slug, commit.sha),
    }


def change_parts(changes: list[ChangePoint]) -> list[EventDocument]:
    verdicts = settling_verdicts(changes)
    return [change_part(cp, verdicts.get(cp.pk)) for cp in changes]


def change_part(cp: ChangePoint, verdict: Verdict | None) -> EventDocument:
    """One series that moved; ``low`` and ``high`` are the 95% interval of the ratio, after / before."""
    return {
        "benchmark": cp.series.benchmark.name,
        "metric": cp.series.metric,
        "title": cp.metric.title,
        "better": cp.metric.better,
        "machine": cp.series.machine.name,
        "effect": numbers.effect(cp.metric, cp.is_slowdown),
        "change": numbers.change(cp.ratio),
        "ratio": cp.ratio,
        "low": cp.low,
        "high": cp.high,
        "p": verdict.p if verdict else None,
        "pairs": verdict.pairs if verdict else None,
        "status": cp.status,
    }


def sample_document(project: Any) -> EventDocument:
    """A document about an alert that does not exist, for tests of a channel."""
    url = page_url("project", project.slug)
    return {
        "schema": SCHEMA,
        "delivery": "test",
        "summary": "slower +5.2%: get-p16",
        "event": {
            "id": 0,
            "kind": "test",
            "at": "2026-01-01T00:00:00+00:00",
            "by": None,
            "before": "",
            "after": "confirmed",
            "note": "This is a test: no commit is slower.",
        },
        "project": {"slug": project.slug, "name": project.name, "url": url},
        "alert": {
            "id": 0,
            "url": url,
            "status": "confirmed",
            "direction": "slower",
            "created": "2026-01-01T00:00:00+00:00",
            "restoration": "",
        },
        "range": {"before": "0" * 40, "commit": "1" * 40, "count": 1, "branches": [project.default_branch]},
        "commits": [
            {
                "sha": "1" * 40,
                "short": "1" * 10,
                "subject": "A commit that does not exist",
                "author": "Nobody",
                "url": url,
            }
        ],
        "changes": [
            {
                "benchmark": "get-p16",
                "metric": "server_cpu_ns_per_request",
                "title": "server CPU per request",
                "better": "lower",
                "machine": "nowhere",
                "effect": "slower",
                "change": "+5.2%",
                "ratio": 1.052,
                "low": 1.047,
                "high": 1.057,
                "p": 0.0002,
                "pairs": 12,
                "status": "confirmed",
            }
        ],
        "change_count": 1,
        "which_moved": ["get-p16: the same instructions (+0.0%), slower"],
        "function_tables": [],
    }
