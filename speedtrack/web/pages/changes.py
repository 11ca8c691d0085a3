"""What changed lately: change points of one commit told together."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet

from speedtrack.alerts.models import ChangePoint
from speedtrack.projects.models import Branch, Commit

Status = ChangePoint.Status
ROWS = 120  # change points read for one list
SHOWN = (Status.SUSPECTED, Status.SETTLING, Status.CONFIRMED, Status.UNSETTLED)


@dataclass
class Change:
    """The change points of one commit that point the same way, the largest first."""

    branch: Branch
    commit: Commit
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
        return "confirmed" if self.confirmed else "suspected" if self.settling else "unsettled"

    @property
    def alert_id(self) -> int | None:
        return next((cp.alert_id for cp in self.points if cp.alert_id), None)

    @property
    def benchmarks(self) -> int:
        return len({cp.series.benchmark_id for cp in self.points})


def change_points() -> QuerySet[ChangePoint]:
    return ChangePoint.objects.select_related(
        "series__benchmark", "series__machine", "branch__project", "commit", "before"
    )


def newest(found: QuerySet[ChangePoint], count: int) -> list[Change]:
    """The newest changes among these, each commit and direction once."""
    rows = found.filter(status__in=SHOWN).order_by("-commit__committed_at", "-id")[:ROWS]
    return grouped(rows)[:count]


def grouped(rows: Iterable[ChangePoint]) -> list[Change]:
    """One change per commit and direction, in the order in which they first appear."""
    changes: dict[tuple[int, int, bool], Change] = {}
    for cp in rows:
        key = (cp.branch_id, cp.commit_id, cp.is_slowdown)
        changes.setdefault(key, Change(cp.branch, cp.commit, cp.is_slowdown, [])).points.append(cp)
    for change in changes.values():
        change.points.sort(key=lambda cp: (cp.status != Status.CONFIRMED, -abs(cp.ratio - 1)))
    return list(changes.values())
