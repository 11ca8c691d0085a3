"""Why was a shift suspected at a place of a series, or why not? And how small a shift would be suspected now?

The answers use the same windows and limits as `changepoint.suspect_shifts`, and name the decisive limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from speedtrack.stats.arrays import Array
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
from speedtrack.stats.levels import levels
from speedtrack.stats.scale import Scale

SOON = 16  # points: shifts that only larger windows can show do not count as visible


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
    scale = Scale.of(value for point in points for value in point.values)
    level, error = (values[since:] for values in levels([point.values for point in points], scale))
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
        places = (scale.value(place) for place in (old, new, old - limit, old + limit))
        change = scale.ratio(size), scale.ratio(limit) - 1
        evidence.append(WindowEvidence(after, *change, score, name, agreement, needed, *places))
    return max(evidence, key=lambda reason: (reason.suspicious, reason.score))


def clearest_place(
    points: Sequence[Point], *, smallest_effect: float, sensitivity: Sensitivity = DEFAULT
) -> int | None:
    """The point within one level at which a shift comes nearest to its limit. None for fewer than two points."""
    if len(points) < 2:
        return None
    scale = Scale.of(value for point in points for value in point.values)
    level, error = levels([point.values for point in points], scale)
    table = shifts(level, newest_means(level, sensitivity.trim), sensitivity)
    limits, _ = _limits(level, error, scale.effect(smallest_effect), sensitivity)
    scores = np.nan_to_num(np.abs(table.size) / np.maximum(limits, 1e-300))
    arrival, column = np.unravel_index(int(scores.argmax()), scores.shape)
    return max(1, int(arrival) + 1 - int(AFTER[column]))


def smallest_visible_change(
    level: Sequence[float], error: Sequence[float], *, smallest_effect: float, sensitivity: Sensitivity = DEFAULT
) -> VisibleChange | None:
    """The smallest lasting change that would soon be suspected, from the logarithms and errors of one level's points.

    An unknown error is NaN. None for fewer than two points, or without anything to compare a change with.
    """
    if len(level) < 2:
        return None
    limits, which = _limits(np.array(level), np.array(error), math.log1p(smallest_effect), sensitivity)
    last = np.where((AFTER <= SOON) & (len(level) > AFTER), limits[-1], np.inf)
    column = int(np.argmin(last))
    if math.isinf(last[column]):
        return None
    return VisibleChange(math.expm1(float(last[column])), int(AFTER[column]), LIMITS[which[-1, column]])


def _limits(level: Array, error: Array, effect: float, sensitivity: Sensitivity) -> tuple[Array, Array]:
    """The limit of each shift, and its index in LIMITS: one row per point, one column per window size."""
    table = shifts(level, newest_means(level, sensitivity.trim), sensitivity)
    noise = yardsticks(table, np.empty((0, len(AFTER))), sensitivity)
    trials = sensitivity.trials * trial_errors(error, sensitivity.before)
    before = np.maximum(np.arange(len(level))[:, None] - AFTER, 0)
    rounding = sensitivity.quantum * quanta(level)[before]
    young = np.arange(len(level)) < sensitivity.least
    unknown = np.isnan(trials) | (AFTER > FEW)
    noise[young] = np.nan
    trials[young] = np.where(unknown, np.nan, effect + trials)[young]
    layers = np.stack([noise, trials, rounding, np.full(noise.shape, effect)])
    limits = np.nanmax(layers, axis=0)
    nothing = young[:, None] & unknown
    which = np.where(nothing, LIMITS.index(Limit.HISTORY), np.argmax(np.nan_to_num(layers, nan=-1.0), axis=0))
    return np.where(nothing, np.inf, limits), which
