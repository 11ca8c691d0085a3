"""Many ratios as one: their geometric mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from speedtrack.stats.arrays import Array
from speedtrack.stats.summary import CONFIDENCE

Z95 = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class MeanRatio:
    """The geometric mean of ``n`` ratios with its 95% interval."""

    ratio: float
    low: float
    high: float
    n: int

    def is_apart(self, smallest_effect: float, level: float) -> bool:
        """Return whether the mean is at least the smallest effect away from 1, and from it at this level."""
        shift, reach = abs(math.log(self.ratio)), math.log(self.high / self.ratio)
        return shift >= math.log1p(smallest_effect) and shift * Z95 > reach * NormalDist().inv_cdf(1 - level / 2)


def mean_ratio(ratios: Sequence[tuple[float, float, float]] | Array) -> MeanRatio | None:
    """The geometric mean of (ratio, low, high); those with an end at or below zero are left out. None without any.

    The interval is valid for these benchmarks, not for all possible ones: it assumes independent errors of the
    logarithms, of the size of their intervals.
    """
    intervals = np.array(ratios, dtype=float).reshape(-1, 3)
    usable = intervals[((intervals > 0) & np.isfinite(intervals)).all(axis=1)]
    if not len(usable):
        return None
    middles, lows, highs = np.log(usable).T
    errors = (highs - lows) / 2 / Z95
    reach = Z95 * math.sqrt(float((errors**2).sum())) / len(usable)
    mean = float(middles.mean())
    return MeanRatio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), len(usable))
