"""On which side of a confirmed change is a commit? A sequential test of pairs against half of the change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from speedtrack.stats.arrays import Array, steps_of
from speedtrack.stats.confirmed import Z95
from speedtrack.stats.scale import Scale
from speedtrack.stats.sequential import CLIP, level_evidence, step_noise

FEWEST = 5  # pairs needed to know their noise
MOST = 160  # pairs of one commit; if they do not decide, the change stays a range
ROOM = 1.3  # factor on the expected number of pairs, so that one round usually decides


class CommitLevel(StrEnum):
    """The level that a commit's server runs on."""

    OLD = "old"
    NEW = "new"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CommitPlacement:
    """``side`` of a commit; ``ratio`` is commit / base over ``n`` pairs, [low, high] roughly its 95% interval."""

    side: CommitLevel
    ratio: float
    low: float
    high: float
    n: int


def place_commit(
    pairs: Sequence[tuple[float, float]], *, ratio: float, error: float, fewest: int = FEWEST
) -> CommitPlacement:
    """Does a commit, measured in (base, commit) pairs, run on the level of its base or on that of the change?

    ``ratio`` is the confirmed change, new level / old level; ``error`` the accepted probability of the wrong side. The
    test is Wald's sequential probability ratio test (1945) of a mean shift of 0 against the whole change, for normal
    noise that is estimated from the pairs. Pairs are clipped to CLIP standard deviations from half of the change, and
    the noise is raised while there are few pairs, so the test may be made after any number of pairs. Unknown with fewer
    than ``fewest`` pairs, and if the pairs are near half of the change.
    """
    if ratio == 1:
        raise ValueError("a change to the old level itself has no halves")
    if not pairs:
        raise ValueError("nothing to place: no pairs")
    scale, steps, change = _steps(pairs, ratio)
    sigma = float(step_noise(steps))
    centre = float(np.mean(np.clip(steps - np.median(steps), -CLIP * sigma, CLIP * sigma)) + np.median(steps))
    reach = 1.96 * sigma / math.sqrt(len(steps))
    low, middle, high = (scale.ratio(centre + sign * reach) for sign in (-1, 0, 1))
    return CommitPlacement(_side(steps, change, error, fewest), middle, low, high, len(steps))


def _steps(pairs: Sequence[tuple[float, float]], ratio: float) -> tuple[Scale, Array, float]:
    """The scale, the step of each pair on it, and the change. Linear if a value or the change is zero or below.

    So pairs of 5 and 5 can place a commit on the old level of a change from 5 to 0.
    """
    scale = Scale.of((value for pair in pairs for value in pair), linear=ratio <= 0)
    steps = steps_of(scale, pairs)
    return scale, steps, math.log(ratio) if scale.unit is None else ratio - 1


def cautious_ratio(ratio: float, low: float, high: float) -> float:
    """A confirmed ratio moved one standard error towards 1; [low, high] is its 95% interval.

    The error follows from the end away from 1: the other one may be 1 itself, where only the direction is known.

    Only changes with large estimates are confirmed, so estimates are too large on average. Half of a change that is
    estimated too large is so near to the true new level that commits on that level may be taken for old ones. Half of
    one that is estimated too small only costs more pairs.
    """
    reach = min(high - ratio, ratio - 1) if ratio > 1 else min(ratio - low, 1 - ratio)
    return ratio - math.copysign(reach / Z95, ratio - 1)


def _side(steps: Array, change: float, error: float, fewest: int) -> CommitLevel:
    if len(steps) < fewest:
        return CommitLevel.UNKNOWN
    sign = math.copysign(1.0, change)
    evidence = float(level_evidence(sign * steps[None, :], abs(change))[0])
    limit = math.log((1 - error) / error)
    return CommitLevel.NEW if evidence >= limit else CommitLevel.OLD if evidence <= -limit else CommitLevel.UNKNOWN


def pairs_needed(pairs: Sequence[tuple[float, float]], *, ratio: float, error: float, fewest: int = FEWEST) -> int:
    """The number of pairs that usually place a commit, by the noise of pairs measured before."""
    _, steps, change = _steps(pairs, ratio)
    expected = 2 * math.log((1 - error) / error) * (float(step_noise(steps)) / change) ** 2
    return max(fewest, min(MOST // 3, math.ceil(ROOM * expected)))
