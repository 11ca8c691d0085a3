"""Where does one series look as if it had moved? Suspicions, sensitive and early: only a re-measurement settles them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speedtrack.stats.scale import Array, Scale


@dataclass(frozen=True)
class Point:
    """The raw values of the trials of one measured commit; at least one."""

    values: tuple[float, ...]


@dataclass(frozen=True)
class Shift:
    """A suspected move of the level.

    ``index`` is the first point of the new level, ``seen`` the point whose arrival raised the suspicion. ``ratio`` is
    new level / old level with its 95% interval, ``score`` the shift in units of the yardstick it had to exceed (> 1).
    """

    index: int
    ratio: float
    low: float
    high: float
    score: float
    seen: int


def suspect(points: Sequence[Point], *, smallest_effect: float = 0.01) -> list[Shift]:
    """The suspected shifts of a series in commit order, oldest first."""
    if len(points) < 2:
        return []
    scale = Scale.of(value for point in points for value in point.values)
    places = [scale.place(point.values) for point in points]
    level = np.array([np.median(place) for place in places])
    effect = scale.effect(smallest_effect)
    found: list[Shift] = []
    start = 0
    for now in range(1, len(level)):
        before = level[max(start, now - 40) : now]
        noise = _noise(places[max(start, now - 40) : now + 1], before)
        delta = float(level[now] - np.median(before))
        yardstick = effect + 4 * noise
        if abs(delta) > yardstick:
            low, high = (scale.ratio(delta + side * 2 * noise) for side in (-1, 1))
            found.append(Shift(now, scale.ratio(delta), low, high, abs(delta) / yardstick, now))
            start = now
    return found


def _noise(places: Sequence[Array], before: Array) -> float:
    within = [float(np.std(place, ddof=1)) / float(np.sqrt(len(place))) for place in places if len(place) > 1]
    between = float(np.std(before, ddof=1)) if len(before) > 2 else 0.0
    return max(between, float(np.median(within)) if within else 0.0) or 1e-12
