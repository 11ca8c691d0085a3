"""How many trials a line needs to show a change of some size: only the noise within runs shrinks with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from speedtrack.stats.arrays import Array
from speedtrack.stats.changes.explain import LevelLine, smallest_visible_changes
from speedtrack.stats.noise.noise import LineNoise, line_noise

MOST = 1000  # trials, as suites may have
CLOSE = 1.001  # a visible change of this many times the wanted one is that change: both are rounded


@dataclass(frozen=True)
class LevelTrials:
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
        return self.visible_each([trials])[0]

    def visible_each(self, counts: Sequence[float]) -> list[float]:
        """The smallest visible change with each of these numbers of trials, computed together."""
        if self.noise is None:
            return [math.inf for _ in counts]
        lines = [self.with_trials(trials, self.noise) for trials in counts]
        return [visibility.smallest if visibility else math.inf for visibility in smallest_visible_changes(lines)]

    def with_trials(self, trials: float, noise: LineNoise) -> LevelLine:
        """The line as it would be if each point had so many trials."""
        times, middle = trials / self.trials, float(np.median(self.level))
        level: Array = middle + (np.array(self.level) - middle) * noise.share_left(times)
        error: Array = np.array(self.error) / math.sqrt(times)
        return LevelLine(level.tolist(), error.tolist(), self.smallest_effect)

    def fewest(self, change: float) -> int | None:
        """The fewest trials with which a change is visible, at least those that it has; None if MOST do not show it."""
        return self.fewest_each([change])[0]

    def fewest_each(self, changes: Sequence[float]) -> list[int | None]:
        """The same for each of these changes: all bisections take a step at once, because a table costs as a line."""
        bounds = [(self.trials, max(self.trials, MOST + 1)) for _ in changes]
        while middles := sorted({(low + high) // 2 for low, high in bounds if low < high}):
            smallest_by_count = dict(zip(middles, self.visible_each(middles), strict=True))
            bounds = [
                halved(*ends, smallest_by_count, CLOSE * change) for ends, change in zip(bounds, changes, strict=True)
            ]
        return [low if low <= MOST else None for low, _ in bounds]


def halved(low: int, high: int, smallest_by_count: Mapping[int, float], change: float) -> tuple[int, int]:
    """The half of [low, high) that has the first number of trials that shows a change.

    ``smallest_by_count``: the smallest visible change at the middle.
    """
    if low == high:
        return low, high
    middle = (low + high) // 2
    return (low, middle) if smallest_by_count[middle] <= change else (middle + 1, high)
