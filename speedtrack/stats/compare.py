"""Are two sets of trials different? For independent sets, and for interleaved pairs that settle a suspicion."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from speedtrack.stats.ranks import rank_sum_p, signed_rank_p
from speedtrack.stats.scale import Array, Scale
from speedtrack.stats.summary import CONFIDENCE, MAD_TO_SIGMA

MIN_SAMPLES = 5  # per side, or pairs: below it the answer is always unknown
RESAMPLES = 1999
LEVEL = 0.01
FEWEST_COUNTS = 3  # of a side
RESOLUTION = 1 / 20  # of the smallest effect: the noise of counts is taken to be at least so large
EXCLUDED = 1 / 4  # of a suspected change: excluding so much of it refutes it, since suspicions overstate changes


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


@dataclass(frozen=True)
class _Shift:
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
    old, new = scale.place(before), scale.place(after)
    rng = np.random.default_rng(seed)
    boot = np.median(_resample(rng, new), axis=1) - np.median(_resample(rng, old), axis=1)
    low, high = _interval(boot, min(len(old), len(new)))
    shift = _Shift(float(np.median(new) - np.median(old)), low, high, rank_sum_p(before, after))
    return _judge(shift, scale, _Limits(smallest_effect, smallest_effect, level), (len(old), len(new)))


def compare_exact(before: float, after: float, *, smallest_effect: float) -> Comparison:
    """Compare two values without noise: different if their ratio is at least ``smallest_effect`` away from 1.

    With a value of zero or below, the ratio is 1 + difference / larger size: 0 to 5 is 2.0, 5 to 0 is 0.0, and two
    zeros are the same. ValueError for a value that is not finite.
    """
    if not (math.isfinite(before) and math.isfinite(after)):
        raise ValueError("a value is not a finite number: leave out what was not measured")
    size = max(abs(before), abs(after)) or 1.0
    ratio = after / before if min(before, after) > 0 else 1 + (after / size - before / size)
    different = abs(ratio - 1) >= smallest_effect
    return Comparison(
        ComparisonAnswer.DIFFERENT if different else ComparisonAnswer.SAME,
        ratio,
        ratio,
        ratio,
        p=float(not different),
        level=LEVEL,
        n=(1, 1),
    )


def settle_pairs(
    pairs: Sequence[tuple[float, float]],
    *,
    smallest_effect: float,
    level: float,
    looks: int,
    look: int,
    seed: int,
    suspected: float = 1.0,
) -> Comparison:
    """Settle a suspicion by interleaved (base, head) pairs in block order, at look number ``look`` of ``looks``.

    different: p <= level / looks, the interval excludes 1, and the estimate is at least half the smallest effect away
    from 1 (not the whole effect: half of all estimates of a change of just that size are smaller). same: the interval
    lies within the smallest effect, or it excludes a quarter of the ``suspected`` ratio if that is more. (An interval
    of -2% to +2% refutes a suspicion of +10%: a suspicion is the largest of many shifts, and the true change is often
    half of it.) unknown: more pairs are needed.

    Estimate: Hodges-Lehmann (1963) of the per-pair log ratios. p-value: Wilcoxon's signed ranks, exact over all sign
    flips. Interval: bootstrap of whole pairs. The level is split evenly over the looks (Bonferroni): so the probability
    of confirming a change that does not exist is at most ``level``, whatever the noise, as long as the order within
    each pair is random. The smallest p-value of n pairs is 2^(1-n), so plan at least `fewest_pairs`.
    """
    if not 1 <= look <= looks:
        raise ValueError(f"look {look} of {looks} does not exist")
    if not pairs:
        raise ValueError("nothing to compare: no pairs")
    scale = Scale.of(value for pair in pairs for value in pair)
    steps = scale.place(head for _, head in pairs) - scale.place(base for base, _ in pairs)
    means = _walsh_averages(steps)
    low, high = _resampled_interval(np.random.default_rng(seed), np.sort(steps), np.sort(means))
    shift = _Shift(float(np.median(means)), low, high, signed_rank_p(steps.tolist()))
    sign = -1.0 if suspected < 1 else 1.0
    least = EXCLUDED * scale.effect(abs(suspected - 1) if scale.unit else suspected**sign - 1)
    bound = max(scale.effect(smallest_effect), least)
    excluded = shift.high < bound if sign > 0 else shift.low > -bound
    comparison = _judge(shift, scale, _Limits(smallest_effect / 2, smallest_effect, level / looks), (len(steps),) * 2)
    if comparison.answer == ComparisonAnswer.UNKNOWN and least and excluded and len(steps) >= MIN_SAMPLES:
        return replace(comparison, answer=ComparisonAnswer.SAME)
    return comparison


def settle_counts(
    pairs: Sequence[tuple[float, float]],
    *,
    smallest_effect: float,
    level: float,
    looks: int,
    look: int,
    suspected: float = 1.0,
) -> Comparison:
    """Settle a suspicion about a count by (base, head) counts, each of two fresh processes with the same random bytes.

    The answers are those of `settle_pairs`, but a few pairs suffice. Estimate: the median of the log ratios. different:
    Student's t-test, and all pairs agree in direction. same: the interval by the median absolute deviation, so that a
    pair in which one process had bad luck does not keep the question open. The deviation is taken as at least
    RESOLUTION of the smallest effect: a few equal counts do not show that there is no noise.
    """
    if not 1 <= look <= looks:
        raise ValueError(f"look {look} of {looks} does not exist")
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
    if p <= level / looks and abs(delta) >= math.log1p(smallest_effect / 2) and (steps.min() > 0 or steps.max() < 0):
        answer = ComparisonAnswer.DIFFERENT
    elif max(abs(nearest), abs(furthest)) <= math.log1p(smallest_effect) or (suspected != 1 and refuted):
        answer = ComparisonAnswer.SAME
    return Comparison(answer, math.exp(delta), math.exp(low), math.exp(high), p, level / looks, (n, n))


def fewest_pairs(level: float, looks: int) -> int:
    """The number of pairs that `settle_pairs` needs to be able to answer different."""
    return max(MIN_SAMPLES, math.ceil(1 - math.log2(level / looks)))


def benjamini_hochberg(p_values: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses to reject so that the false discovery rate is at most ``level`` (Benjamini & Hochberg 1995)."""
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
    low, ratio, high = (scale.ratio(delta) for delta in (shift.low, shift.delta, shift.high))
    return Comparison(answer, ratio, low, high, shift.p, limits.level, n)


def _resample(rng: np.random.Generator, values: Array) -> Array:
    resamples: Array = values[rng.integers(0, len(values), size=(RESAMPLES, len(values)))]
    return resamples


def _walsh_averages(steps: Array) -> Array:
    """The means of all pairs of steps, and the steps themselves. Their median is the Hodges-Lehmann estimate."""
    i, j = np.triu_indices(len(steps))
    means: Array = (steps[i] + steps[j]) / 2
    return means


def _resampled_interval(rng: np.random.Generator, steps: Array, means: Array) -> tuple[float, float]:
    """Percentile interval of the Hodges-Lehmann estimate over resamples of the steps. Steps and means are ascending.

    The estimate of a resample is at most t if at least half of its Walsh averages are. So bisection finds the quantiles
    of the estimates among the means, without computing the averages of each resample.
    """
    n = len(steps)
    resamples = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    below = np.concatenate([np.zeros((RESAMPLES, 1), dtype=resamples.dtype), np.cumsum(resamples, axis=1)], axis=1)
    rounding = 1e-12 * float(np.abs(steps).max())

    def share(place: int) -> float:
        """The share of resamples whose estimate is at most this mean."""
        limit = means[place] + rounding
        ordered = (resamples * below[:, np.searchsorted(steps, 2 * limit - steps, side="right")]).sum(axis=1)
        single = below[:, np.searchsorted(steps, limit, side="right")]
        return float((ordered + single >= n * (n + 1) / 2).mean())

    tail = _tail(n)
    places = range(len(means))
    low, high = (bisect_left(places, quantile, key=share) for quantile in (tail, 1 - tail))
    return float(means[low]), float(means[min(high, len(means) - 1)])


def _interval(boot: Array, n: int) -> tuple[float, float]:
    """Percentile interval of resampled estimates."""
    tail = _tail(n)
    low, high = np.quantile(boot, [tail, 1 - tail])
    return float(low), float(high)


def _tail(n: int) -> float:
    """The share cut from each end; smaller for small n (Hesterberg 2015, What Teachers Should Know About Bootstrap)."""
    from scipy.special import ndtr, stdtrit  # here: processes that are idle need not hold scipy

    if n < 2:
        return 0.0
    return float(ndtr(-math.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 + CONFIDENCE) / 2)))
