"""The list of alerts, of one project or of all."""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Count

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.models.alerts import AlertQuerySet
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Direction, Metric
from speedtrack.projects.models import Project

MOST_ALERTS = 100
ALERT_COLUMNS = (
    "status",
    "improvement",
    "muted",
    "created",
    "project__slug",
    "project__name",
    "branch__name",
    "before__sha",
    "commit__sha",
    "commit__subject",
    "commit__author_name",
    "assignee__username",
)


class WorstChange(NamedTuple):
    """The worst change point of an alert."""

    benchmark: str
    metric: Metric
    ratio: float

    @property
    def is_slowdown(self) -> bool:
        return (self.ratio > 1) == (self.metric.better == Direction.LOWER)

    @property
    def effect(self) -> str:
        return numbers.effect(self.metric, self.is_slowdown)


@dataclass(frozen=True)
class ListedAlert:
    alert: Alert
    worst: WorstChange | None
    series: int


@dataclass(frozen=True)
class AlertsPage:
    """``counts``: by status, then the improvements; ``open``: how many slowdowns are open."""

    alerts: list[ListedAlert]
    counts: list[tuple[str, int]]
    open: int


def load(project: Project | None, status: str) -> AlertsPage:
    by_status = count_alerts(project)
    counts = [(name, by_status.get(name, 0)) for name in (*Alert.Status.values, "improvements")]
    return AlertsPage(list_alerts(project, status), counts, sum(by_status.get(name, 0) for name in Alert.OPEN))


def list_alerts(project: Project | None, status: str) -> list[ListedAlert]:
    """Alerts, newest first: the open ones, the improvements, all, or the slowdowns of one status."""
    found = standing_alerts(project)
    if status == "open":
        found = found.filter(status__in=Alert.OPEN, improvement=False)
    elif status == "improvements":
        found = found.filter(improvement=True)
    elif status in Alert.Status.values:
        found = found.filter(status=status, improvement=False)
    listed = found.with_range().select_related("project", "branch", "before", "commit", "assignee")
    alerts = list(listed.only(*ALERT_COLUMNS).order_by("-pk")[:MOST_ALERTS])
    ranked = ranked_changes(alerts)
    return [ListedAlert(alert, next(iter(ranked[alert.pk]), None), len(ranked[alert.pk])) for alert in alerts]


def standing_alerts(project: Project | None) -> AlertQuerySet:
    found = Alert.objects.standing()
    return found if project is None else found.filter(project=project)


def ranked_changes(alerts: list[Alert]) -> dict[int, list[WorstChange]]:
    """By alert: its changes, the worst first. As columns, because an alert may have hundreds."""
    found: dict[int, list[WorstChange]] = defaultdict(list)
    rows = ChangePoint.objects.filter(alert__in=alerts).order_by("pk")
    for alert_id, benchmark, metric, ratio in rows.values_list(
        "alert_id", "series__benchmark__name", "series__metric", "ratio"
    ):
        found[alert_id].append(WorstChange(benchmark, METRICS[metric], ratio))
    for changes in found.values():
        changes.sort(key=lambda one: (not one.is_slowdown, -abs(one.ratio - 1)))
    return found


def count_alerts(project: Project | None) -> dict[str, int]:
    """How many alerts there are by status, and how many improvements."""
    found = standing_alerts(project)
    by_status = found.filter(improvement=False).values_list("status").annotate(count=Count("pk")).order_by()
    return {**dict(by_status), "improvements": found.filter(improvement=True).count()}
