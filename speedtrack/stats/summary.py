"""Summarize the samples of one metric: the median and its interval."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist

CONFIDENCE = 0.95
MAD_TO_SIGMA = 1 / NormalDist().inv_cdf(0.75)


@dataclass(frozen=True)
class Estimate:
    """The median of ``n`` samples with its interval. With one sample, low = high = value."""

    value: float
    low: float
    high: float
    n: int


def summarize(samples: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Median and its distribution-free interval between two order statistics (Conover 1999, section 3.2).

    The interval covers the true median with at least ``confidence``, whatever the distribution. Below six samples no
    such interval exists at 95%; the range is returned instead, which covers 50, 75, 87.5 and 93.75% for 2, 3, 4 and 5
    samples (the percentile bootstrap of the median would be the same). No samples: ValueError.
    """
    if not samples:
        raise ValueError("no samples: an unmeasured commit is a gap, not an estimate")
    ordered = sorted(float(sample) for sample in samples)
    if not all(map(math.isfinite, ordered)):
        raise ValueError("a sample is not a finite number")
    rank = outer_rank(len(ordered), confidence)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return Estimate(middle, ordered[rank], ordered[-1 - rank], len(ordered))


@lru_cache(maxsize=2000)
def outer_rank(n: int, confidence: float) -> int:
    """The largest k such that sample k and sample n-1-k (from 0) enclose the median with ``confidence``; else 0."""
    # For each k: the probability of at most k samples below the median. Without scipy, which each process that takes
    # results would have to load for this.
    below = list(accumulate(binomial_half(k, n) for k in range(n // 2 + 1)))
    return max(0, bisect_right(below, (1 - confidence) / 2) - 1)


def binomial_half(k: int, n: int) -> float:
    """The probability of exactly ``k`` heads among ``n`` tosses of a fair coin."""
    return math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))
