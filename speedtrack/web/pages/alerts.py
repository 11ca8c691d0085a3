"""The list of alerts, of one project or of all."""

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from speedtrack.alerts.models import Alert, ChangePoint
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
    found: QuerySet[Alert] = standing_alerts(project)
    if status == "open":
        found = found.filter(status__in=Alert.OPEN, improvement=False)
    elif status == "improvements":
        found = found.filter(improvement=True)
    elif status in Alert.Status.values:
        found = found.filter(status=status, improvement=False)
    alerts = list(found.select_related("project", "branch", "commit", "assignee").order_by("-pk")[:MOST_ALERTS])
    points: dict[int, list[ChangePoint]] = defaultdict(list)
    for cp in changes.change_points().filter(alert__in=alerts):
        points[cp.alert_id or 0].append(cp)
    return [ListedAlert(a, worst_of_points(points[a.pk]), len(points[a.pk])) for a in alerts]


def standing_alerts(project: Project | None) -> QuerySet[Alert]:
    found = Alert.objects.standing()
    return found if project is None else found.filter(project=project)


def worst_of_points(points: list[ChangePoint]) -> ChangePoint | None:
    return min(points, key=lambda cp: (not cp.is_slowdown, -abs(cp.ratio - 1)), default=None)


def count_alerts(project: Project | None) -> dict[str, int]:
    """How many alerts there are by status, and how many improvements."""
    found = standing_alerts(project)
    by_status = found.filter(improvement=False).values_list("status").annotate(count=Count("pk")).order_by()
    return {**dict(by_status), "improvements": found.filter(improvement=True).count()}
