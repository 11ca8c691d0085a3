"""Are two sets of trials different? For independent sets, and for interleaved pairs, which settle a suspicion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from speedtrack.stats.arrays import Array, place_all, steps_of
from speedtrack.stats.comparing import sequential
from speedtrack.stats.comparing.confirmed import Z95, least_size
from speedtrack.stats.comparing.ranks import rank_sum_p, rank_sum_ps
from speedtrack.stats.comparing.resampling import (
    ROUNDING,
    interval_of_shift,
    is_counted,
    median_chances,
    resampled_interval,
    tail_share,
    walsh_averages,
)
from speedtrack.stats.scale import Scale
from speedtrack.stats.summary import CONFIDENCE, MAD_TO_SIGMA

MIN_SAMPLES = 5  # per side, or pairs: below it the answer is always unknown
SHIFTS = 64  # steps in which pairs are made smaller to find out by how much they exceeded the limit
LEVEL = 0.01
FEWEST_COUNTS = 4  # of a side: with three, processes of two equally likely levels would all agree once in 64 times
RESOLUTION = 1 / 20  # of the smallest effect: the noise of counts is assumed to be at least this large
EXCLUDED = 1 / 3  # of a suspected change: excluding this share of it refutes it, since suspicions overstate changes
MISSED = 0.15  # of the likelihood of no change: an effect with at most this likelihood is refuted
HASTE = 0.6  # of the pairs expected to settle a suspicion, before the next look


class ComparisonAnswer(StrEnum):
    DIFFERENT = "different"
    SAME = "same"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Comparison:
    """``ratio`` is after / before, [low, high] its 95% interval; ``p`` was compared with ``level``; n is per side."""

    answer: ComparisonAnswer
    ratio: float
    low: float
    high: float
    p: float
    level: float
    n: tuple[int, int]


class _Shift(NamedTuple):
    """An estimated shift on a scale, with its interval and p-value."""

    delta: float
    low: float
    high: float
    p: float


def compare_samples(
    before: Sequence[float], after: Sequence[float], *, smallest_effect: float, level: float = LEVEL, seed: int
) -> Comparison:
    """Compare independent trials: the ratio of medians, its bootstrap interval, the exact Mann-Whitney p-value.

    different: p <= level, the ratio is at least ``smallest_effect`` (0.01 is 1%) away from 1 and the interval
    excludes 1. same: the whole interval is within the smallest effect. unknown: neither, or fewer than five samples
    on a side (whose exact p cannot reach 1%). Values of zero or below are compared by difference: see `Scale`.
    An empty side: ValueError.
    """
    if not len(before) or not len(after):
        raise ValueError("nothing to compare: a side has no samples")
    scale = Scale.of([*before, *after])
    old, new = place_all(scale, before), place_all(scale, after)
    low, high = interval_of_shift(old, new, seed)
    shift = _Shift(float(np.median(new) - np.median(old)), low, high, rank_sum_p(before, after))
    return _judge(shift, scale, _Limits(smallest_effect, smallest_effect, level), (len(old), len(new)))


class IndependentSets(NamedTuple):
    """The trials of one comparison by `compare_samples`, with its arguments."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    smallest_effect: float
    seed: int


def compare_many(sets: Sequence[IndependentSets], *, level: float = LEVEL) -> list[Comparison]:
    """The answers of `compare_samples` to each of these, a hundred times as fast where no resampling is needed."""
    answers: list[Comparison | None] = [None] * len(sets)
    groups: dict[tuple[int, int], list[int]] = {}
    for index, samples in enumerate(sets):
        if all(map(is_counted, (samples.before, samples.after))) and min(*samples.before, *samples.after) > 0:
            groups.setdefault((len(samples.before), len(samples.after)), []).append(index)
        else:
            answers[index] = _compare_remembered(samples, level)
    for indices in groups.values():
        for index, answer in zip(indices, _compare_equal_sizes([sets[i] for i in indices], level), strict=True):
            answers[index] = answer
    return [answer for answer in answers if answer]


@lru_cache(maxsize=5000)
def _compare_remembered(samples: IndependentSets, level: float) -> Comparison:
    return compare_samples(
        samples.before, samples.after, smallest_effect=samples.smallest_effect, level=level, seed=samples.seed
    )


def _compare_equal_sizes(sets: Sequence[IndependentSets], level: float) -> list[Comparison]:
    """The answers for positive samples with equal numbers in each set, and with counted intervals."""
    before, after = (
        np.array(side) for side in zip(*((samples.before, samples.after) for samples in sets), strict=True)
    )
    old, new = (np.sort(np.log(side), axis=1) for side in (before, after))
    deltas = np.median(new, axis=1) - np.median(old, axis=1)
    n = (old.shape[1], new.shape[1])
    shifts = (new[:, :, None] - old[:, None, :]).reshape(len(sets), -1)
    chances = np.multiply.outer(median_chances(n[1]), median_chances(n[0])).ravel()
    order = np.argsort(shifts, axis=1)
    share, shifts = np.cumsum(chances[order], axis=1), np.take_along_axis(shifts, order, axis=1)
    ends = []
    for limit in (tail_share(min(n)) + ROUNDING, 1 - tail_share(min(n)) - ROUNDING):
        indices = np.minimum((share < limit).sum(axis=1), shifts.shape[1] - 1)
        ends.append(np.take_along_axis(shifts, indices[:, None], axis=1)[:, 0].tolist())
    shifts_of_sets = map(_Shift, deltas.tolist(), *ends, rank_sum_ps(before, after))
    effects, scale = (samples.smallest_effect for samples in sets), Scale()
    return [
        _judge(shift, scale, _Limits(effect, effect, level), n)
        for shift, effect in zip(shifts_of_sets, effects, strict=True)
    ]


def compare_exact(before: float, after: float, *, smallest_effect: float, noise: float = 0.0) -> Comparison:
    """Compare two single values. They are the same if their ratio is less than ``smallest_effect`` away from 1.

    ``noise``: the share by which two values may differ without a change. The interval extends this far to either side,
    and a ratio nearer to 1 than that is unknown, not different. With a value of zero or below, the ratio is 1 +
    difference / larger size: 0 to 5 is 2.0, 5 to 0 is 0.0, and two zeros are the same. ValueError for a value that is
    not finite.
    """
    if not (math.isfinite(before) and math.isfinite(after)):
        raise ValueError("a value is not a finite number: leave out what was not measured")
    size = max(abs(before), abs(after)) or 1.0
    ratio = after / before if min(before, after) > 0 else 1 + (after / size - before / size)
    apart = abs(ratio - 1)
    answer = ComparisonAnswer.DIFFERENT if apart >= noise else ComparisonAnswer.UNKNOWN
    if apart < smallest_effect:
        answer = ComparisonAnswer.SAME
    p = float(answer != ComparisonAnswer.DIFFERENT)
    return Comparison(answer, ratio, ratio / (1 + noise), ratio * (1 + noise), p=p, level=LEVEL, n=(1, 1))


def settle_pairs(
    pairs: Sequence[tuple[float, float]], *, smallest_effect: float, level: float, seed: int, suspected: float = 1.0
) -> Comparison:
    """Settle a suspicion by interleaved (base, head) pairs in the order of their blocks, after any number of them.

    ``suspected`` is the ratio in the history; only a change in its direction is tested (at 1 in both, with half of the
    level for each). The effect to distinguish from none is ``smallest_effect`` or, if that is more, EXCLUDED of the
    suspected change: a suspicion is the largest of many shifts, and the true change is often half of it.

    different: p <= level, the interval excludes 1, and the estimate is at least half the smallest effect away from 1
    (not the whole effect: half of all estimates of a change of just that size are smaller). same: the likelihood of the
    effect is at most MISSED of that of no change. unknown: more pairs are needed (`pairs_to_settle`).

    p is the reciprocal of the evidence for a change (`sequential.change_evidence`). However often it is computed, it
    falls to ``level`` for at most that share of suspicions without a change, as long as the order within each pair is
    random. Estimate: Hodges-Lehmann (1963) of the per-pair log ratios; its interval is a bootstrap of whole pairs. For
    a change that is different, the interval's end towards 1 takes the confirmation into account
    (`confirmed.least_size`): it is 1 if only the direction is known.
    """
    if not pairs:
        raise ValueError("nothing to compare: no pairs")
    scale, steps = _steps(pairs)
    evidence = _evidence(scale, steps, smallest_effect, suspected)
    means = walsh_averages(steps)
    low, high = resampled_interval(np.random.default_rng(seed), np.sort(steps), np.sort(means))
    delta, p = float(np.median(means)), math.exp(min(0.0, -evidence.change))
    least, n = scale.effect(smallest_effect / 2), len(steps)
    answer = ComparisonAnswer.UNKNOWN
    if n >= sequential.FEWEST:
        if p <= level and abs(delta) >= least and not low <= 0 <= high:
            answer = ComparisonAnswer.DIFFERENT
            change = _Shift(delta, low, high, p)
            overshoot = _overshoot(steps, change, _effect(scale, smallest_effect, suspected), level)
            low, high = _interval_of_confirmed(steps, change, min(overshoot, abs(delta) - least))
        elif evidence.effect <= math.log(MISSED):
            answer = ComparisonAnswer.SAME
    return Comparison(answer, scale.ratio(delta), scale.ratio(low), scale.ratio(high), p, level, (n, n))


def pairs_to_settle(
    pairs: Sequence[tuple[float, float]], *, smallest_effect: float, level: float, suspected: float = 1.0
) -> int:
    """How many more pairs to measure before the next look at a suspicion that is unknown."""
    n = len(pairs)
    if n < sequential.FEWEST:
        return sequential.FEWEST
    evidence = _evidence(*_steps(pairs), smallest_effect, suspected)
    return pairs_left(evidence.change, evidence.effect, n, level)


def pairs_left(change: float, effect: float, n: int, level: float) -> int:
    """The pairs before the next look, from the logarithms of the evidence of ``n`` pairs; at most ``n``.

    It is HASTE of the pairs that reach the nearer end if evidence grows as before. Looking too early costs a run of a
    few seconds, looking too late costs pairs of two seconds each.
    """
    to_different = n * (-math.log(level) - change) / change if change > 0 else math.inf
    to_same = n * (effect - math.log(MISSED)) / -effect if effect < 0 else math.inf
    return math.ceil(max(2.0, min(HASTE * min(abs(to_different), to_same), n)))


@dataclass(frozen=True)
class _Evidence:
    """Logarithms: ``change`` of the evidence for a change, ``effect`` of the likelihood of the effect against none."""

    change: float
    effect: float


def _evidence(scale: Scale, steps: Array, smallest_effect: float, suspected: float) -> _Evidence:
    """The evidence for the suspected direction, or for the better one of both; none for fewer than FEWEST pairs."""
    if len(steps) < sequential.FEWEST:
        return _Evidence(0.0, 0.0)
    effect = _effect(scale, smallest_effect, suspected)
    signs = np.array([1.0, -1.0] if suspected == 1 else [1.0] if suspected > 1 else [-1.0])
    rows = signs[:, None] * steps
    change = float(sequential.change_evidence(rows, effect).max()) - math.log(len(signs))
    return _Evidence(change, float(sequential.level_evidence(rows, effect).max()))


def _effect(scale: Scale, smallest_effect: float, suspected: float) -> float:
    """The effect to distinguish from none, on the scale."""
    apart = abs(suspected - 1) if scale.unit or suspected <= 0 else abs(math.log(suspected))
    return max(scale.effect(smallest_effect), EXCLUDED * apart)


def _overshoot(steps: Array, change: _Shift, effect: float, level: float) -> float:
    """How much smaller all steps could be without their evidence or their interval losing the change.

    ``change.p`` is what the evidence of one direction was made of, so its share of the level is kept.
    """
    sign = math.copysign(1.0, change.delta)
    shifts = np.linspace(0, min(abs(change.low), abs(change.high)), SHIFTS)
    evidence = sequential.change_evidence(sign * steps - shifts[:, None], effect)
    spent = float(evidence[0]) + math.log(change.p)  # by testing both directions
    enough = evidence - spent >= -math.log(level)
    return float(shifts[-1] if enough.all() else shifts[max(0, int(np.argmin(enough)) - 1)])


def _interval_of_confirmed(steps: Array, change: _Shift, overshoot: float) -> tuple[float, float]:
    """The interval of a confirmed change: the overshoot determines its end towards no change.

    Half of its width is at least that of Student's t: the bootstrap of seven or eight steps is too narrow.
    """
    from scipy.special import stdtrit  # here: processes that are idle need not hold scipy

    sign, n = math.copysign(1.0, change.delta), len(steps)
    student = float(steps.std(ddof=1)) / math.sqrt(n) * float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    reach = max(change.high - change.delta if sign > 0 else change.delta - change.low, student)
    near, far = least_size(abs(change.delta), reach / Z95, overshoot), abs(change.delta) + reach
    return (near, far) if sign > 0 else (-far, -near)


def _steps(pairs: Sequence[tuple[float, float]]) -> tuple[Scale, Array]:
    """The scale, and the step of each pair on it."""
    scale = Scale.of(value for pair in pairs for value in pair)
    return scale, steps_of(scale, pairs)


def settle_counts(
    pairs: Sequence[tuple[float, float]],
    *,
    smallest_effect: float,
    level: float,
    suspected: float = 1.0,
) -> Comparison:
    """Settle a suspicion about a count from (base, head) counts of two fresh processes with the same random bytes.

    The answers are those of `settle_pairs`, but a few pairs suffice. Estimate: the median of the log ratios. different:
    Student's t-test, and all pairs agree in direction. same: the interval from the median absolute deviation, so that
    one unlucky process does not keep the question open. The deviation is at least RESOLUTION of the smallest effect: a
    few equal counts do not prove that there is no noise.
    """
    if len(pairs) < FEWEST_COUNTS:
        raise ValueError(f"nothing to compare: fewer than {FEWEST_COUNTS} counts of a side")
    from scipy.special import stdtr, stdtrit  # here: processes that are idle need not hold scipy

    steps = np.log([head / base for base, head in pairs])
    n, delta, floor = len(pairs), float(np.median(steps)), RESOLUTION * smallest_effect
    error = max(float(steps.std(ddof=1)), floor) / math.sqrt(n)
    usual = max(MAD_TO_SIGMA * float(np.median(np.abs(steps - delta))), floor) / math.sqrt(n)
    p = 2 * float(stdtr(n - 1, -abs(float(steps.mean())) / error))
    reach = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    low, high = delta - error * reach, delta + error * reach
    nearest, furthest = delta - usual * reach, delta + usual * reach
    bound = max(math.log1p(smallest_effect), EXCLUDED * abs(math.log(suspected)))
    refuted = furthest < bound if suspected > 1 else nearest > -bound
    answer = ComparisonAnswer.UNKNOWN
    if p <= level and abs(delta) >= math.log1p(smallest_effect / 2) and (steps.min() > 0 or steps.max() < 0):
        answer = ComparisonAnswer.DIFFERENT
    elif max(abs(nearest), abs(furthest)) <= math.log1p(smallest_effect) or (suspected != 1 and refuted):
        answer = ComparisonAnswer.SAME
    return Comparison(answer, math.exp(delta), math.exp(low), math.exp(high), p, level, (n, n))


def benjamini_hochberg(p_values: Sequence[float], level: float) -> list[bool]:
    """The hypotheses to reject so that the false discovery rate is at most ``level`` (Benjamini & Hochberg 1995)."""
    ordered = sorted(p_values)
    passing = [p for rank, p in enumerate(ordered, start=1) if p <= level * rank / len(ordered)]
    return [bool(passing) and p <= passing[-1] for p in p_values]


class _Limits(NamedTuple):
    """Relative effects (0.01 is 1%): the smallest one for ``different``, and the largest one for ``same``."""

    different: float
    same: float
    level: float


def _judge(shift: _Shift, scale: Scale, limits: _Limits, n: tuple[int, int]) -> Comparison:
    least, most = scale.effect(limits.different), scale.effect(limits.same)
    answer = ComparisonAnswer.UNKNOWN
    if min(n) >= MIN_SAMPLES:
        if shift.p <= limits.level and abs(shift.delta) >= least and not shift.low <= 0 <= shift.high:
            answer = ComparisonAnswer.DIFFERENT
        elif -most <= shift.low and shift.high <= most:
            answer = ComparisonAnswer.SAME
    ratio, low, high = map(scale.ratio, shift[:3])
    return Comparison(answer, ratio, low, high, shift.p, limits.level, n)
