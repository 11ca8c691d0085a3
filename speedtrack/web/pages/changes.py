"""Recent changes: the change points of one cause as one entry, at its commit or the range that holds it."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F, OuterRef, QuerySet, Subquery

from speedtrack.alerts.models import ChangePoint
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


@dataclass
class ChangeGroup:
    """The change points of one cause in one direction, the largest first.

    The cause is ``commit``, or one of the ``width`` commits after ``before`` and up to ``commit``.
    """

    branch: Branch
    before: Commit
    commit: Commit
    width: int
    worse: bool
    points: list[ChangePoint]

    @property
    def worst(self) -> ChangePoint:
        return self.points[0]

    @property
    def confirmed(self) -> bool:
        return any(cp.status == Status.CONFIRMED for cp in self.points)

    @property
    def settling(self) -> bool:
        return not self.confirmed and any(cp.status in (Status.SUSPECTED, Status.SETTLING) for cp in self.points)

    @property
    def state(self) -> str:
        if self.confirmed or self.settling:
            return "confirmed" if self.confirmed else "suspected"
        found = {cp.status for cp in self.points}
        return next((str(one) for one in (Status.HISTORY, Status.UNSETTLED, Status.MACHINE) if one in found), "")

    @property
    def drift(self) -> str:
        """The reference of a drift; empty for a step."""
        return self.worst.reference

    @property
    def alert_id(self) -> int | None:
        return next((cp.alert_id for cp in self.points if cp.alert_id), None)

    @property
    def benchmarks(self) -> int:
        return len({cp.series.benchmark_id for cp in self.points})


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
    """The newest causes among these change points."""
    newest = points.filter(status__in=VISIBLE).order_by("-commit__committed_at", "-id").values_list("pk", flat=True)
    order = {pk: place for place, pk in enumerate(newest[:MOST_POINTS])}
    return group_by_cause(sorted(change_points().filter(pk__in=order), key=lambda cp: order[cp.pk]))[:count]


def group_by_cause(points: Iterable[ChangePoint]) -> list[ChangeGroup]:
    """One group per cause (an alert, else a range of commits) and direction, in order of first appearance."""
    groups: dict[tuple[object, ...], list[ChangePoint]] = {}
    for cp in points:
        cause = (cp.alert_id,) if cp.alert_id else (cp.before_id, cp.commit_id)
        groups.setdefault((*cause, cp.is_slowdown), []).append(cp)
    return [change_group(members) for members in groups.values()]


def change_group(points: list[ChangePoint]) -> ChangeGroup:
    """The group of these points, at the narrowest range among them."""
    narrowest = min(points, key=width_of)
    points.sort(key=lambda cp: (cp.status != Status.CONFIRMED, -abs(cp.ratio - 1)))
    return ChangeGroup(
        narrowest.branch, narrowest.before, narrowest.commit, width_of(narrowest), narrowest.is_slowdown, points
    )


def width_of(cp: ChangePoint) -> int:
    """How many commits may be the cause, as ``change_points`` annotates it; 1 where the branch has lost them."""
    return getattr(cp, "width", None) or 1
