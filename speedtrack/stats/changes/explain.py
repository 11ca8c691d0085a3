"""Why was a shift suspected at a place of a series, or why not? And how small a shift would be suspected now?

The answers use the same windows and limits as `changepoint.suspect_shifts`, and name the decisive limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from speedtrack.stats.arrays import Array, scale_of
from speedtrack.stats.changes.changepoint import DEFAULT, FEW, Point, _agreement
from speedtrack.stats.changes.windows import (
    AFTER,
    Sensitivity,
    newest_means,
    quanta,
    shifts,
    trial_errors,
    yardsticks,
)
from speedtrack.stats.levels import Trials, levels

SOON = 16  # points: shifts that only larger windows can show do not count as visible
AT_ONCE = 64  # lines that are examined at once


class Limit(StrEnum):
    """The highest limit."""

    NOISE = "noise"  #: the line's own moves
    TRIALS = "trials"  #: the error shown by the trials
    ROUNDING = "rounding"  #: the smallest step of a rounded metric
    EFFECT = "effect"  #: the smallest effect that matters
    HISTORY = "history"  #: too few earlier points and too few trials to compare with


LIMITS = list(Limit)  # in the order of the layers of ``_limits``


@dataclass(frozen=True)
class WindowEvidence:
    """The clearest window at a point. ``after``: the number of points of the new level.

    ``ratio`` is new level / old level by these points, ``limit`` the relative change that it had to exceed, ``score``
    the change in units of the limit (> 1 is suspicious). ``agreement``: the share of pairs, one point before and one
    after, that agree with the direction; at least ``wanted`` must. ``old``, ``new``: the two levels, in the metric's
    unit; ``low`` to ``high``: where the new one raises no suspicion.
    """

    after: int
    ratio: float
    limit: float
    score: float
    limited_by: Limit
    agreement: float
    wanted: float
    old: float
    new: float
    low: float
    high: float

    @property
    def suspicious(self) -> bool:
        return self.score > 1 and self.agreement >= self.wanted


@dataclass(frozen=True)
class VisibleChange:
    """The smallest lasting relative change that would be suspected, within ``after`` points."""

    smallest: float
    after: int
    limited_by: Limit


def explain_place(
    points: Sequence[Point], index: int, *, smallest_effect: float, since: int = 0, sensitivity: Sensitivity = DEFAULT
) -> WindowEvidence | None:
    """The evidence for and against a new level from point ``index`` on, over all window sizes with enough points.

    ``since``: the first point of the level before it, at the previous shift or 0. None if there is no point before it
    or at it.
    """
    if not since < index < len(points):
        return None
    trials = Trials.of([point.values for point in points])
    scale = scale_of(trials.values)
    level, error = (values[since:] for values in levels(trials, scale))
    begin = index - since
    newest = newest_means(level, sensitivity.trim)
    table = shifts(level, newest, sensitivity)
    limits, which = _limits(level, error, scale.effect(smallest_effect), sensitivity)
    evidence = []
    for column, after in enumerate(int(size) for size in AFTER):
        arrival = begin + after - 1
        if arrival >= len(level):
            break
        size = float(table.size[arrival, column])
        limit = float(limits[arrival, column])
        score = abs(size) / limit if limit > 0 else math.inf
        before = level[max(0, begin - sensitivity.before) : begin]
        agreement = _agreement(before, level[begin : arrival + 1], size)
        needed = sensitivity.agree[0 if after <= FEW else 1]
        name = LIMITS[which[arrival, column]]
        new = float(newest[arrival, column])
        old = new - size
        values = (scale.value(position) for position in (old, new, old - limit, old + limit))
        change = scale.ratio(size), scale.ratio(limit) - 1
        evidence.append(WindowEvidence(after, *change, score, name, agreement, needed, *values))
    return max(evidence, key=lambda reason: (reason.suspicious, reason.score))


def clearest_place(
    points: Sequence[Point], *, smallest_effect: float, sensitivity: Sensitivity = DEFAULT
) -> int | None:
    """The point within one level at which a shift comes nearest to its limit. None for fewer than two points."""
    if len(points) < 2:
        return None
    trials = Trials.of([point.values for point in points])
    scale = scale_of(trials.values)
    level, error = levels(trials, scale)
    table = shifts(level, newest_means(level, sensitivity.trim), sensitivity)
    limits, _ = _limits(level, error, scale.effect(smallest_effect), sensitivity)
    scores = np.nan_to_num(np.abs(table.size) / np.maximum(limits, 1e-300))
    arrival, column = np.unravel_index(int(scores.argmax()), scores.shape)
    return max(1, int(arrival) + 1 - int(AFTER[column]))


class LevelLine(NamedTuple):
    """The logarithms and errors of the points of one level; an unknown error is NaN. The smallest effect is a share."""

    level: Sequence[float]
    error: Sequence[float]
    smallest_effect: float


def smallest_visible_change(
    level: Sequence[float], error: Sequence[float], *, smallest_effect: float, sensitivity: Sensitivity = DEFAULT
) -> VisibleChange | None:
    """The answer of ``smallest_visible_changes`` for one line."""
    return smallest_visible_changes([LevelLine(level, error, smallest_effect)], sensitivity)[0]


def smallest_visible_changes(
    lines: Sequence[LevelLine], sensitivity: Sensitivity = DEFAULT
) -> list[VisibleChange | None]:
    """The smallest lasting change that would soon be suspected in each line.

    None for fewer than two points, or without anything to compare a change with.
    """
    batches = (lines[at : at + AT_ONCE] for at in range(0, len(lines), AT_ONCE))
    return [change for batch in batches for change in _visible_changes(batch, sensitivity)]


def _visible_changes(lines: Sequence[LevelLine], sensitivity: Sensitivity) -> Iterator[VisibleChange | None]:
    """The changes of lines as rows of one table. What fills up shorter rows comes after the limits that are read."""
    lengths = np.array([len(line.level) for line in lines])
    level, error = np.zeros((2, len(lines), max(1, lengths.max())))
    for row, line in enumerate(lines):
        level[row, : len(line.level)], error[row, : len(line.level)] = line.level, line.error
    effects = np.log1p([line.smallest_effect for line in lines])
    limits, which = _limits(level, error, effects[:, None, None], sensitivity)
    newest = np.arange(len(lines)), np.maximum(lengths, 1) - 1
    last = np.where((AFTER <= SOON) & (lengths[:, None] > AFTER), limits[newest], np.inf)
    for limit, after, reason in zip(last.min(axis=1), last.argmin(axis=1), which[newest], strict=True):
        change = VisibleChange(math.expm1(float(limit)), int(AFTER[after]), LIMITS[reason[after]])
        yield None if math.isinf(limit) else change


def _limits(level: Array, error: Array, effect: float | Array, sensitivity: Sensitivity) -> tuple[Array, Array]:
    """The limit of each shift, and its index in LIMITS: one row per point, one column per window size."""
    *outer, length = level.shape
    table = shifts(level, newest_means(level, sensitivity.trim), sensitivity)
    noise = yardsticks(table, np.empty((*outer, 0, len(AFTER))), sensitivity)
    trials = sensitivity.trials * trial_errors(error, sensitivity.before)
    before = np.maximum(np.arange(length)[:, None] - AFTER, 0)
    rounding = sensitivity.quantum * quanta(level)[..., before]
    young = (np.arange(length) < sensitivity.least)[:, None]
    unknown = np.isnan(trials) | (AFTER > FEW)
    noise = np.where(young, np.nan, noise)
    trials = np.where(young, np.where(unknown, np.nan, effect + trials), trials)
    layers = np.stack([noise, trials, rounding, np.broadcast_to(effect, noise.shape)])
    limits = np.fmax.reduce(layers)
    nothing = young & unknown
    which = np.where(nothing, LIMITS.index(Limit.HISTORY), np.argmax(np.nan_to_num(layers, nan=-1.0), axis=0))
    return np.where(nothing, np.inf, limits), which
