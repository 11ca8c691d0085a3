"""What paired runs show about a change point: whether it exists, and on which side of it a commit is."""

import math
from collections import Counter
from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, Sum

from speedtrack.alerts.detection import driftsteps
from speedtrack.alerts.lines.effects import effect_unless_stated
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.pairs import brackets, sizes
from speedtrack.alerts.pairs.pairing import compared, measured_pairs, measured_runs, measuring_s, sample_pairs, suite_of
from speedtrack.runs.models import ENDED, Measurement, Reason, Result, Run, Trial
from speedtrack.runs.models import Status as RunStatus
from speedtrack.runs.queue import jobs
from speedtrack.stats.comparing import bisect, compare, narrow, sequential
from speedtrack.stats.comparing.bisect import CommitLevel
from speedtrack.stats.comparing.compare import Comparison, benjamini_hochberg
from speedtrack.stats.comparing.narrow import CommitPlacement


@dataclass(frozen=True)
class Budget:
    """How many pairs, or counts of each side, settle a suspicion.

    ``first``: of the first round. ``usual``: after so many it is left unsettled. ``most``: including those that an idle
    machine measures. ``timed``: the suite limits the time; ``usual`` and ``most`` are then what that time allows.
    """

    first: int
    usual: int
    most: int
    timed: bool = False


LEVEL = 0.01  # probability that a suspicion without a change is confirmed, over all its rounds
PAIRS = Budget(sequential.FEWEST, 80, 160)
COUNTS = Budget(compare.FEWEST_COUNTS, 24, 48)  # of a counted metric; each round after the second doubles them
COUNT_LOOKS = 5
MOST_PAIRS = 1000  # whatever the suite's time allows: judging them takes seconds
LEAST_LEFT = 0.25  # of a confirmed change; where less seems left, its other parts were misplaced

Answer = Verdict.Answer


def judge_rounds(run: Run, changes: list[ChangePoint]) -> list[tuple[ChangePoint, Verdict | None]]:
    """Judge each change by all pairs of its bracket's ends so far; the verdict is None if no pair is clean.

    The error level holds for all change points of the run together (Benjamini-Hochberg). Changes that this correction
    does not accept are unknown.
    """
    comparisons: list[tuple[ChangePoint, Comparison | None]] = []
    for cp in changes:
        with isolated(cp.series):
            comparisons.append((cp, compare_ends(run, cp)))
    acceptances = iter(benjamini_hochberg([c.p for _, c in comparisons if c], level_of(changes)))
    ends = run.base_id, run.commit_id
    return [(cp, write_verdict(cp, ends, answer_of(c, next(acceptances)), c) if c else None) for cp, c in comparisons]


def answer_of(comparison: Comparison, significant: bool) -> Answer:
    taken_back = comparison.answer == compare.ComparisonAnswer.DIFFERENT and not significant
    return Answer.UNKNOWN if taken_back else Answer(comparison.answer)


def may_tell(run: Run, cp: ChangePoint) -> bool:
    """Return whether the pairs of another suspicion's run decide this change point, now or once they are measured.

    A run measures every metric of its benchmarks, but repeats a trial only for flags that void the metrics it is for. A
    counting run measures nothing but counts, and no other run does.
    """
    if cp.metric.counted or jobs.is_counted(run):
        return cp.metric.counted and jobs.is_counted(run)
    return cp.metric.voided_by.issubset(jobs.flags_to_repeat(run)) or bool(sample_pairs([run], cp.series))


def pairs_spent(cp: ChangePoint, base_id: int | None, commit_id: int) -> int:
    """The number of pairs of two commits that were measured for the change point, including flagged ones."""
    return measured_runs(cp, base_id, commit_id).aggregate(spent=Sum("trials"))["spent"] or 0


def usual_budget(cp: ChangePoint) -> Budget:
    return COUNTS if cp.metric.counted else PAIRS


def budget_of(cp: ChangePoint, base_id: int | None, commit_id: int) -> Budget:
    """The budget for these two commits. If the suite limits the time, it follows from the time of the pairs so far."""
    budget, allowed_s = usual_budget(cp), suite_of(cp).settling_s
    if allowed_s is None:
        return budget
    spent, spent_s = pairs_spent(cp, base_id, commit_id), seconds_spent(cp, base_id, commit_id)
    most = COUNTS.most if cp.metric.counted else MOST_PAIRS
    fitting = int(spent * allowed_s / spent_s) if spent_s else most
    pairs = max(budget.first, min(most, fitting))
    return Budget(budget.first, pairs, pairs, timed=True)


def seconds_spent(cp: ChangePoint, base_id: int | None, commit_id: int) -> float:
    """Seconds for which the pairs of two commits were measured for the change point, with others of the same runs."""
    return measuring_s(measured_runs(cp, base_id, commit_id))


def level_of(group: list[ChangePoint]) -> float:
    """The error level of one look.

    Pairs may be looked at any number of times; the looks at counts share the level.
    """
    return LEVEL / COUNT_LOOKS if any(cp.metric.counted for cp in group) else LEVEL


def measured_all(run: Run, cp: ChangePoint) -> bool:
    """Return whether the run measured the benchmark as often as planned, so that more pairs of it can be had."""
    if run.status == RunStatus.SUCCEEDED:
        return True
    accepted = Exists(Measurement.objects.filter(attempt=OuterRef("attempt"), accepted=True))
    results = Result.objects.filter(accepted, attempt__run=run, benchmark=cp.series.benchmark)
    return results.annotate(measured=Count("trials")).filter(measured__gte=run.trials).exists()


def compare_ends(run: Run, cp: ChangePoint) -> Comparison | None:
    """The comparison of base and head over all clean pairs; None without any."""
    pairs = pairs_of_ends(run, cp)
    if not pairs:
        return None
    effect, level = smallest_effect_of(cp), level_of([cp])
    return compared(cp.metric, pairs, effect, level=level, seed=cp.pk, suspected=cp.ratio)


def pairs_of_ends(run: Run, cp: ChangePoint) -> list[tuple[float, float]]:
    """The clean pairs of the run's two commits so far. Of a drift, with the steps between them removed."""
    steps = driftsteps.steps_seen_by_pairs(cp) if cp.kind == ChangePoint.Kind.DRIFT else 1.0
    return [(base * steps, head) for base, head in measured_pairs(cp, run.base_id, run.commit_id)]


def smallest_effect_of(cp: ChangePoint) -> float:
    return suite_of(cp).smallest_effect(cp.metric.name, effect_unless_stated(cp.series))


def next_round(run: Run, group: list[ChangePoint]) -> int:
    """How many more pairs, or counts of each side, these change points need, as their pairs so far suggest.

    At most as many as the one with the smallest rest has left of its usual budget, or of the whole once that is used
    up.
    """
    budgets = []
    for cp in group:
        budget, spent = budget_of(cp, run.base_id, run.commit_id), pairs_spent(cp, run.base_id, run.commit_id)
        budgets.append((budget.usual if spent < budget.usual else budget.most) - spent)
    return max(1, min(min(budgets), max(pairs_wanted(run, cp, LEVEL / len(group)) for cp in group)))


def pairs_wanted(run: Run, cp: ChangePoint, level: float) -> int:
    spent = pairs_spent(cp, run.base_id, run.commit_id)
    if cp.metric.counted or spent >= budget_of(cp, run.base_id, run.commit_id).usual:
        return spent
    return compare.pairs_to_settle(
        pairs_of_ends(run, cp), smallest_effect=smallest_effect_of(cp), level=level, suspected=cp.ratio
    )


def write_verdict(
    cp: ChangePoint, ends: tuple[int | None, int], answer: Answer, finding: Comparison | CommitPlacement
) -> Verdict:
    """Write what the pairs of two commits show about the change point, once per number of pairs."""
    pairs, p = (finding.n[0], finding.p) if isinstance(finding, Comparison) else (finding.n, None)
    fields = {"answer": answer, "ratio": finding.ratio, "low": finding.low, "high": finding.high, "p": p}
    base, commit = ends
    verdict, _ = Verdict.objects.update_or_create(
        change_point=cp, base_id=base, commit_id=commit, pairs=pairs, defaults=fields
    )
    return verdict


def flags_of(run: Run, cp: ChangePoint) -> str:
    """Which flags void the change point's metric in a run's trials, the most frequent first."""
    results = Result.objects.filter(attempt__run=run, attempt__token=run.lease_token, benchmark=cp.series.benchmark)
    trials = Trial.objects.filter(result__in=results)
    count = Counter(flag for flags in trials.values_list("flags", flat=True) for flag in flags)
    shares = [f"{flag} in {number} of them" for flag, number in count.most_common() if flag in cp.metric.voided_by]
    return ", ".join(shares) or "their samples are no longer stored"


def read_pairs_of_others(cp: ChangePoint) -> None:
    """Link the change point to the runs that narrowed another change and have measured its metric, too."""
    cp.runs.add(*(run for run in brackets.paired_runs_within(cp) if run.done and may_tell(run, cp)))


def read_side(cp: ChangePoint) -> Verdict | None:
    """The verdict on a commit inside the range that was measured against the last one of the old level.

    Or on a cause that was tried against the commit before it: these pairs count only if they show the change. None if
    no verdict names a side. Unknown verdicts are stored too.
    """
    inside = list(brackets.commits_between(cp.branch, cp.before_id, cp.commit_id).values_list("pk", flat=True))
    runs = cp.runs.filter(
        base__in=[cp.before_id, *inside],
        commit__in=[*inside, cp.commit_id],
        reason=Reason.BISECT,
        status=RunStatus.SUCCEEDED,
    )
    for base_id, commit_id in set(runs.values_list("base", "commit")) - {(cp.before_id, cp.commit_id)}:
        placement = placement_of(cp, base_id, commit_id)
        if placement is None or (base_id != cp.before_id and placement.side != CommitLevel.NEW):
            continue
        verdict = write_verdict(cp, (base_id, commit_id), Answer(placement.side), placement)
        if verdict.answer != Answer.UNKNOWN:
            return verdict
    return None


def placement_of(cp: ChangePoint, base_id: int, commit_id: int) -> CommitPlacement | None:
    """On which side of the change a commit is, by its pairs with the other one; None without any."""
    pairs, ratio, error = measured_pairs(cp, base_id, commit_id), ratio_to_place(cp), error_per_step(cp)
    if not pairs:
        return None
    if cp.metric.counted:
        return narrow.place_counts(pairs, ratio=ratio, error=error / COUNT_LOOKS)
    return narrow.place_commit(pairs, ratio=ratio, error=error)


def ratio_to_place(cp: ChangePoint) -> float:
    """The ratio by which commits are placed on a side: the smaller end of the interval of the change in the range.

    That is what the bracket's pairs confirmed, unless a clear part of it was passed on the way: of two equal changes in
    one bracket, each is half of what was confirmed, and both would be taken for the old level.
    """
    size = sizes.size_left(cp)
    if size and LEAST_LEFT < size.log / math.log(cp.ratio) < 1 and size.is_apart(sizes.size_of(cp)):
        return narrow.cautious_ratio(size.ratio, *size.interval)
    return narrow.cautious_ratio(cp.ratio, cp.low, cp.high)


def is_left_over(cp: ChangePoint) -> bool:
    """Return whether the last commit of the bracket is left only because all others are on the old level."""
    passed = cp.verdicts.filter(answer=Answer.OLD).exists()
    is_shown = cp.verdicts.filter(answer=Answer.NEW, commit=cp.commit_id).exists()
    return passed and not is_shown and cp.commit_id == sizes.bracket_verdict(cp).commit_id


def shows_change(cp: ChangePoint) -> bool:
    """Return whether pairs of the ends of the range show the change, and store the verdict."""
    placement = placement_of(cp, cp.before_id, cp.commit_id)
    if placement is None:
        return False
    write_verdict(cp, (cp.before_id, cp.commit_id), Answer(placement.side), placement)
    return placement.side == CommitLevel.NEW


def error_per_step(cp: ChangePoint) -> float:
    """The probability of a wrong side that one step may have.

    Besides halving, one step may try a cause that another series names, and two the commits beside a step of the line.
    """
    bracket = sizes.bracket_verdict(cp)
    inside = brackets.commits_between(cp.branch, bracket.base_id, bracket.commit_id).count()
    return bisect.error_per_step(inside, besides=3)


def pairs_to_place(cp: ChangePoint) -> int:
    """How many pairs usually show the side of a commit, given the noise of those that confirmed the change."""
    if cp.metric.counted:
        return COUNTS.first
    bracket = sizes.bracket_verdict(cp)
    pairs = measured_pairs(cp, bracket.base_id, bracket.commit_id)
    if not pairs:
        return narrow.MOST
    return narrow.pairs_needed(pairs, ratio=ratio_to_place(cp), error=error_per_step(cp))


def trials_spent(cp: ChangePoint, base_id: int, commit_id: int) -> int:
    """The number of pairs of two commits that narrowing has measured of the change point's benchmark."""
    runs = narrowing_runs(cp, base_id, commit_id)
    return sum(run.trials for run in runs if run.status == RunStatus.SUCCEEDED)


def narrowing_runs(cp: ChangePoint, base_id: int, commit_id: int) -> list[Run]:
    """The runs of two commits for narrowing the change point that have ended, whether they measured anything or not."""
    ends = {"base": base_id, "commit": commit_id, "benchmark_set__benchmarks": cp.series.benchmark_id}
    runs = cp.runs.filter(reason=Reason.BISECT, status__in=ENDED, **ends)
    return [run for run in runs if jobs.is_counted(run) == cp.metric.counted]
