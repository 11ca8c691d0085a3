"""How many trials a line needs to show a change of some size: only the noise within runs shrinks with them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from speedtrack.stats.arrays import Array
from speedtrack.stats.changes.explain import smallest_visible_change
from speedtrack.stats.noise.noise import LineNoise, line_noise

MOST = 1000  # trials, as suites may have
CLOSE = 1.001  # a visible change of this many times the wanted one is that change: both are rounded


@dataclass(frozen=True)
class TrialLine:
    """The points of one level, as logarithms with their errors, and how many ``trials`` each of them has."""

    level: Sequence[float]
    error: Sequence[float]
    trials: int
    smallest_effect: float

    @cached_property
    def noise(self) -> LineNoise | None:
        """Its noise within and between runs; None if either is not known."""
        noise = line_noise(self.level, self.error)
        return noise if noise and noise.within > 0 else None

    def visible(self, trials: float) -> float:
        """The smallest visible change if each point had so many trials; infinitely many have no noise within runs.

        It is what `smallest_visible_change` says of the line with less noise, and infinite if that is not known.
        """
        if self.noise is None:
            return math.inf
        times, middle = trials / self.trials, float(np.median(self.level))
        level: Array = middle + (np.array(self.level) - middle) * self.noise.share_left(times)
        error = np.array(self.error) / math.sqrt(times)
        seen = smallest_visible_change(level.tolist(), error.tolist(), smallest_effect=self.smallest_effect)
        return seen.smallest if seen else math.inf

    def fewest(self, change: float) -> int | None:
        """The fewest trials with which a change is visible, at least those that it has; None if MOST do not show it."""
        counts = range(self.trials, MOST + 1)
        place = bisect_left(counts, True, key=lambda trials: self.visible(trials) <= CLOSE * change)
        return counts[place] if place < len(counts) else None
