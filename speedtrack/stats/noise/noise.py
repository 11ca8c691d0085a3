"""The kind of noise of a series: between runs or between trials, on one level or on two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speedtrack.stats.arrays import Array
from speedtrack.stats.summary import MAD_TO_SIGMA

FEWEST = 5  # points needed for an answer
FEWEST_FOR_MODES = 16
APART = 5.0  # Ashman's D of two halves; noise with one mode gives 2.6, and never came near 5 in simulations
SHARE = 0.2  # of the points, at least, in each mode


@dataclass(frozen=True)
class LineNoise:
    """Relative standard deviations: between neighbouring points, and of a point by its own trials.

    ``modes``: the distance between two levels, if the series alternates between them; None if it has one level.
    """

    between: float
    within: float
    modes: float | None

    @property
    def runs_differ_more(self) -> bool:
        """Return whether runs differ by much more than their trials explain."""
        return self.between > 2 * self.within

    @property
    def of_runs(self) -> float:
        """What runs differ by apart from their trials: builds, processes, the machine."""
        return math.sqrt(max(0.0, self.between**2 - self.within**2))

    def share_left(self, times: float) -> float:
        """The share of the noise between points that is left with so many times the trials."""
        now = math.hypot(self.of_runs, self.within)
        return math.hypot(self.of_runs, self.within / math.sqrt(times)) / now if now else 1.0


def line_noise(level: Sequence[float], error: Sequence[float]) -> LineNoise | None:
    """The noise of a line, from the logarithms of its medians and their errors (NaN: unknown) in commit order.

    It is computed from differences of successive points, so changes of the level have little effect. None for fewer
    than five points.
    """
    if len(level) < FEWEST:
        return None
    values = np.asarray(level, dtype=np.float64)
    moves = np.abs(np.diff(values))
    between = MAD_TO_SIGMA * float(np.median(moves)) / math.sqrt(2)
    errors = np.asarray(error)[~np.isnan(error)]
    return LineNoise(
        max(between, _noise_without_modes(moves)), float(np.median(errors)) if len(errors) else 0.0, _modes(values)
    )


def _noise_without_modes(moves: Array) -> float:
    """The noise from the mean move without the largest tenth. The median is too small for a line with two levels."""
    moderate = np.sort(moves)[: max(1, math.floor(0.9 * len(moves)))]
    return float(moderate.mean()) * math.sqrt(math.pi) / 2


def _modes(values: Array) -> float | None:
    """The distance between two levels of the points, split by the least variance within (Otsu 1979)."""
    n = len(values)
    if n < FEWEST_FOR_MODES:
        return None
    ordered = np.sort(values)
    least = max(2, math.ceil(SHARE * n))
    sizes = np.arange(least, n - least + 1)
    sums = np.cumsum(ordered - ordered.mean())[sizes - 1]  # least variance within is the largest between the parts
    at = int(sizes[np.argmax(sums**2 / (sizes * (n - sizes)))])
    low, high = ordered[:at], ordered[at:]
    apart = float(high.mean() - low.mean())
    spread = math.sqrt((float(low.var(ddof=1)) + float(high.var(ddof=1))) / 2)
    turns = int(np.count_nonzero(np.diff(values > (low.mean() + high.mean()) / 2)))
    return apart if apart > APART * spread and turns >= 3 else None
