"""A machine's own noise, by pairs of identical builds, and the smallest change that pairs can show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from speedtrack.stats.compare import MIN_SAMPLES, settle_pairs
from speedtrack.stats.ranks import signed_rank_limit, signed_ranks
from speedtrack.stats.scale import Scale

POWER = 0.8
DRAWS = 4000  # simulated samples per power; the standard error is 0.6%
FARTHEST = 50.0  # standard deviations; a shift that is not seen at this distance is never seen
STEPS = 30  # of the bisection: to a billionth of FARTHEST


@dataclass(frozen=True)
class Floor:
    """The result of ``pairs`` A/A pairs; values are None with too few pairs.

    ``deviation``: standard deviation of a pair's log ratio. ``ratio`` of the sides (1 apart from chance), with
    [low, high] as its 95% interval. ``smallest``: the relative change that is detected with POWER.
    """

    pairs: int
    deviation: float | None
    ratio: float | None
    low: float | None
    high: float | None
    smallest: float | None


def noise_floor(pairs: Sequence[tuple[float, float]], *, level: float, planned: int, seed: int) -> Floor:
    """The noise floor that A/A pairs show, for comparisons of ``planned`` pairs at this significance ``level``.

    Fewer than five pairs give no floor: the error of their standard deviation is half of it. With ten pairs it is a
    quarter (chi-squared), and so is that of the smallest change. For values of zero or below see `Scale`.
    """
    if len(pairs) < MIN_SAMPLES:
        return Floor(len(pairs), None, None, None, None, None)
    scale = Scale.of(value for pair in pairs for value in pair)
    steps = scale.place(head for _, head in pairs) - scale.place(base for base, _ in pairs)
    deviation = float(steps.std(ddof=1))
    found = settle_pairs(pairs, smallest_effect=0.01, level=level, looks=1, look=1, seed=seed)
    smallest = scale.ratio(deviation * standard_shift(planned, level)) - 1
    return Floor(len(pairs), deviation, found.ratio, found.low, found.high, smallest)


@lru_cache
def standard_shift(n: int, level: float, power: float = POWER) -> float:
    """The shift, in standard deviations of a difference, that n pairs detect with this power at this level.

    It is that of normal differences under Wilcoxon's signed-rank test, the first condition of `settle_pairs`. For ten
    pairs at 0.33% it is 2.0: only ten equal signs are rare enough there, so the power is Phi(shift)^10. No formula for
    larger n holds in the tails (Noether's of 1987 has no answer for ten), so it is simulated with fixed random numbers.
    Infinite if n pairs can never reach the level.
    """
    limit = signed_rank_limit(n, level)
    if math.isinf(limit):
        return math.inf
    noise = np.random.default_rng(n).standard_normal((DRAWS, n))
    low, high = 0.0, FARTHEST
    for _ in range(STEPS):
        shift = (low + high) / 2
        distance = np.abs(signed_ranks(noise + shift) - n * (n + 1) / 4)
        low, high = (low, shift) if (distance >= limit).mean() >= power else (shift, high)
    return high
