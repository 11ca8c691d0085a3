"""Shifts between neighbouring windows of a series for many window sizes, and the limits that they must exceed.

Tables have one row per point (the moment of its arrival) and one column per size in `AFTER`, the number of newest
points of the new level. A row uses only points that had arrived by then. Several series of one length may be given at
once: the axes before the last one of ``level``, and before the last two of tables, are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from speedtrack.stats.arrays import Array

AFTER = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
MEAN_ROOT_NORMAL = 0.8222  # mean of the square root of |x| for a standard normal x: 2^(1/4) Gamma(3/4) / sqrt(pi)
COLUMNS = np.arange(len(AFTER))
FEWEST_SHIFTS = 8  # shifts of a window size needed to know the usual one
QUANTISED_AFTER = 5  # changes of value needed to know the smallest step of a rounded metric


@dataclass(frozen=True)
class Sensitivity:
    """The factors by which a shift must exceed each limit; set by replaying many kinds of noise, see research/."""

    before: int = 40  # most points before a split that define the old level
    trim: float = 0.35  # share cut from each end of a window before its mean is taken
    history: int = 300  # number of latest points whose placebos count
    recent: int = 15  # points within which a rise of the noise must appear
    enough: int = 5  # history needed for a window's own placebos to count, in units of its size
    usual: tuple[float, float, float, float] = (5.0, 3.6, 3.3, 2.7)  # times the usual shift: 1, 2-3, 4-16, 24+ points
    worst: tuple[float, float] = (1.3, 0.85)  # times the largest shift of the history: 1 point, more points
    early: float = 6.6  # factor while the history is short: 1 + early / its length
    fresh: float = 0.3  # factor while the old level is young: 1 + fresh / its points
    trials: float = 4.0  # times the standard error from the trials
    between: float = 2.0  # times the standard error from the spread between runs, while the history is too short
    borrowed: float = 4.0  # number of the line's own moves that the known spread between runs equals
    quantum: float = 0.75  # times the smallest step of a rounded metric
    agree: tuple[float, float] = (0.97, 0.72)  # share of pairs before/after that must agree: up to 4 points, more
    least: int = 12  # points of history below which only the trials decide
    spike: int = 15  # points within which a return to the old level cancels the previous shift
    back: float = 0.4  # largest distance of such a return from the old level, as a share of the previous shift


class Shifts(NamedTuple):
    """``size``: signed shift on the scale. ``weight``: 1 / its standard error for independent noise of 1."""

    size: Array
    weight: Array


def rolling_means(level: Array, width: int, trim: float) -> Array:
    """Trimmed mean of the last ``width`` values at each index, or of fewer at the start."""
    if width == 1:
        return level.copy()
    *outer, length = level.shape
    padded = np.concatenate([np.full((*outer, width - 1), np.inf), level], axis=-1)
    ordered = np.sort(sliding_window_view(padded, width, axis=-1), axis=-1)
    cut = int(trim * width)
    means: Array = ordered[..., cut : width - cut].sum(axis=-1) / (width - 2 * cut)
    widths = np.arange(1, min(width, length + 1))  # values in the windows at the start
    cuts = (trim * widths).astype(int)
    sums = np.zeros((*outer, len(widths), width))
    np.cumsum(ordered[..., : len(widths), : width - 1], axis=-1, out=sums[..., 1:])
    rows = np.arange(len(widths))
    means[..., : len(widths)] = (sums[..., rows, widths - cuts] - sums[..., rows, cuts]) / (widths - 2 * cuts)
    return means


def newest_means(level: Array, trim: float) -> Array:
    """The trimmed mean of the newest points for each size in `AFTER`."""
    return np.stack([rolling_means(level, int(size), trim) for size in AFTER], axis=-1)


def shifts(level: Array, newest: Array, sensitivity: Sensitivity, base: Array | None = None) -> Shifts:
    """The newest means minus the level before them, of up to ``before`` points; NaN if there is no point before.

    ``base``: the means of up to ``before`` points, if they are computed already.
    """
    base = rolling_means(level, sensitivity.before, sensitivity.trim) if base is None else base
    split = np.arange(1, level.shape[-1] + 1)[:, None] - AFTER
    size = newest - base[..., np.maximum(split, 1) - 1]
    weight = 1 / np.sqrt(1 / AFTER + 1 / np.clip(split, 1, sensitivity.before))
    return Shifts(np.where(split > 0, size, np.nan), np.where(split > 0, weight, np.nan))


def yardsticks(table: Shifts, past: Array, sensitivity: Sensitivity) -> Array:
    """The size that a shift must exceed to stand out from the series' own moves.

    These moves are its earlier shifts between windows of the same sizes (placebos), in earlier segments (``past``) and
    in this one. The limits follow their usual size, over the whole history and lately, and the largest of them. The
    usual size of a longer window is at least that of a shorter one, because serial correlation affects long windows.
    """
    placebos = np.abs(np.concatenate([past, table.size * table.weight], axis=-2))
    stop = np.maximum(0, past.shape[-2] + np.arange(table.size.shape[-2])[:, None] - AFTER + 1)
    begin = np.maximum(0, stop - sensitivity.history)
    sums = _sums(placebos)
    usual, n = _usual(sums, begin, stop)
    lately, m = _usual(sums, np.maximum(begin, stop - sensitivity.recent), stop)
    enough = sensitivity.enough * AFTER
    usual = np.where(m >= np.maximum(sensitivity.recent // 2, enough), np.maximum(usual, lately), usual)
    usual = np.fmax.accumulate(np.where(n >= np.maximum(enough, FEWEST_SHIFTS), usual, np.nan), axis=-1)
    worst = _largest(np.where(np.isnan(placebos), 0.0, placebos), sensitivity.history)[..., stop, COLUMNS]
    worst = np.where(n >= enough, worst, np.nan) * (1 + sensitivity.early / np.maximum(n, 1))
    single, few, several, many = sensitivity.usual
    times_usual = np.select([AFTER == 1, AFTER < 4, AFTER <= 16], [single, few, several], many)
    times_worst = np.where(AFTER == 1, *sensitivity.worst)
    base = np.maximum(1 / (table.weight**-2 - 1 / AFTER), 1)
    limits: Array = np.fmax(times_usual * usual, times_worst * worst) / table.weight * (1 + sensitivity.fresh / base)
    return limits


def _sums(placebos: Array) -> tuple[Array, Array]:
    """The sums of the roots of the first placebos of each size, and the number of known ones."""
    is_known = ~np.isnan(placebos)
    nothing = np.zeros_like(placebos[..., :1, :])
    roots = np.concatenate([nothing, np.cumsum(np.sqrt(np.where(is_known, placebos, 0)), axis=-2)], axis=-2)
    return roots, np.concatenate([nothing, np.cumsum(is_known, axis=-2)], axis=-2)


def _usual(sums: tuple[Array, Array], begin: Array, stop: Array) -> tuple[Array, Array]:
    """Standard deviation of the placebos begin..stop-1, from their mean root, which is robust; and their number."""
    roots, counts = sums
    n = counts[..., stop, COLUMNS] - counts[..., begin, COLUMNS]
    mean = (roots[..., stop, COLUMNS] - roots[..., begin, COLUMNS]) / np.maximum(n, 1)
    return (mean / MEAN_ROOT_NORMAL) ** 2, n


def _largest(values: Array, width: int) -> Array:
    """Row i: the largest of rows i - width to i - 1 of each column, 0 where there are none. Values are 0 or above."""
    from scipy.ndimage import maximum_filter1d  # here: processes that are idle need not hold scipy

    largest = maximum_filter1d(values, width, axis=-2, origin=(width - 1) // 2, mode="constant")
    return np.concatenate([np.zeros_like(largest[..., :1, :]), largest], axis=-2)


def trial_errors(error: Array, before: int) -> Array:
    """Standard error of each shift, from the errors of its points; NaN if one of these is unknown."""
    if np.isnan(error).all():
        return np.full((*error.shape, len(AFTER)), np.nan)
    nothing = np.zeros_like(error[..., :1])
    squares = np.concatenate([nothing, np.cumsum(np.nan_to_num(error) ** 2, axis=-1)], axis=-1)
    unknown = np.concatenate([nothing, np.cumsum(np.isnan(error), axis=-1)], axis=-1)
    end = np.arange(1, error.shape[-1] + 1)[:, None]
    split = np.maximum(end - AFTER, 0)
    begin = np.maximum(0, split - before)
    new = (squares[..., end] - squares[..., split]) / AFTER**2
    old = (squares[..., split] - squares[..., begin]) / np.maximum(split - begin, 1) ** 2
    is_known = (split > 0) & (unknown[..., end] == unknown[..., begin])
    errors: Array = np.where(is_known, np.sqrt(new + old), np.nan)
    return errors


def quanta(level: Array) -> Array:
    """The smallest change of value up to each point: the step of a rounded metric, and close to 0 for other metrics."""
    moves = np.abs(np.diff(level, prepend=level[..., :1]))
    smallest = np.minimum.accumulate(np.where(moves > 0, moves, np.inf), axis=-1)
    return np.where(np.cumsum(moves > 0, axis=-1) >= QUANTISED_AFTER, smallest, 0.0)
