"""How much does a point differ from the one before it, relative to noise? For colours, never for alerts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, median

from speedtrack.alerts.lines import LinePoint
from speedtrack.benchmarks.metrics import Direction, Metric

Z95 = NormalDist().inv_cdf(0.975)
MAD_TO_SIGMA = 1 / NormalDist().inv_cdf(0.75)
VISIBLE, STRONG = 3.0, 6.0  # in standard errors of the difference
FEW = 6  # differences; with fewer the noise between commits is unknown


@dataclass(frozen=True)
class Grade:
    """``level``: 0 within noise, 1 visible, 2 strong; ``ratio``: new / old; ``errors``: how many standard errors."""

    level: int
    worse: bool
    ratio: float
    errors: float


def noise_of_values(values: Sequence[float]) -> float:
    """Standard deviation of the logarithm of a value, from successive differences; 0 if there are fewer than FEW."""
    logs = [math.log(value) for value in values if value > 0]
    moves = [abs(b - a) for a, b in pairwise(logs)]
    return MAD_TO_SIGMA * median(moves) / math.sqrt(2) if len(moves) >= FEW else 0.0


def log_error(point: LinePoint) -> float:
    """Standard error of the logarithm of a point, from its own interval."""
    if point.low <= 0 or point.value <= 0:
        return 0.0
    return math.log(point.high / point.low) / (2 * Z95)


def grade(before: LinePoint, after: LinePoint, noise: float, metric: Metric, smallest_effect: float) -> Grade | None:
    """Compare two neighbours of one series; None where a ratio has no meaning or the noise is unknown."""
    if before.value <= 0 or after.value <= 0:
        return None
    shift = math.log(after.value / before.value)
    error = max(math.sqrt(2) * noise, math.hypot(log_error(before), log_error(after)))
    if not error:
        return None
    errors = abs(shift) / error
    matters = abs(shift) >= math.log1p(smallest_effect)
    level = (errors >= VISIBLE) + (errors >= STRONG) if matters else 0
    return Grade(level, (shift > 0) == (metric.better == Direction.LOWER), math.exp(shift), errors)
