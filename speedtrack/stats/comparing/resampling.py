"""Intervals by resampling: over all resamples if they can be counted, otherwise over many."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

import numpy as np

from speedtrack.stats.arrays import Array
from speedtrack.stats.summary import CONFIDENCE

ROUNDING = 1e-12
RESAMPLES = 1999
COUNTABLE = 15  # largest number of samples of a side for which the chances of each median of a resample are computed


def is_counted(samples: Sequence[float] | Array) -> bool:
    """Return whether the exact distribution of a resample's median can be computed."""
    return len(samples) % 2 == 1 and len(samples) <= COUNTABLE


def interval_of_shift(old: Array, new: Array, seed: int) -> tuple[float, float]:
    """The bootstrap interval of the difference of medians: over all resamples if they can be counted, or many."""
    tail = tail_share(min(len(old), len(new)))
    if not (is_counted(old) and is_counted(new)):
        rng = np.random.default_rng(seed)
        boot = np.median(resample(rng, new), axis=1) - np.median(resample(rng, old), axis=1)
        low, high = np.quantile(boot, [tail, 1 - tail])
        return float(low), float(high)
    shifts = np.subtract.outer(np.sort(new), np.sort(old)).ravel()
    chances = np.multiply.outer(median_chances(len(new)), median_chances(len(old))).ravel()
    order = np.argsort(shifts)
    share = np.cumsum(chances[order])
    indices = np.searchsorted(share, [tail + ROUNDING, 1 - tail - ROUNDING])
    low, high = shifts[order][np.minimum(indices, len(order) - 1)]
    return float(low), float(high)


@cache
def median_chances(n: int) -> Array:
    """For odd n: the probability that each of n ascending values is the median of a resample of them.

    The median is at most the k-th value if more than half of the draws are among the first k.
    """
    majority = range(n // 2 + 1, n + 1)
    at_most = [sum(math.comb(n, j) * (k / n) ** j * (1 - k / n) ** (n - j) for j in majority) for k in range(n + 1)]
    chances: Array = np.diff(at_most)
    return chances


def resample(rng: np.random.Generator, values: Array) -> Array:
    resamples: Array = values[rng.integers(0, len(values), size=(RESAMPLES, len(values)))]
    return resamples


def walsh_averages(steps: Array) -> Array:
    """The means of all pairs of steps, and the steps themselves. Their median is the Hodges-Lehmann estimate."""
    i, j = np.triu_indices(len(steps))
    means: Array = (steps[i] + steps[j]) / 2
    return means


def resampled_interval(rng: np.random.Generator, steps: Array, means: Array) -> tuple[float, float]:
    """Percentile interval of the Hodges-Lehmann estimate over resamples of the steps. Steps and means are ascending.

    The estimate of a resample is at most t if at least half of its Walsh averages are. So bisection finds the quantiles
    of the estimates among the means, without computing the averages of each resample.
    """
    n = len(steps)
    resamples = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    below = np.concatenate([np.zeros((RESAMPLES, 1), dtype=resamples.dtype), np.cumsum(resamples, axis=1)], axis=1)
    rounding = 1e-12 * float(np.abs(steps).max())

    def share(index: int) -> float:
        """The share of resamples whose estimate is at most this mean."""
        limit = means[index] + rounding
        ordered = (resamples * below[:, np.searchsorted(steps, 2 * limit - steps, side="right")]).sum(axis=1)
        single = below[:, np.searchsorted(steps, limit, side="right")]
        return float((ordered + single >= n * (n + 1) / 2).mean())

    tail = tail_share(n)
    indices = range(len(means))
    low, high = (bisect_left(indices, quantile, key=share) for quantile in (tail, 1 - tail))
    return float(means[low]), float(means[min(high, len(means) - 1)])


@cache
def tail_share(n: int) -> float:
    """The share cut from each end; smaller for small n (Hesterberg 2015, What Teachers Should Know About Bootstrap)."""
    from scipy.special import ndtr, stdtrit  # here: processes that are idle need not hold scipy

    if n < 2:
        return 0.0
    return float(ndtr(-math.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 + CONFIDENCE) / 2)))
