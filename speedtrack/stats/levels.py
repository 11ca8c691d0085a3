"""The level of each point of a series on a scale, and how well its own trials know it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np

from speedtrack.stats.scale import Array, Scale
from speedtrack.stats.summary import MAD_TO_SIGMA

FEWEST_RUNS = 12  # below so many runs, nothing is said about how much they differ


def levels(points: Sequence[Sequence[float]], scale: Scale) -> tuple[Array, Array]:
    """Per point: the median of its trials on the scale, and the standard error of that median.

    Half of the error is by the point's own trials, half by those of all points so far; NaN as long as no point had two
    trials. Points of equal numbers of trials are computed at once.
    """
    sizes = np.array([len(point) for point in points])
    places = scale.place(chain.from_iterable(points))
    starts = np.cumsum(sizes) - sizes
    level, own = np.empty(len(points)), np.empty(len(points))
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        trials = places[starts[rows][:, None] + np.arange(size)]
        level[rows] = np.median(trials, axis=1)
        own[rows] = _scatter(trials - level[rows][:, None])
    known = ~np.isnan(own)
    roots, counts = np.cumsum(np.sqrt(np.where(known, own, 0))), np.cumsum(known)
    pooled = np.divide(roots, counts, out=np.full(len(own), np.nan), where=counts > 0) ** 2
    errors: Array = np.where(known, (own + pooled) / 2, pooled) * np.sqrt(np.where(sizes > 2, math.pi / 2, 1.0) / sizes)
    return level, errors


def _scatter(trials: Array) -> Array:
    """Standard deviation of each row of trials about 0, their median; from four on at most what absolute ones show.

    So one trial may be wild. The factor for few values is that of Croux & Rousseeuw (1992). NaN for single trials.
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
    """Relative standard deviation between neighbouring runs, by the median of their differences; None for under 12.

    Steps and outliers hardly count. A difference is relative to the larger of both values, and 0 between zeros.
    """
    if len(values) < FEWEST_RUNS:
        return None
    level = np.asarray(values, dtype=np.float64)
    sizes = np.maximum(np.abs(level[1:]), np.abs(level[:-1]))
    moves = np.abs(np.diff(level)) / np.where(sizes > 0, sizes, 1.0)
    return MAD_TO_SIGMA * float(np.median(moves)) / math.sqrt(2)
