"""What paired runs show about a change point: whether it is there, and on which side of it a commit is."""

import math
from collections import Counter
from typing import Any

from django.db.models import Sum

from speedtrack.alerts import brackets, drift
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.pairing import measured_pairs, measured_runs, sample_pairs, suite_of
from speedtrack.alerts.trouble import isolated
from speedtrack.projects.models import Commit
from speedtrack.runs import jobs
from speedtrack.runs.models import Reason, Run, Trial
from speedtrack.runs.models import Status as RunStatus
from speedtrack.stats import compare, narrow
from speedtrack.stats.compare import Comparison, benjamini_hochberg, fewest_pairs

LEVEL = 0.01  # probability that a suspicion without a change is confirmed, over all its rounds
LOOKS = 5  # rounds of pairs at most; the last is for a machine that has nothing else to do
PAIRS = fewest_pairs(LEVEL, LOOKS)  # in the first round
ROUNDS = (PAIRS, PAIRS, 2 * PAIRS, 4 * PAIRS, 8 * PAIRS)  # so each look from the second on has twice as many as before
COUNTS = compare.FEWEST_COUNTS  # of each side in the first round, if a metric is counted
COUNT_ROUNDS = (COUNTS, COUNTS, 2 * COUNTS, 4 * COUNTS, 8 * COUNTS)
WRONG_COMMIT = 0.005  # probability that narrowing ends at a wrong commit, over all its steps

Answer = Verdict.Answer


def judge_rounds(run: Run, waiting: list[ChangePoint]) -> list[tuple[ChangePoint, Verdict | None]]:
    """Judge each change by all pairs of the ends of its bracket so far; None if no pair is clean.

    The level holds over all change points of the run together (Benjamini-Hochberg); those it rejects are unknown.
    """
    found: list[tuple[ChangePoint, Comparison | None]] = []
    for cp in waiting:
        with isolated(cp.series):
            found.append((cp, compare_ends(run, cp)))
    kept = iter(benjamini_hochberg([c.p for _, c in found if c], LEVEL / LOOKS))
    return [(cp, verdict_on_ends(cp, run, answer_of(c, next(kept)), c) if c else None) for cp, c in found]


def answer_of(comparison: Comparison, significant: bool) -> Answer:
    taken_back = comparison.answer == compare.ComparisonAnswer.DIFFERENT and not significant
    return Answer.UNKNOWN if taken_back else Answer(comparison.answer)


def may_tell(run: Run, cp: ChangePoint) -> bool:
    """Will, or do, the pairs of another suspicion's run decide this one?

    A run measures every metric of its benchmarks, but repeats a trial only for flags that void those it is to tell. A
    counting run measures nothing but counts, and no other run does.
    """
    if cp.metric.counted or jobs.is_counted(run):
        return cp.metric.counted and jobs.is_counted(run)
    return cp.metric.voided_by.issubset(jobs.flags_to_repeat(run)) or bool(sample_pairs([run], cp.series))


def count_rounds(run: Run, cp: ChangePoint) -> int:
    """How many rounds of pairs of the run's two commits were measured for the change point."""
    return measured_runs(cp, run.base_id, run.commit_id).count()


def compare_ends(run: Run, cp: ChangePoint) -> Comparison | None:
    """Base against head over all clean pairs; None without any. For a drift without the steps between its ends."""
    steps = drift.steps_seen_by_pairs(cp) if cp.kind == ChangePoint.Kind.DRIFT else 1.0
    pairs = [(base * steps, head) for base, head in measured_pairs(cp, run.base_id, run.commit_id)]
    if len(pairs) < (COUNTS if cp.metric.counted else 1):
        return None
    effect = smallest_effect_of(cp)
    look = min(count_rounds(run, cp), LOOKS)
    if cp.metric.counted:
        return compare.settle_counts(
            pairs, smallest_effect=effect, level=LEVEL, looks=LOOKS, look=look, suspected=cp.ratio
        )
    return compare.settle_pairs(
        pairs, smallest_effect=effect, level=LEVEL, looks=LOOKS, look=look, seed=cp.pk, suspected=cp.ratio
    )


def smallest_effect_of(cp: ChangePoint) -> float:
    return suite_of(cp).smallest_effect(cp.metric.name, cp.metric.smallest_effect)


def rounds_for(group: list[ChangePoint]) -> tuple[int, ...]:
    """How many pairs, or counts of each side, each round of these suspicions has."""
    if group[0].metric.counted:
        return COUNT_ROUNDS
    return (max(PAIRS, fewest_pairs(LEVEL / len(group), LOOKS)), *ROUNDS[1:])


def verdict_on_ends(cp: ChangePoint, run: Run, answer: Answer, found: Comparison) -> Verdict:
    said = {"answer": answer, "ratio": found.ratio, "low": found.low, "high": found.high, "p": found.p}
    return write_verdict(cp, (run.base_id, run.commit_id), found.n[0], said)


def write_verdict(cp: ChangePoint, ends: tuple[int | None, int], pairs: int, said: dict[str, Any]) -> Verdict:
    """Write what so many pairs of two commits show about the change point, once per number of pairs."""
    base, commit = ends
    verdict, _ = Verdict.objects.update_or_create(
        change_point=cp, base_id=base, commit_id=commit, pairs=pairs, defaults=said
    )
    return verdict


def flags_of(run: Run, cp: ChangePoint) -> str:
    """Which flags void the change point's metric in a run's trials, the most frequent first."""
    trials = Trial.objects.filter(attempt__run=run, attempt__token=run.lease_token, benchmark=cp.series.benchmark)
    count = Counter(flag for flags in trials.values_list("flags", flat=True) for flag in flags)
    found = [f"{flag} in {number} of them" for flag, number in count.most_common() if flag in cp.metric.voided_by]
    return ", ".join(found) or "their samples are no longer stored"


def read_side(cp: ChangePoint) -> Verdict | None:
    """The verdict on a commit inside the range that was measured against the last one of the old level.

    None if no such verdict names a side; unknown verdicts are written too.
    """
    between = brackets.commits_between(cp.branch, cp.before_id, cp.commit_id)
    runs = cp.runs.filter(base=cp.before_id, commit__in=between, reason=Reason.BISECT, status=RunStatus.SUCCEEDED)
    for commit_id in set(runs.values_list("commit", flat=True)):
        pairs = measured_pairs(cp, cp.before_id, commit_id)
        if not pairs:
            continue
        found = narrow.place_commit(
            pairs, ratio=ratio_to_place(cp), error=error_per_step(cp), fewest=fewest_to_place(cp)
        )
        said = {"answer": Answer(found.side), "ratio": found.ratio, "low": found.low, "high": found.high}
        verdict = write_verdict(cp, (cp.before_id, commit_id), found.n, said)
        if verdict.answer != Answer.UNKNOWN:
            return verdict
    return None


def ratio_to_place(cp: ChangePoint) -> float:
    """The ratio by which commits are placed on a side: the cautious end of what the bracket's pairs confirmed."""
    return narrow.cautious_ratio(cp.ratio, cp.low, cp.high)


def error_per_step(cp: ChangePoint) -> float:
    """The probability of a wrong side that one step may have: WRONG_COMMIT shared by all steps the bracket can need."""
    bracket = cp.verdicts.filter(answer=Answer.DIFFERENT).latest("id")
    inside = brackets.commits_between(cp.branch, bracket.base_id, bracket.commit_id).count()
    return WRONG_COMMIT / max(1, math.ceil(math.log2(inside + 1)))


def pairs_to_place(cp: ChangePoint) -> int:
    """How many pairs usually show the side of a commit, given the noise of those that confirmed the change."""
    bracket = cp.verdicts.filter(answer=Answer.DIFFERENT).latest("id")
    pairs = measured_pairs(cp, bracket.base_id, bracket.commit_id)
    if not pairs:
        return narrow.MOST
    return narrow.pairs_needed(pairs, ratio=ratio_to_place(cp), error=error_per_step(cp), fewest=fewest_to_place(cp))


def fewest_to_place(cp: ChangePoint) -> int:
    return COUNTS if cp.metric.counted else narrow.FEWEST


def trials_spent(cp: ChangePoint, commit: Commit) -> int:
    """How many pairs of a commit against the last one of the old level were measured for the change point."""
    runs = cp.runs.filter(base=cp.before_id, commit=commit, reason=Reason.BISECT, status=RunStatus.SUCCEEDED)
    return runs.aggregate(spent=Sum("trials"))["spent"] or 0
