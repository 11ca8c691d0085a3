"""How much a point differs from the one before it, relative to noise. Used for colours, never for alerts."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist, median
from typing import NamedTuple

from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.benchmarks.metrics import Direction, Metric

Z95 = NormalDist().inv_cdf(0.975)
MAD_TO_SIGMA = 1 / NormalDist().inv_cdf(0.75)
VISIBLE = 3.0  # standard errors that a difference must have
FEW = 6  # differences; with fewer the noise between commits is unknown


class Grade(NamedTuple):
    """The size of a difference.

    ``units``: a multiple of the smallest difference that is shown; ``level``: 0 below one unit, 1 from one on, 2 from
    two on. ``ratio``: new / old.
    """

    units: float
    worse: bool
    ratio: float

    @property
    def level(self) -> int:
        return min(int(self.units), 2)


def noise_of_values(values: Sequence[float]) -> float:
    """Standard deviation of the logarithm of a value, from successive differences; 0 if there are fewer than FEW."""
    logs = [math.log(value) for value in values if value > 0]
    moves = [abs(b - a) for a, b in pairwise(logs)]
    return MAD_TO_SIGMA * median(moves) / math.sqrt(2) if len(moves) >= FEW else 0.0


class Level(NamedTuple):
    """The logarithm of a point's value, and its standard error from the point's own interval."""

    log: float
    error: float


def level_of(point: LinePoint) -> Level | None:
    """The level of a point; None for a value that has no logarithm."""
    if point.value <= 0:
        return None
    return Level(math.log(point.value), math.log(point.high / point.low) / (2 * Z95) if point.low > 0 else 0.0)


def grade(before: Level | None, after: Level | None, noise: float, metric: Metric, detectable: float) -> Grade | None:
    """Compare two neighbours of one series; None where a ratio has no meaning or the noise is unknown.

    ``detectable``: the smallest lasting change that the series shows and that matters, as a share. What two points
    alone show may have to be larger, by their own errors and the ``noise``.
    """
    if before is None or after is None:
        return None
    shift = after.log - before.log
    error = max(math.sqrt(2) * noise, math.hypot(before.error, after.error))
    if not error:
        return None
    units = abs(shift) / max(math.log1p(detectable), VISIBLE * error)
    return Grade(units, (shift > 0) == (metric.better == Direction.LOWER), math.exp(shift))
