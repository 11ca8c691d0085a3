"""What changed lately: change points of one cause shown together, at its commit or the range it lies in."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F, OuterRef, QuerySet, Subquery

from speedtrack.alerts.models import ChangePoint
from speedtrack.projects.models import Branch, Commit, Position

Status = ChangePoint.Status
ROWS = 120  # change points read for one list
SHOWN = (
    Status.SUSPECTED,
    Status.SETTLING,
    Status.CONFIRMED,
    Status.UNSETTLED,
    Status.HISTORY,
    Status.MACHINE,
)


@dataclass
class Change:
    """The change points of one cause that point the same way, the largest first.

    It is ``commit``, or one of ``width`` commits after ``before`` and up to ``commit``.
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
        """What the level drifted away from; empty for a step."""
        return self.worst.reference

    @property
    def alert_id(self) -> int | None:
        return next((cp.alert_id for cp in self.points if cp.alert_id), None)

    @property
    def benchmarks(self) -> int:
        return len({cp.series.benchmark_id for cp in self.points})


def change_points() -> QuerySet[ChangePoint]:
    """Change points with the rows they speak of, and ``width``: how many commits of their branch may be the cause."""
    places = Position.objects.filter(branch=OuterRef("branch"))
    first = Subquery(places.filter(commit=OuterRef("before")).values("number"))
    last = Subquery(places.filter(commit=OuterRef("commit")).values("number"))
    related = ("series__benchmark", "series__machine", "branch__project", "commit", "before")
    return ChangePoint.objects.select_related(*related).annotate(width=last - first)


def on(branch: Branch | None, first: int = 0, last: int = 2**31 - 1) -> QuerySet[ChangePoint]:
    """The change points whose commit lies on a branch between two positions, whichever branch they were found on.

    ``place`` is that commit's position.
    """
    found = change_points().filter(commit__positions__branch=branch, commit__positions__number__range=(first, last))
    return found.annotate(place=F("commit__positions__number"))


def newest(found: QuerySet[ChangePoint], count: int) -> list[Change]:
    """The newest changes among these, each commit and direction once."""
    rows = found.filter(status__in=SHOWN).order_by("-commit__committed_at", "-id")[:ROWS]
    return grouped(rows)[:count]


def grouped(rows: Iterable[ChangePoint]) -> list[Change]:
    """One change per alert, or else range, and direction, in the order in which they first appear."""
    groups: dict[tuple[object, ...], list[ChangePoint]] = {}
    for cp in rows:
        cause = (cp.alert_id,) if cp.alert_id else (cp.before_id, cp.commit_id)
        groups.setdefault((*cause, cp.is_slowdown), []).append(cp)
    return [change_of(points) for points in groups.values()]


def change_of(points: list[ChangePoint]) -> Change:
    """The change of these points, placed by the narrowest of them."""
    narrowest = min(points, key=width_of)
    points.sort(key=lambda cp: (cp.status != Status.CONFIRMED, -abs(cp.ratio - 1)))
    return Change(
        narrowest.branch, narrowest.before, narrowest.commit, width_of(narrowest), narrowest.is_slowdown, points
    )


def width_of(cp: ChangePoint) -> int:
    """How many commits may be the cause; 1 where the branch has lost them. Annotated by ``change_points``."""
    return getattr(cp, "width", None) or 1
