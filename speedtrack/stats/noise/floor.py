"""A machine's own noise, from pairs of identical builds, and the smallest change that pairs can show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from speedtrack.stats.arrays import steps_of
from speedtrack.stats.comparing.compare import MIN_SAMPLES, settle_counts, settle_pairs
from speedtrack.stats.comparing.sequential import FEWEST, change_evidence
from speedtrack.stats.scale import Scale

POWER = 0.8
DRAWS = 4000  # simulated samples per power; the standard error is 0.6%
FARTHEST = 50.0  # standard deviations; a shift that is not seen at this distance is never seen
EQUAL = 1e-6  # a floor for programs whose counts are all equal: nothing is so exact
STEPS = 20  # of the bisection: to a millionth of FARTHEST
#: Pairs, and the shift that they confirm at 1% by `standard_shift`, which takes minutes for many pairs.
CONFIRMING = {
    7: 3.103,
    8: 2.401,
    10: 1.889,
    12: 1.598,
    15: 1.391,
    20: 1.181,
    30: 0.926,
    50: 0.692,
    100: 0.474,
    200: 0.327,
}


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


def noise_floor(pairs: Sequence[tuple[float, float]], *, level: float, planned_pairs: int, seed: int) -> Floor:
    """The noise floor from A/A pairs, for comparisons of ``planned_pairs`` pairs at this significance ``level``.

    Fewer than five pairs give no floor: the error of their standard deviation is half of it. With ten pairs it is a
    quarter (chi-squared), and so is the error of the smallest change. For values of zero or below see `Scale`.
    """
    if len(pairs) < MIN_SAMPLES:
        return Floor(len(pairs), None, None, None, None, None)
    scale = Scale.of(value for pair in pairs for value in pair)
    steps = steps_of(scale, pairs)
    deviation = float(steps.std(ddof=1))
    comparison = settle_pairs(pairs, smallest_effect=0.01, level=level, seed=seed)
    smallest = scale.ratio(deviation * standard_shift(planned_pairs, level)) - 1
    return Floor(len(pairs), deviation, comparison.ratio, comparison.low, comparison.high, smallest)


def counts_floor(pairs: Sequence[tuple[float, float]], *, level: float) -> Floor:
    """The noise floor from (base, head) counts of one build, each from a fresh process.

    ``smallest`` is the largest difference within a pair: counts may have a few levels, of which each process takes one
    by chance, and a deviation does not show the distance between these levels. Processes of different pairs are not
    compared: each pair has different random bytes, while commits are counted with the same ones. Fewer than five pairs
    give no floor.
    """
    if len(pairs) < MIN_SAMPLES:
        return Floor(len(pairs), None, None, None, None, None)
    steps = np.log([head / base for base, head in pairs])
    smallest = float(np.expm1(np.abs(steps).max()))
    comparison = settle_counts(pairs, smallest_effect=max(smallest, EQUAL), level=level)
    return Floor(len(pairs), float(steps.std(ddof=1)), comparison.ratio, comparison.low, comparison.high, smallest)


@lru_cache
def standard_shift(n: int, level: float, power: float = POWER) -> float:
    """The shift, in standard deviations of a difference, that n pairs confirm with this power at this level.

    It holds for normal differences if exactly this shift is tested: the evidence of `settle_pairs`, simulated with
    fixed random numbers. Infinite if n pairs can never reach the level.
    """
    noise = np.random.default_rng(n).standard_normal((DRAWS, n))

    def seen(shift: float) -> bool:
        return bool((change_evidence(noise + shift, shift) >= -math.log(level)).mean() >= power)

    low, high = 0.0, FARTHEST
    if n < FEWEST or not seen(high):
        return math.inf
    for _ in range(STEPS):
        shift = (low + high) / 2
        low, high = (low, shift) if seen(shift) else (shift, high)
    return high


def pairs_to_confirm(change: float, paired: float, planned_pairs: int) -> int:
    """About how many pairs confirm a relative change where ``planned_pairs`` confirm ``paired``.

    Between and beyond the numbers of CONFIRMING the logarithms of both are interpolated.
    """
    pairs, shifts = np.log(np.array(list(CONFIRMING.items())).T)
    shift = math.log(math.log1p(change) / math.log1p(paired)) + float(np.interp(math.log(planned_pairs), pairs, shifts))
    beyond = max(0.0, shifts[-1] - shift) * 2  # four times the pairs for half of the shift
    return math.ceil(math.exp(np.interp(-shift, -shifts, pairs) + beyond) - 1e-6)
