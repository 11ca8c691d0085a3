"""On which side of a confirmed change is a commit? Two tests of its pairs answer, one against each level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speedtrack.stats.arrays import Array, steps_of
from speedtrack.stats.comparing.bisect import CommitLevel
from speedtrack.stats.comparing.compare import FEWEST_COUNTS, RESOLUTION
from speedtrack.stats.comparing.confirmed import Z95
from speedtrack.stats.comparing.sequential import CLIP, change_evidence, step_noise
from speedtrack.stats.scale import Scale
from speedtrack.stats.summary import CONFIDENCE

MOST = 160  # pairs of one commit; if they are undecided, the change remains a range
ROOM = 1.3  # factor on the expected number of pairs, so that one round usually decides


@dataclass(frozen=True)
class CommitPlacement:
    """``side`` of a commit; ``ratio`` is commit / base over ``n`` pairs, [low, high] roughly its 95% interval."""

    side: CommitLevel
    ratio: float
    low: float
    high: float
    n: int


def place_commit(pairs: Sequence[tuple[float, float]], *, ratio: float, error: float) -> CommitPlacement:
    """Decide from (base, commit) pairs whether a commit is on the level of its base or on that of the change.

    ``ratio`` is the confirmed change, new level / old level; ``error`` the accepted probability of the wrong side,
    however often this is called. A commit is on the new level if its steps are no noise around the old one, and on the
    old level if they are no noise around the new one. Both are bets on signs (``sequential.change_evidence``), so this
    holds for noise of any kind and for slots that differ by more than the change. Unknown as long as neither is shown,
    which takes at least ``fewest_pairs``. If both are shown, the nearer level counts: a range may contain several
    changes.
    """
    steps = _steps(pairs, ratio)
    sigma = float(step_noise(steps.values))
    middle = float(np.median(steps.values))
    centre = float(np.mean(np.clip(steps.values - middle, -CLIP * sigma, CLIP * sigma)) + middle)
    is_off = change_evidence(steps.distances, abs(steps.change)) >= math.log(1 / error)
    return _placement(steps, is_off, centre, Z95 * sigma / math.sqrt(len(pairs)))


def place_counts(pairs: Sequence[tuple[float, float]], *, ratio: float, error: float) -> CommitPlacement:
    """Decide as `place_commit` does, but by counts of fresh processes: a few pairs suffice (`compare.settle_counts`).

    A commit is off a level if Student's t-test says so and all pairs agree in direction; the deviation is at least
    RESOLUTION of the change. ``error`` is that of one call: a caller that looks k times passes a k-th of its error.
    """
    from scipy.special import stdtr, stdtrit  # here: processes that are idle need not hold scipy

    steps, n = _steps(pairs, ratio), len(pairs)
    if n < FEWEST_COUNTS:
        return _placement(steps, np.zeros(2, bool), float(np.median(steps.values)), abs(steps.change))
    deviation = max(float(steps.values.std(ddof=1)), RESOLUTION * abs(steps.change)) / math.sqrt(n)
    distances = steps.distances
    is_off = (stdtr(n - 1, -distances.mean(axis=1) / deviation) <= error) & (distances.min(axis=1) > 0)
    reach = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * deviation
    return _placement(steps, is_off, float(np.median(steps.values)), reach)


def fewest_pairs(error: float) -> int:
    """The number of equal signs whose probability by chance is at most ``error``."""
    return math.ceil(math.log2(1 / error))


@dataclass(frozen=True)
class _Steps:
    """``values``: the step from base to commit of each pair; ``change``: the confirmed one. Both are on ``scale``."""

    scale: Scale
    values: Array
    change: float

    @property
    def distances(self) -> Array:
        """The steps from the old level towards the new one, and those from the new level towards the old one."""
        upwards = math.copysign(1.0, self.change) * self.values
        return np.stack([upwards, abs(self.change) - upwards])


def _steps(pairs: Sequence[tuple[float, float]], ratio: float) -> _Steps:
    """The steps of these pairs, as logarithms, or as differences if a value or the change is zero or below.

    So pairs of 5 and 5 can place a commit on the old level of a change from 5 to 0.
    """
    if ratio == 1:
        raise ValueError("a change to the old level itself has no halves")
    if not pairs:
        raise ValueError("nothing to place: no pairs")
    scale = Scale.of((value for pair in pairs for value in pair), linear=ratio <= 0)
    return _Steps(scale, steps_of(scale, pairs), math.log(ratio) if scale.unit is None else ratio - 1)


def cautious_ratio(ratio: float, low: float, high: float) -> float:
    """A confirmed ratio moved one standard error towards 1; [low, high] is its 95% interval.

    The error is computed from the end away from 1, because the other end may be 1 if only the direction is known.

    Only changes with large estimates are confirmed, so estimates are too large on average. Half of an overestimated
    change is so near to the true new level that commits on that level may look old. Half of an underestimated one only
    costs more pairs.
    """
    reach = min(high - ratio, ratio - 1) if ratio > 1 else min(ratio - low, 1 - ratio)
    return ratio - math.copysign(reach / Z95, ratio - 1)


def _placement(steps: _Steps, is_off: NDArray[np.bool_], centre: float, reach: float) -> CommitPlacement:
    """``is_off``: whether the commit is off the old level, and off the new one."""
    is_new, is_old = is_off
    side = CommitLevel.UNKNOWN
    if is_new and is_old:  # neither level exactly, as when the noise is less than the error of the confirmed size
        side = CommitLevel.NEW if centre / steps.change > 0.5 else CommitLevel.OLD
    elif is_new or is_old:
        side = CommitLevel.NEW if is_new else CommitLevel.OLD
    low, middle, high = (steps.scale.ratio(centre + sign * reach) for sign in (-1, 0, 1))
    return CommitPlacement(side, middle, low, high, len(steps.values))


def pairs_needed(pairs: Sequence[tuple[float, float]], *, ratio: float, error: float) -> int:
    """The usual number of pairs to place a commit, from the noise of earlier pairs."""
    steps = _steps(pairs, ratio)
    expected = 2 * math.log(1 / error) * (float(step_noise(steps.values)) / steps.change) ** 2
    return max(fewest_pairs(error), min(MOST // 3, math.ceil(ROOM * expected)))
