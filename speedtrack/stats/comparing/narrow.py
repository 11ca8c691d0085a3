"""On which side of a confirmed change is a commit? Two sequential tests of its pairs answer, one against each level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speedtrack.stats.arrays import Array, steps_of
from speedtrack.stats.comparing.bisect import CommitLevel
from speedtrack.stats.comparing.confirmed import Z95
from speedtrack.stats.comparing.sequential import CLIP, change_evidence, step_noise
from speedtrack.stats.scale import Scale

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
    if ratio == 1:
        raise ValueError("a change to the old level itself has no halves")
    if not pairs:
        raise ValueError("nothing to place: no pairs")
    scale, steps, change = _steps(pairs, ratio)
    sigma = float(step_noise(steps))
    centre = float(np.mean(np.clip(steps - np.median(steps), -CLIP * sigma, CLIP * sigma)) + np.median(steps))
    reach = 1.96 * sigma / math.sqrt(len(steps))
    low, middle, high = (scale.ratio(centre + sign * reach) for sign in (-1, 0, 1))
    return CommitPlacement(_side(steps, change, error, centre), middle, low, high, len(steps))


def fewest_pairs(error: float) -> int:
    """The number of equal signs whose probability by chance is at most ``error``."""
    return math.ceil(math.log2(1 / error))


def _steps(pairs: Sequence[tuple[float, float]], ratio: float) -> tuple[Scale, Array, float]:
    """The scale (linear if a value or the change is zero or below), the step of each pair on it, and the change.

    So pairs of 5 and 5 can place a commit on the old level of a change from 5 to 0.
    """
    scale = Scale.of((value for pair in pairs for value in pair), linear=ratio <= 0)
    steps = steps_of(scale, pairs)
    return scale, steps, math.log(ratio) if scale.unit is None else ratio - 1


def cautious_ratio(ratio: float, low: float, high: float) -> float:
    """A confirmed ratio moved one standard error towards 1; [low, high] is its 95% interval.

    The error is computed from the end away from 1, because the other end may be 1 if only the direction is known.

    Only changes with large estimates are confirmed, so estimates are too large on average. Half of an overestimated
    change is so near to the true new level that commits on that level may look old. Half of an underestimated one only
    costs more pairs.
    """
    reach = min(high - ratio, ratio - 1) if ratio > 1 else min(ratio - low, 1 - ratio)
    return ratio - math.copysign(reach / Z95, ratio - 1)


def _side(steps: Array, change: float, error: float, centre: float) -> CommitLevel:
    upwards = math.copysign(1.0, change) * steps
    rows = np.stack([upwards, abs(change) - upwards])  # from the old level to the new one, and the other way round
    is_new, is_old = change_evidence(rows, abs(change)) >= math.log(1 / error)
    if is_new and is_old:  # neither level exactly, as when the noise is less than the error of the confirmed size
        return CommitLevel.NEW if centre / change > 0.5 else CommitLevel.OLD
    if is_new == is_old:
        return CommitLevel.UNKNOWN
    return CommitLevel.NEW if is_new else CommitLevel.OLD


def pairs_needed(pairs: Sequence[tuple[float, float]], *, ratio: float, error: float) -> int:
    """The usual number of pairs to place a commit, from the noise of earlier pairs."""
    _, steps, change = _steps(pairs, ratio)
    expected = 2 * math.log(1 / error) * (float(step_noise(steps)) / change) ** 2
    return max(fewest_pairs(error), min(MOST // 3, math.ceil(ROOM * expected)))
