"""``speedtrack.alert/1``, which webhooks sent before ``speedtrack.event/1``: channels of that time go on getting it."""

from typing import Any

from django.conf import settings

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.reports.alerts import AlertMessage
from speedtrack.reports.causes import SettledChangeDocument

SCHEMA = "speedtrack.alert/1"
MOST_CHANGES = 50


def former_document(message: AlertMessage, project_name: str) -> dict[str, Any]:
    event, alert = message.event, message.alert
    return {
        "schema": SCHEMA,
        "delivery": message.delivery,
        "summary": alert.summary or "the alert has no change points left",
        "event": {
            **event.model_dump(include={"id", "kind", "before", "after", "note"}),
            "at": event.at.isoformat(),
            "by": event.who,
        },
        "project": {"slug": alert.project, "name": project_name, "url": f"{settings.URL}/p/{alert.project}/"},
        "alert": {
            **alert.model_dump(include={"id", "status", "restoration"}),
            "url": alert.page_url,
            "direction": "slower" if not alert.changes or alert.changes[0].is_slowdown else "faster",
            "created": alert.created.isoformat(),
        },
        "range": {
            "before": alert.before,
            "commit": alert.commit,
            "count": alert.commits,
            "branches": list(dict.fromkeys([alert.branch, *alert.branches])),
        },
        "commits": [
            {
                **commit.model_dump(include={"sha", "author"}),
                "short": commit.sha[:10],
                "subject": commit.subject.replace("\n", " "),
                "url": commit.page_url,
            }
            for commit in alert.candidates
        ],
        "changes": [former_change(change) for change in alert.changes[:MOST_CHANGES]],
        "change_count": len(alert.changes),
        **alert.model_dump(include={"which_moved", "function_tables"}),
    }


def former_change(change: SettledChangeDocument) -> dict[str, Any]:
    metric, fields = METRICS[change.metric], ("benchmark", "metric", "machine", "ratio", "low", "high", "p", "pairs")
    return {
        **change.model_dump(include={*fields, "status"}),
        "title": metric.title,
        "better": metric.better,
        "effect": numbers.effect(metric, change.is_slowdown),
        "change": change.change_in_words,
    }
