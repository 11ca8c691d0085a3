"""Recent changes: the change points of one cause as one entry, at its commit or the range that holds it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import F, OuterRef, QuerySet, Subquery

from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.metrics import METRICS, Direction
from speedtrack.projects.models import Branch, Commit, Position

Status = ChangePoint.Status
MOST_POINTS = 120  # read for one list
VISIBLE = (
    Status.SUSPECTED,
    Status.SETTLING,
    Status.CONFIRMED,
    Status.UNSETTLED,
    Status.HISTORY,
    Status.MACHINE,
)


class GroupedPoint(NamedTuple):
    """What is needed of each change point of a group. ``width``: how many commits may be the cause."""

    pk: int
    status: str
    ratio: float
    metric: str
    alert_id: int | None
    before_id: int
    commit_id: int
    width: int | None

    @property
    def is_slowdown(self) -> bool:
        return (self.ratio > 1) == (METRICS[self.metric].better == Direction.LOWER)


COLUMNS = ("pk", "status", "ratio", "series__metric", "alert_id", "before_id", "commit_id", "width")


@dataclass(frozen=True)
class ChangeGroup:
    """The change points of one cause in one direction, the largest first: ``worst``.

    The cause is ``commit``, or one of the ``width`` commits after ``before`` and up to ``commit``.
    """

    branch: Branch
    before: Commit
    commit: Commit
    width: int
    worst: ChangePoint
    points: list[GroupedPoint]

    @property
    def worse(self) -> bool:
        return self.worst.is_slowdown

    @property
    def confirmed(self) -> bool:
        return any(one.status == Status.CONFIRMED for one in self.points)

    @property
    def settling(self) -> bool:
        return not self.confirmed and any(one.status in (Status.SUSPECTED, Status.SETTLING) for one in self.points)

    @property
    def state(self) -> str:
        if self.confirmed or self.settling:
            return "confirmed" if self.confirmed else "suspected"
        found = {one.status for one in self.points}
        return next((str(one) for one in (Status.HISTORY, Status.UNSETTLED, Status.MACHINE) if one in found), "")

    @property
    def drift(self) -> str:
        """The reference of a drift; empty for a step."""
        return self.worst.reference

    @property
    def alert_id(self) -> int | None:
        return next((one.alert_id for one in self.points if one.alert_id), None)


def change_points() -> QuerySet[ChangePoint]:
    """Change points with their related rows, and ``width``: how many commits of their branch may be the cause."""
    places = Position.objects.filter(branch=OuterRef("branch"))
    first = Subquery(places.filter(commit=OuterRef("before")).values("number"))
    last = Subquery(places.filter(commit=OuterRef("commit")).values("number"))
    related = ("series__benchmark", "series__machine", "branch__project", "commit", "before")
    found = ChangePoint.objects.select_related(*related).defer(
        "series__benchmark__definition", "series__machine__facts"
    )
    return found.annotate(width=last - first)


def on_branch(branch: Branch | None, first: int = 0, last: int = 2**31 - 1) -> QuerySet[ChangePoint]:
    """The change points whose commit lies on a branch between two positions, whichever branch they were found on.

    ``place`` is that commit's position.
    """
    points = change_points().filter(commit__positions__branch=branch, commit__positions__number__range=(first, last))
    return points.annotate(place=F("commit__positions__number"))


def newest_groups(points: QuerySet[ChangePoint], count: int) -> list[ChangeGroup]:
    """The newest causes among these change points. Of each, two change points are loaded whole."""
    newest = points.filter(status__in=VISIBLE).order_by("-commit__committed_at", "-id")[:MOST_POINTS]
    groups = by_cause(GroupedPoint._make(row) for row in newest.values_list(*COLUMNS))[:count]
    wanted = {one.pk for group in groups for one in (group[0], narrowest_of(group))}
    return shown_groups(groups, change_points().in_bulk(wanted))


def groups_of(points: Iterable[ChangePoint]) -> list[ChangeGroup]:
    """The causes of these change points, in order of first appearance."""
    known = {cp.pk: cp for cp in points}
    rows = [
        GroupedPoint(
            cp.pk, cp.status, cp.ratio, cp.series.metric, cp.alert_id, cp.before_id, cp.commit_id, width_of(cp)
        )
        for cp in known.values()
    ]
    return shown_groups(by_cause(rows), known)


def by_cause(points: Iterable[GroupedPoint]) -> list[list[GroupedPoint]]:
    """By cause (an alert, else a range of commits) and direction, in order of first appearance; the largest first."""
    groups: dict[tuple[object, ...], list[GroupedPoint]] = {}
    for one in points:
        cause = (one.alert_id,) if one.alert_id else (one.before_id, one.commit_id)
        groups.setdefault((*cause, one.is_slowdown), []).append(one)
    return [
        sorted(group, key=lambda one: (one.status != Status.CONFIRMED, -abs(one.ratio - 1)))
        for group in groups.values()
    ]


def narrowest_of(group: list[GroupedPoint]) -> GroupedPoint:
    return min(group, key=lambda one: one.width or 1)


def shown_groups(groups: Iterable[list[GroupedPoint]], known: Mapping[int, ChangePoint]) -> list[ChangeGroup]:
    """The groups, each at the narrowest range among its points."""
    found = []
    for group in groups:
        narrowest = narrowest_of(group)
        at, worst = known[narrowest.pk], known[group[0].pk]
        found.append(ChangeGroup(at.branch, at.before, at.commit, narrowest.width or 1, worst, group))
    return found


def width_of(cp: ChangePoint) -> int:
    """How many commits may be the cause, as ``change_points`` annotates it; 1 where the branch has lost them."""
    return getattr(cp, "width", None) or 1
