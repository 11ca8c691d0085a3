"""Narrow a confirmed change to one commit: each step measures one of its range against the last of the old level."""

from collections import deque
from collections.abc import Sequence

from django.db.models import Q

from speedtrack.alerts.detection import causes, history
from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.pairs import brackets, pairing, sizes
from speedtrack.alerts.pairs.brackets import Bracket
from speedtrack.alerts.settling import splitting, verdicts
from speedtrack.alerts.settling.unsettled import RELATED, SETTLING_CHANGES, end_settling
from speedtrack.projects.models import Commit
from speedtrack.runs.models import SETTLING, Reason, Run
from speedtrack.runs.models import Status as RunStatus
from speedtrack.runs.planning.questions import plan_pairs
from speedtrack.stats.comparing import bisect
from speedtrack.stats.comparing.bisect import CommitRange
from speedtrack.stats.comparing.narrow import MOST

Answer = Verdict.Answer
Status = ChangePoint.Status
#: By the ends of two ranges, (before, commit) of both: whether they share a commit.
Overlaps = dict[tuple[int | None, int, int | None, int], bool]


def narrow_confirmed() -> None:
    """Narrow each confirmed change: read the pairs that have ended, then plan those of the next commit.

    Among change points whose ranges overlap on one machine the clearest leads: it chooses the commit to measure next,
    and the others read the same pairs. One that comes while these are measured waits, as they may name its commit. If
    nothing is left to measure for the leader, the clearest of the others leads.
    """
    narrowing: list[ChangePoint] = []
    under_way: list[ChangePoint] = []
    needed: dict[int, int] = {}
    settling = SETTLING_CHANGES.rows(*RELATED)
    confirmed = Verdict.objects.filter(change_point__in=settling, answer=Answer.DIFFERENT)
    confirmed_ids = set(confirmed.values_list("change_point", flat=True))
    being_measured = Run.objects.unfinished().filter(change_points__in=settling)
    measured_ids = set(being_measured.values_list("change_points", flat=True))
    for cp in settling:
        with isolated(cp.series):
            if cp.kind != ChangePoint.Kind.STEP or cp.pk not in confirmed_ids:
                continue
            if cp.pk in measured_ids:
                under_way.append(cp)
            else:
                verdicts.read_pairs_of_others(cp)
                read_sides(cp)
                needed[cp.pk] = verdicts.pairs_to_place(cp)
                narrowing.append(cp)
    overlaps: Overlaps = {}
    clearest_first = deque(sorted(narrowing, key=lambda cp: (needed[cp.pk], cp.pk)))
    while clearest_first:
        leader = clearest_first.popleft()
        if leader.status != Status.SETTLING or waits(leader, under_way, overlaps):
            continue
        followers = [cp for cp in clearest_first if follows(cp, leader, overlaps)]
        with isolated(*[cp.series for cp in (leader, *followers)]):
            if narrow(leader, followers):
                clearest_first = deque(cp for cp in clearest_first if cp not in followers)


def is_narrowing(cp: ChangePoint) -> bool:
    """Return whether the change is confirmed to lie in its range, so that only the range is narrowed now."""
    return cp.verdicts.filter(answer=Answer.DIFFERENT).exists()


def goes_along(cp: ChangePoint, leader: ChangePoint) -> bool:
    """Return whether a change that is being settled is of the same machine and direction."""
    same_machine = cp.series.machine_id == leader.series.machine_id
    return cp.status == Status.SETTLING and same_machine and cp.is_slowdown == leader.is_slowdown


def follows(cp: ChangePoint, leader: ChangePoint, overlaps: Overlaps) -> bool:
    """Return whether two change points may have one cause: the same machine, the same direction, overlapping ranges.

    What the database says of their ranges is kept in ``overlaps``: of a commit that slows hundreds of benchmarks down,
    nearly all have the same range.
    """
    if not goes_along(cp, leader):
        return False
    ends = cp.before_id, cp.commit_id, leader.before_id, leader.commit_id
    if ends not in overlaps:
        overlaps[ends] = ChangePoint.objects.filter(pk=cp.pk).overlapping(leader).exists()
    return overlaps[ends]


def waits(cp: ChangePoint, under_way: list[ChangePoint], overlaps: Overlaps) -> bool:
    """Return whether a change that is being measured may have the same cause; if so, link the change point to its runs.

    Without that link the dispatcher would ask for a round of settling at every tick.
    """
    leader = next((change for change in under_way if follows(cp, change, overlaps)), None)
    if leader is None:
        return False
    cp.runs.add(*Run.objects.unfinished().filter(change_points=leader))
    return True


def read_sides(cp: ChangePoint) -> None:
    """Narrow the range to the commits whose side the pairs have shown."""
    while verdict := verdicts.read_side(cp):
        if verdict.answer == Answer.NEW:
            cp.before, cp.commit = verdict.base, verdict.commit
        else:
            cp.before = verdict.commit
        cp.save(update_fields=["before", "commit"])


def narrow(leader: ChangePoint, followers: list[ChangePoint]) -> bool:
    """Plan the measurement of the next commit of the leader's range; return whether there was one left to measure.

    If no commit is left to try, or none can be measured any more, the leader is confirmed. A run counts instructions or
    measures pairs: change points that the leader's run does not decide wait for it. If a force push took the commits
    off the branch meanwhile, nobody needs the answer.
    """
    if not brackets.ensure_branch(leader):
        end_settling(leader, Status.UNSETTLED, f"its commits are no longer on {leader.branch}")
        return False
    ends = next_ends(leader)
    why = why_not_narrowed(leader) if ends else ""
    if ends is None or why:
        is_last = ends in (None, (leader.before_id, leader.commit_id))
        if is_last and verdicts.is_left_over(leader) and not verdicts.shows_change(leader):
            name_no_commit(leader)
        leader.note += f"; not narrowed further: {why}" if why else ""
        splitting.split_off_rest(leader)
        end_settling(leader, Status.CONFIRMED, leader.note)
        for cp in followers:
            if cp.series.benchmark_id == leader.series.benchmark_id:
                adopt_range(cp, leader)
        return False
    group = [leader, *followers]
    pairs = max(verdicts.pairs_to_place(leader), verdicts.trials_spent(leader, *ends))
    alike = [cp for cp in group if cp.metric.counted == leader.metric.counted]
    run = plan_pairs(pairing.question_of(alike, *ends, Reason.BISECT, pairs))
    for cp in group:
        cp.runs.add(run)
    return True


def why_not_narrowed(cp: ChangePoint) -> str:
    """Why no further commit of a change's range is measured; empty if one can be."""
    if why := history.why_not_measurable(cp.series):
        return why
    newest = cp.runs.filter(reason=Reason.BISECT).order_by("-pk").first()
    return f"run {newest.pk} was cancelled" if newest and newest.status == RunStatus.CANCELLED else ""


def name_no_commit(cp: ChangePoint) -> None:
    """Set the range of a change to its whole bracket: no single commit of it shows the change."""
    bracket = sizes.bracket_verdict(cp)
    cp.before, cp.commit = bracket.base, bracket.commit
    cp.note += "; no commit of the range shows it by itself"
    cp.save(update_fields=["before", "commit"])


def next_ends(cp: ChangePoint) -> tuple[int, int] | None:
    """The ids of the two commits to measure next; None if no commit is left to try.

    They are a cause that another series has named and the commit before it; otherwise the last commit of the old level
    and the middle one of the range. A commit that is left because all others were passed is measured itself before it
    is blamed.
    """
    numbers = brackets.positions_of(cp.branch, [cp.before_id, cp.commit_id])
    first, last = numbers[cp.before_id], numbers[cp.commit_id]
    cause = causes.untried_cause(cp, Bracket(cp.before_id, cp.commit_id, first, last, first, last))
    if cause and last - first > 1:
        return cause.base_id, cause.commit_id
    if middle := next_commit(cp):
        return cp.before_id, middle.pk
    is_untold = verdicts.is_left_over(cp) and not verdicts.narrowing_runs(cp, cp.before_id, cp.commit_id)
    return (cp.before_id, cp.commit_id) if is_untold else None


def next_commit(cp: ChangePoint) -> Commit | None:
    """The next commit of the range to measure, of those that can be; None if none is left.

    It is one beside the step that the line shows, or the middle one. A commit with the same build as its parent
    cannot be the cause: the range shrinks past it.
    """
    runs = Run.objects.filter(machine=cp.series.machine)
    same_as_parent = Q(runs__in=runs.exclude(linked=None))
    unfit = Q(builds__succeeded=False) | Q(runs__in=runs.filter(reason__in=SETTLING, status=RunStatus.FAILED))
    between = brackets.commits_between(cp.branch, cp.before_id, cp.commit_id)
    fit = list(between.exclude(unfit | same_as_parent))
    if not between.exclude(same_as_parent).exists() and (last := between.last()):
        cp.before = last
        cp.save(update_fields=["before"])
    nearest = bisect.middles(numbers_beside_step(cp, fit) or range(1, len(fit) + 1), CommitRange(0, len(fit) + 1))
    middle = fit[nearest[-1] - 1] if nearest else None
    if middle and verdicts.trials_spent(cp, cp.before_id, middle.pk) >= MOST:
        cp.note += f"; not narrowed further: pairs did not show on which side {middle.short} is"
        return None
    return middle


def numbers_beside_step(cp: ChangePoint, fit: Sequence[Commit]) -> list[int]:
    """Those of the commits, counted from 1, that stand beside the step which the line shows in the change's bracket.

    Empty if halving takes no more steps. If pairs contradict the line at one of the two commits, the other one is no
    longer in the range.
    """
    bracket = sizes.bracket_verdict(cp)
    numbers = brackets.positions_of(cp.branch, [bracket.base_id, bracket.commit_id])
    line = lines.points([cp.series_id], cp.branch, numbers[bracket.base_id], numbers[bracket.commit_id])
    clean = [point for point in line if not point.flags]
    after = bisect.clear_step([point.value for point in clean], cp.ratio - 1)
    if after is None:
        return []
    last_old, first_new = clean[after - 1], clean[after]
    beside = {last_old.commit_id, first_new.commit_id}
    numbers_beside = [number for number, commit in enumerate(fit, 1) if commit.pk in beside]
    between = brackets.commits_between(cp.branch, last_old.commit_id, first_new.commit_id).count()
    return numbers_beside if len(numbers_beside) + bisect.halvings(between) < bisect.halvings(len(fit)) else []


def adopt_range(cp: ChangePoint, leader: ChangePoint) -> None:
    """Confirm a change point at the range of the clearest one of its benchmark and machine: they have one cause."""
    cp.before, cp.commit = leader.before, leader.commit
    cp.save(update_fields=["before", "commit"])
    splitting.split_off_rest(cp)
    end_settling(cp, Status.CONFIRMED, f"{cp.note}; placed with {leader.metric.title}, which shows it more clearly")
