"""The list of alerts, of one project or of all."""

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Count

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.models.alerts import AlertQuerySet
from speedtrack.benchmarks.metrics import METRICS, Direction
from speedtrack.projects.models import Project
from speedtrack.web.pages import changes

MOST_ALERTS = 100


@dataclass(frozen=True)
class ListedAlert:
    alert: Alert
    worst: ChangePoint | None
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
    alerts = list(listed.order_by("-pk")[:MOST_ALERTS])
    ranked = ranked_points(alerts)
    worst = changes.change_points().in_bulk([points[0] for points in ranked.values()])
    return [ListedAlert(a, worst.get(next(iter(ranked[a.pk]), 0)), len(ranked[a.pk])) for a in alerts]


def standing_alerts(project: Project | None) -> AlertQuerySet:
    found = Alert.objects.standing()
    return found if project is None else found.filter(project=project)


def ranked_points(alerts: list[Alert]) -> dict[int, list[int]]:
    """By alert: the ids of its change points, the worst first. As columns, because an alert may have hundreds."""
    ranks: dict[int, list[tuple[bool, float, int]]] = defaultdict(list)
    rows = ChangePoint.objects.filter(alert__in=alerts).values_list("alert_id", "pk", "ratio", "series__metric")
    for alert_id, pk, ratio, metric in rows:
        worse = (ratio > 1) == (METRICS[metric].better == Direction.LOWER)
        ranks[alert_id].append((not worse, -abs(ratio - 1), pk))
    return defaultdict(list, {alert_id: [pk for *_, pk in sorted(found)] for alert_id, found in ranks.items()})


def count_alerts(project: Project | None) -> dict[str, int]:
    """How many alerts there are by status, and how many improvements."""
    found = standing_alerts(project)
    by_status = found.filter(improvement=False).values_list("status").annotate(count=Count("pk")).order_by()
    return {**dict(by_status), "improvements": found.filter(improvement=True).count()}
