"""A line of commits with its measurements and its true changes, and the noise that measuring it again would show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Change = tuple[int, int]  # index of the first commit of the new level, direction (+1 or -1)
POOL = 100  # points before a moment whose noise its pairs repeat
LEAST_POOL = 60


@dataclass(frozen=True)
class Line:
    """``values[i]``: raw values of commit i. ``size``: relative step of each true change where it is known."""

    id: str
    values: Sequence[Sequence[float]]
    truth: Sequence[Change]
    size: Sequence[float] = ()
    level: Sequence[float] = field(default=(), repr=False)  # where it is known otherwise, such as a drift

    @cached_property
    def medians(self) -> Array:
        return np.array([np.median(point) for point in self.values])

    @cached_property
    def levels(self) -> Array:
        """The true level of each commit: as it was made, or the median between two labels."""
        if len(self.level):
            return np.asarray(self.level, dtype=np.float64)
        if self.size:
            levels = np.ones(len(self.values))
            for (index, direction), size in zip(self.truth, self.size, strict=True):
                levels[index:] *= 1 + direction * size
            return levels * float(np.median(self.medians / levels))
        cuts = [0, *sorted(index for index, _ in self.truth), len(self.values)]
        segments = pairwise(cuts)
        return np.concatenate([np.full(b - a, np.median(self.medians[a:b])) for a, b in segments if b > a])

    def noise(self, now: int) -> Noise:
        """The noise around a moment of the line: that of its points, and of the trials of a point."""
        stop = max(now + 1, LEAST_POOL)
        around = slice(max(0, stop - POOL), stop)
        points, levels = self.values[around], self.levels[around]
        medians = self.medians[around]
        if all(value > 0 for point in points for value in point) and (levels > 0).all():
            trials = [np.log(point) - np.log(m) for point, m in zip(points, medians, strict=True)]
            return Noise(np.log(medians / levels), np.concatenate(trials), relative=True)
        trials = [np.asarray(point) - m for point, m in zip(points, medians, strict=True)]
        return Noise(medians - levels, np.concatenate(trials), relative=False)


@dataclass(frozen=True)
class Noise:
    """Deviations of points from their level, and of trials from their point; of the logarithm where ``relative``."""

    points: Array
    trials: Array
    relative: bool

    def draw(self, rng: np.random.Generator, level: float, count: int) -> list[float]:
        """So many values of a commit of this level, each as if of a run of its own."""
        deviation = rng.choice(self.points, count) + rng.choice(self.trials, count)
        return [float(v) for v in (level * np.exp(deviation) if self.relative else level + deviation)]
