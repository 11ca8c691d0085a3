"""The bracket of a suspicion: two commits around its place, which are measured again.

An unlucky run often places a shift one or more commits beside the true one. If only the suspicion's own two commits
were measured again, the change would be refuted. The bracket contains the true commit, and narrowing then finds it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q, QuerySet

from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import ChangePoint
from speedtrack.ground.postgres.plainrows import among
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.projects.models import Branch, Commit, Position
from speedtrack.runs.models import Reason, Run
from speedtrack.runs.models import Status as RunStatus

REACH = 3  # measured commits to each side of the place

Status = ChangePoint.Status


@dataclass(frozen=True)
class Bracket:
    """Two commits of a branch and their positions; the change lies after ``first`` and up to ``last``.

    It may be widened as far as ``lowest`` and ``highest``, where other changes of the series lie.
    """

    base_id: int
    commit_id: int
    first: int
    last: int
    lowest: int
    highest: int

    def joined(self, neighbour: "Bracket") -> "Bracket | None":
        """The bracket that covers both; None if it would contain another change of one of their series."""
        begin, end = (
            min(self, neighbour, key=lambda bracket: bracket.first),
            max(self, neighbour, key=lambda bracket: bracket.last),
        )
        lowest, highest = max(self.lowest, neighbour.lowest), min(self.highest, neighbour.highest)
        if begin.first < lowest or end.last > highest:
            return None
        return Bracket(begin.base_id, end.commit_id, begin.first, end.last, lowest, highest)


def positions_on_branch(branch: int, commits: list[int]) -> QuerySet[Any]:
    positions = Position.objects.filter(among("commit", commits), branch=branch)
    return positions.values_list("commit_id", "number")


POSITIONS: PreparedQuery[Any] = PreparedQuery(positions_on_branch)


def positions_of(branch: Branch, commits: Iterable[int]) -> dict[int, int]:
    """Commit id -> position, for those on the branch."""
    return dict(POSITIONS.tuples(branch=branch.pk, commits=list(commits)))


def ensure_branch(cp: ChangePoint) -> bool:
    """Return whether both ends of the range are on a live branch, which becomes the change point's branch.

    A deleted branch keeps its commits, but nobody waits for their results.
    """
    if cp.branch.deleted_at is None and len(positions_of(cp.branch, [cp.before_id, cp.commit_id])) == 2:
        return True
    live = Branch.objects.filter(deleted_at=None)
    branch = live.filter(positions__commit=cp.before_id).filter(positions__commit=cp.commit_id).order_by("pk").first()
    if branch is None:
        return False
    cp.branch = branch
    ChangePoint.objects.filter(pk=cp.pk).update(branch=branch)
    return True


def bracket_of(cp: ChangePoint) -> Bracket:
    """The bracket of a suspicion whose commits are on its branch. It ends where another change of its series lies."""
    numbers = positions_of(cp.branch, [cp.before_id, cp.commit_id])
    first, last = numbers[cp.before_id], numbers[cp.commit_id]
    if cp.kind == ChangePoint.Kind.DRIFT:
        return Bracket(cp.before_id, cp.commit_id, first, last, first, last)
    lowest, highest = free_range(cp, first, last)
    points = (
        lines.clean_measurements()
        .filter(series=cp.series, commit__positions__branch=cp.branch)
        .values_list("commit_id", "commit__positions__number")
    )
    older = points.filter(commit__positions__number__range=(lowest, first)).order_by("-commit__positions__number")
    newer = points.filter(commit__positions__number__range=(last, highest)).order_by("commit__positions__number")
    begin = [*older.distinct()[: REACH + 1]] or [(cp.before_id, first)]
    end = [*newer.distinct()[: REACH + 1]] or [(cp.commit_id, last)]
    return Bracket(begin[-1][0], end[-1][0], begin[-1][1], end[-1][1], lowest, highest)


def free_range(cp: ChangePoint, first: int, last: int) -> tuple[int, int]:
    """The positions between which the series has no change but this one.

    ``first`` and ``last``: the positions of its range.
    """
    steps = ChangePoint.objects.filter(series=cp.series, kind=ChangePoint.Kind.STEP)
    neighbours = steps.exclude(pk=cp.pk).exclude(status__in=(Status.REFUTED, Status.MACHINE))
    rows = list(neighbours.values_list("before_id", "commit_id"))
    numbers = positions_of(cp.branch, {commit for row in rows for commit in row})
    ranges = [(numbers[b], numbers[c]) for b, c in rows if b in numbers and c in numbers]
    lowest = max((end for _, end in ranges if end <= first), default=0)
    highest = min((begin for begin, _ in ranges if begin >= last), default=2**31 - 1)
    return lowest, highest


def paired_runs_around(cp: ChangePoint) -> QuerySet[Run]:
    """The paired runs of another suspicion, of one pair of commits, that also decide this one; empty if there are none.

    They measured this suspicion's benchmark around its place. Since another suspicion caused them, their pairs are as
    independent as new ones. The narrowest pair of commits is taken that contains no other change of the series and that
    extends, on each side, beyond the suspicion's own bracket by no more than the width of that bracket.
    """
    numbers = positions_of(cp.branch, [cp.before_id, cp.commit_id])
    own = bracket_of(cp)
    width = own.last - own.first
    bases = max(own.lowest, own.first - width), numbers[cp.before_id]
    heads = numbers[cp.commit_id], min(own.highest, own.last + width)
    runs = paired_runs_of_others(cp, Reason.CONFIRM, bases, heads)
    wide = F("commit__positions__number") - F("base__positions__number")
    nearest = runs.annotate(wide=wide).order_by("wide", "id").values_list("base_id", "commit_id").first()
    return runs.filter(base=nearest[0], commit=nearest[1]) if nearest else runs.none()


def paired_runs_within(cp: ChangePoint) -> QuerySet[Run]:
    """The paired runs that narrow another change of the benchmark, of two commits in this one's range.

    Empty if the branch has lost its ends.
    """
    numbers = positions_of(cp.branch, [cp.before_id, cp.commit_id])
    if not numbers.keys() >= {cp.before_id, cp.commit_id}:
        return Run.objects.none()
    within = numbers[cp.before_id], numbers[cp.commit_id]
    return paired_runs_of_others(cp, Reason.BISECT, within, within)


def paired_runs_of_others(
    cp: ChangePoint, why: Reason, bases: tuple[int, int], heads: tuple[int, int]
) -> QuerySet[Run]:
    """The runs that may tell of a change but were not for it, with both commits between these positions."""
    return Run.objects.filter(
        project=cp.series.project_id,
        machine=cp.series.machine_id,
        reason=why,
        benchmark_set__benchmarks=cp.series.benchmark_id,
        base__positions__branch=cp.branch,
        base__positions__number__range=bases,
        commit__positions__branch=cp.branch,
        commit__positions__number__range=heads,
    ).exclude(Q(status__in=[RunStatus.FAILED, RunStatus.CANCELLED]) | Q(change_points=cp))


def shared_brackets(suspicions: Iterable[tuple[ChangePoint, Bracket]]) -> list[tuple[Bracket, list[ChangePoint]]]:
    """Group suspicions of one machine and branch that one pair of commits can settle, with their common bracket.

    The suspicions of a group lie in each other's brackets. Two suspicions of one series are never in one group.
    """
    groups: list[tuple[Bracket, list[ChangePoint]]] = []
    for cp, bracket in sorted(
        suspicions, key=lambda suspicion: (suspicion[1].first, suspicion[1].last, suspicion[0].pk)
    ):
        for i, (common, members) in enumerate(groups):
            union = common.joined(bracket)
            if union and may_share_bracket(cp, members) and bracket.first < (common.first + common.last) / 2:
                groups[i] = (union, [*members, cp])
                break
        else:
            groups.append((bracket, [cp]))
    return groups


def may_share_bracket(cp: ChangePoint, members: list[ChangePoint]) -> bool:
    first = members[0]
    same_place = first.series.machine_id == cp.series.machine_id and first.branch_id == cp.branch_id
    one_way_to_settle = first.kind == cp.kind and first.metric.counted == cp.metric.counted
    return same_place and one_way_to_settle and all(member.series_id != cp.series_id for member in members)


def commits_between(branch: Branch, before_id: int, commit_id: int) -> QuerySet[Commit]:
    """The commits of the branch strictly between two of its commits, oldest first."""
    numbers = positions_of(branch, [before_id, commit_id])
    return Commit.objects.filter(
        positions__branch=branch,
        positions__number__gt=numbers.get(before_id, 0),
        positions__number__lt=numbers.get(commit_id, 0),
    ).order_by("positions__number")
