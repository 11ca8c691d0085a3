"""The level of each point of a series on a scale, and its standard error from the trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speedtrack.stats.arrays import Array, place_all
from speedtrack.stats.scale import Scale
from speedtrack.stats.summary import MAD_TO_SIGMA

FEWEST_RUNS = 12  # runs needed for an answer about their differences


class Trials(NamedTuple):
    """The trials of points as columns: the values, point after point, and how many of them are each point's."""

    values: Array
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, points: Sequence[Sequence[float]]) -> Trials:
        values = np.fromiter(chain.from_iterable(points), dtype=np.float64)
        return cls(values, np.fromiter(map(len, points), dtype=np.int64))


def levels(trials: Trials, scale: Scale) -> tuple[Array, Array]:
    """For each point: the median of its trials on the scale, and the standard error of this median.

    The error is the mean of two: from the point's own trials, and from the trials of all points so far. NaN until
    a point has two trials. Points with the same number of trials are computed together.
    """
    values, sizes = place_all(scale, trials.values), trials.sizes
    starts = np.cumsum(sizes) - sizes
    level, own = np.empty(len(sizes)), np.empty(len(sizes))
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        alike = values[starts[rows][:, None] + np.arange(size)]
        level[rows] = np.median(alike, axis=1)
        own[rows] = _scatter(alike - level[rows][:, None])
    has_error = ~np.isnan(own)
    roots, counts = np.cumsum(np.sqrt(np.where(has_error, own, 0))), np.cumsum(has_error)
    pooled = np.divide(roots, counts, out=np.full(len(own), np.nan), where=counts > 0) ** 2
    errors: Array = np.where(has_error, (own + pooled) / 2, pooled) * np.sqrt(
        np.where(sizes > 2, math.pi / 2, 1.0) / sizes
    )
    return level, errors


def medians(values: Sequence[float] | Array, sizes: Sequence[int] | NDArray[np.int64]) -> list[float]:
    """The median of each point of so many values, which are neighbours; those of one size are computed together."""
    table, counts = np.asarray(values, dtype=np.float64), np.asarray(sizes)
    starts, result = np.cumsum(counts) - counts, np.empty(len(counts))
    for size in np.unique(counts):
        rows = np.flatnonzero(counts == size)
        result[rows] = np.median(table[starts[rows][:, None] + np.arange(size)], axis=1)
    return list(map(float, result))


def _scatter(trials: Array) -> Array:
    """Standard deviation of each row of trials, whose median is 0; from four trials on, at most the robust estimate.

    So one trial may be an outlier. Croux & Rousseeuw (1992) give the factor for few values. NaN for one trial.
    """
    n = trials.shape[1]
    if n < 2:
        return np.full(len(trials), math.nan)
    usual: Array = trials.std(axis=1, ddof=1)
    if n < 4:
        return usual
    robust: Array = np.minimum(usual, MAD_TO_SIGMA * n / (n - 0.8) * np.median(np.abs(trials), axis=1))
    return robust


def spread_between(values: Sequence[float]) -> float | None:
    """Relative standard deviation between neighbouring runs from the median difference. None for fewer than 12 runs.

    Steps and outliers have little effect. Differences are relative to the larger of both values, and 0 between zeros.
    """
    if len(values) < FEWEST_RUNS:
        return None
    level = np.asarray(values, dtype=np.float64)
    sizes = np.maximum(np.abs(level[1:]), np.abs(level[:-1]))
    moves = np.abs(np.diff(level)) / np.where(sizes > 0, sizes, 1.0)
    return MAD_TO_SIGMA * float(np.median(moves)) / math.sqrt(2)
