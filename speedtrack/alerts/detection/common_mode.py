"""When many series of one machine move at once, decide before measuring pairs whether it was the machine or the code.

Evidence that costs nothing comes first: the canary around that time, other machines that measured the same commits, the
digests of the builds, other projects on the machine, and commits that were measured out of order. If it does not
decide, only the clearest suspicion is measured again, and its result stands for all of them.

Counts of instructions are left out: a machine does not change them.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.pairs.brackets import positions_of
from speedtrack.alerts.pairs.pairing import same_binary
from speedtrack.benchmarks.metrics import COUNTED, METRICS, WATCHED, Direction
from speedtrack.ground.postgres.preparedquery import RareRows
from speedtrack.runs.models import CanaryCheck, Series
from speedtrack.stats.changes import common
from speedtrack.stats.changes.common import MoveCause

BEFORE, AFTER = 8, 4  # measured commits to each side of the place that show whether a series moved
CHECKS = 3  # canary checks before and after
VALUES = 20  # measurements of other projects before and after

TIMED = [metric for metric in WATCHED if metric not in COUNTED]

Kind = ChangePoint.Kind
Status = ChangePoint.Status
RIPE_STEPS = RareRows(
    lambda: ChangePoint.objects.ripe().filter(kind=Kind.STEP, spoken_for_by=None, series__metric__in=TIMED)
)
SPOKEN_FOR_IN_VAIN = RareRows(
    lambda: ChangePoint.objects.filter(
        status=Status.SUSPECTED, spoken_for_by__status__in=(Status.REFUTED, Status.MACHINE)
    )
)


@dataclass(frozen=True)
class SuspicionGroup:
    """Suspicions of one machine, branch and place, in one direction. ``usual``: the median of their log slowdowns."""

    members: list[ChangePoint]
    first: int
    last: int
    usual: float

    @property
    def clearest(self) -> ChangePoint:
        return max(self.members, key=lambda cp: (cp.score, -cp.pk))


def sort_out() -> None:
    """Decide every ripe suspicion that belongs to a group: by evidence, or by measuring the group's clearest one."""
    follow_spokesmen()
    by_place: dict[tuple[int, int, bool], list[ChangePoint]] = defaultdict(list)
    for cp in RIPE_STEPS.rows("series__machine", "series__project", "branch", "before", "commit"):
        by_place[cp.series.machine_id, cp.branch_id, cp.is_slowdown].append(cp)
    for suspicions in by_place.values():
        with isolated(*[cp.series for cp in suspicions]):
            for group in groups(suspicions):
                decide_group(group)


def follow_spokesmen() -> None:
    """Blame the machine for the suspicions whose representative was measured again and refuted.

    If it was confirmed or could not be settled, they are ripe and are measured with their own brackets.
    """
    for cp in SPOKEN_FOR_IN_VAIN.rows("series__machine", "spoken_for_by__series__benchmark"):
        spokesman = cp.spoken_for_by
        assert spokesman is not None
        if spokesman.status == Status.REFUTED:
            why = f"moved with many series of {cp.series.machine}, and pairs do not show it: {spokesman.note}"
            ChangePoint.objects.filter(pk=spokesman.pk, status=Status.REFUTED).update(status=Status.MACHINE, note=why)
        blame_machine([cp], f"{spokesman.series.benchmark.name}, measured again for all of them, did not move")


def groups(suspicions: list[ChangePoint]) -> Iterator[SuspicionGroup]:
    """Group suspicions of one machine and branch by place: ranges that overlap or touch belong together."""
    numbers = positions_of(suspicions[0].branch, {end for cp in suspicions for end in (cp.before_id, cp.commit_id)})
    placed = [cp for cp in suspicions if cp.before_id in numbers and cp.commit_id in numbers]
    placed.sort(key=lambda cp: (numbers[cp.commit_id], cp.pk))
    members: list[ChangePoint] = []
    for cp in placed:
        if members and numbers[cp.before_id] > numbers[members[-1].commit_id]:
            yield group_of(members, numbers)
            members = []
        members.append(cp)
    if members:
        yield group_of(members, numbers)


def group_of(members: list[ChangePoint], numbers: dict[int, int]) -> SuspicionGroup:
    slower = sorted(slowdown(cp.series.metric, common.log_shift([1.0], [cp.ratio]) or 0.0) for cp in members)
    first, last = (min(numbers[cp.before_id] for cp in members), max(numbers[cp.commit_id] for cp in members))
    return SuspicionGroup(list(members), first, last, slower[len(slower) // 2])


def slowdown(metric: str, move: float) -> float:
    """The log ratio of a metric with the sign turned so that values above zero are worse."""
    return move if METRICS[metric].better == Direction.LOWER else -move


def decide_group(group: SuspicionGroup) -> None:
    cp = group.members[0]
    if not group.usual or decided_before(group):
        return
    if not common.is_common(moves(cp, group), group.usual):
        return
    votes = dict(evidence_on(group))
    cause = common.cause_by_votes(votes.values())
    if cause == MoveCause.MACHINE:
        why = "; ".join(sentence for sentence, vote in votes.items() if vote == MoveCause.MACHINE)
        blame_machine(group.members, why)
    elif cause == MoveCause.UNKNOWN:
        member_ids = [member.pk for member in group.members if member != group.clearest]
        ChangePoint.objects.filter(pk__in=member_ids).update(spoken_for_by=group.clearest)


def decided_before(group: SuspicionGroup) -> bool:
    """Return whether these suspicions belong to an earlier group that is decided or being measured.

    If so, they are treated like that group.
    """
    cp = group.members[0]
    neighbours = ChangePoint.objects.filter(
        series__machine=cp.series.machine_id,
        kind=Kind.STEP,
        commit__positions__branch=cp.branch_id,
        commit__positions__number__range=(group.first, group.last),
    ).exclude(pk__in=[change.pk for change in group.members])
    same_way = [
        change for change in neighbours.select_related("series").distinct() if change.is_slowdown == cp.is_slowdown
    ]
    if any(change.status == Status.MACHINE for change in same_way):
        blame_machine(group.members, "moved with others that were found to have moved with the machine")
        return True
    spokesman = next(
        (change for change in same_way if change.status in ChangePoint.OPEN and change.speaks_for.exists()), None
    )
    if spokesman is not None:
        ChangePoint.objects.filter(pk__in=[change.pk for change in group.members]).update(spoken_for_by=spokesman)
    return spokesman is not None


def blame_machine(members: list[ChangePoint], why: str) -> None:
    """Mark these suspicions as moved by the machine: nobody is alerted, and nothing is measured again."""
    note = f"moved with {members[0].series.machine}, not with the code: {why}"
    ChangePoint.objects.filter(pk__in=[cp.pk for cp in members], status=Status.SUSPECTED).update(
        status=Status.MACHINE, note=note
    )


def watched_series(cp: ChangePoint) -> QuerySet[Series]:
    return Series.objects.filter(project=cp.series.project_id, machine=cp.series.machine_id, metric__in=TIMED)


def moves(cp: ChangePoint, group: SuspicionGroup) -> list[float]:
    """The log slowdown at the place of each watched series of the machine."""
    return list(moves_of({series.pk: series.metric for series in watched_series(cp)}, cp, group).values())


def moves_of(metrics: dict[int, str], cp: ChangePoint, group: SuspicionGroup) -> dict[int, float]:
    """By series id: its log slowdown at the place; only series with points on both sides of it."""
    rows = lines.points(list(metrics), cp.branch, max(0, group.first - 4 * BEFORE), group.last + 4 * AFTER)
    before: dict[int, list[float]] = defaultdict(list)
    after: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        if not row.flags and not group.first < row.position < group.last:
            (before if row.position <= group.first else after)[row.series_id].append(row.value)
    shifts = {pk: common.log_shift(before[pk][-BEFORE:], after[pk][:AFTER]) for pk in metrics}
    return {pk: slowdown(metrics[pk], move) for pk, move in shifts.items() if move is not None}


def evidence_on(group: SuspicionGroup) -> Iterator[tuple[str, MoveCause]]:
    """Yield the vote of each source that costs nothing, with the sentence for a verdict against the machine."""
    cp = group.members[0]
    yield "both commits build the same server", by_binaries(cp)
    yield "other machines did not move", by_other_machines(cp, group)
    when = first_measured_at(cp)
    if when is not None:
        yield "the canary moved at that time", by_canary(cp, when, group.usual)
        yield "other projects on it moved at that time", by_other_projects(cp, when, group.usual)
        yield "it follows the time of measuring, not the order of commits", by_order(cp, when, group)


def first_measured_at(cp: ChangePoint) -> datetime | None:
    """When the machine first measured the new level: the end of its first attempt at the commit."""
    measurements = lines.point_measurements().filter(series=cp.series, commit=cp.commit_id)
    return measurements.order_by("attempt__ended_at").values_list("attempt__ended_at", flat=True).first()


def by_binaries(cp: ChangePoint) -> MoveCause:
    return MoveCause.MACHINE if same_binary(cp) else MoveCause.UNKNOWN


def vote(took_part: bool | None, *, with_it: MoveCause, without: MoveCause) -> MoveCause:
    return MoveCause.UNKNOWN if took_part is None else with_it if took_part else without


def by_other_machines(cp: ChangePoint, group: SuspicionGroup) -> MoveCause:
    """The vote of other machines: a change of the code is seen by every machine that measured it."""
    names = {member.series.benchmark_id for member in group.members}
    elsewhere = Series.objects.filter(project=cp.series.project_id, benchmark__in=names, metric__in=TIMED)
    metrics = dict(elsewhere.exclude(machine=cp.series.machine_id).values_list("pk", "metric"))
    slowdowns = sorted(moves_of(metrics, cp, group).values()) if metrics else []
    if len(slowdowns) < 2:
        return MoveCause.UNKNOWN
    return vote(
        common.took_part(slowdowns[len(slowdowns) // 2], group.usual), with_it=MoveCause.CODE, without=MoveCause.MACHINE
    )


def by_canary(cp: ChangePoint, when: datetime, usual: float) -> MoveCause:
    """The vote of the canary. It never changes: if it moved too, it was the machine; if not, that proves nothing."""
    checks = CanaryCheck.objects.filter(canary__machine=cp.series.machine_id, ratio__isnull=False, series__isnull=False)
    old = median_slowdown(checks.filter(at__lt=when).order_by("-at")[:CHECKS])
    new = median_slowdown(checks.filter(at__gte=when).order_by("at")[:CHECKS])
    move = None if old is None or new is None else new - old
    return vote(
        None if move is None else common.took_part(move, usual), with_it=MoveCause.MACHINE, without=MoveCause.UNKNOWN
    )


def median_slowdown(checks: QuerySet[CanaryCheck]) -> float | None:
    """The median log slowdown of some checks; None without checks."""
    rows = checks.values_list("series__metric", "ratio")
    slowdowns = sorted(
        slowdown(metric, common.log_shift([1.0], [ratio]) or 0.0) for metric, ratio in rows if metric and ratio
    )
    return slowdowns[len(slowdowns) // 2] if slowdowns else None


def by_other_projects(cp: ChangePoint, when: datetime, usual: float) -> MoveCause:
    """The vote of other projects' series on the machine, in order of time: commits of this project cannot move them."""
    measurements = (
        lines.clean_measurements()
        .filter(series__machine=cp.series.machine_id, series__metric__in=TIMED)
        .exclude(series__project=cp.series.project_id)
    )
    columns = ("series_id", "series__metric", "value")
    old: dict[tuple[int, str], list[float]] = defaultdict(list)
    new: dict[tuple[int, str], list[float]] = defaultdict(list)
    for side, rows in (
        (old, measurements.filter(attempt__ended_at__lt=when).order_by("-attempt__ended_at")),
        (new, measurements.filter(attempt__ended_at__gte=when).order_by("attempt__ended_at")),
    ):
        for pk, metric, value in rows.values_list(*columns)[:VALUES]:
            side[pk, metric].append(value)
    slowdowns = sorted(
        slowdown(key[1], move) for key in old if (move := common.log_shift(old[key], new.get(key, []))) is not None
    )
    if len(slowdowns) < 2:
        return MoveCause.UNKNOWN
    has_moved = common.took_part(slowdowns[len(slowdowns) // 2], usual)
    return vote(has_moved, with_it=MoveCause.MACHINE, without=MoveCause.UNKNOWN)


def by_order(cp: ChangePoint, when: datetime, group: SuspicionGroup) -> MoveCause:
    """The vote of older commits that were measured after the move: if they show the new level, it is the machine."""
    metrics = dict(watched_series(cp).values_list("pk", "metric"))
    clean = lines.clean_measurements().filter(series__in=metrics)
    near = clean.filter(
        commit__positions__branch=cp.branch_id,
        commit__positions__number__range=(max(0, group.first - 4 * BEFORE), group.first),
    )
    early: dict[int, list[float]] = defaultdict(list)
    late: dict[int, list[float]] = defaultdict(list)
    for pk, value, ended_at in near.values_list("series_id", "value", "attempt__ended_at"):
        (late if ended_at and ended_at > when else early)[pk].append(value)
    slowdowns = sorted(
        slowdown(metrics[pk], move)
        for pk in late
        if (move := common.log_shift(early.get(pk, []), late[pk])) is not None
    )
    if len(slowdowns) < common.FEWEST:
        return MoveCause.UNKNOWN
    has_moved = common.took_part(slowdowns[len(slowdowns) // 2], group.usual)
    return vote(has_moved, with_it=MoveCause.MACHINE, without=MoveCause.CODE)
