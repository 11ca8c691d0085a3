"""Where does one series look as if it had moved? Suspicions, sensitive and early; a re-measurement settles them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

import numpy as np

from speedtrack.stats.scale import Array, Scale
from speedtrack.stats.summary import MAD_TO_SIGMA
from speedtrack.stats.windows import (
    AFTER,
    Sensitivity,
    Shifts,
    newest_means,
    quanta,
    shifts,
    trial_errors,
    yardsticks,
)

DEFAULT = Sensitivity()
CHUNK = 256  # points examined at once
FEW = 4  # points: up to so many need closer agreement
REFINE = 8  # points to each side in which the place of a step is looked for
PLACE_BEFORE = 60  # points before a step that help to place it


@dataclass(frozen=True)
class Point:
    """The raw values of the trials of one measured commit; at least one."""

    values: tuple[float, ...]


@dataclass(frozen=True)
class Shift:
    """A suspected move of the level.

    ``index`` is the first point of the new level, ``seen`` the point whose arrival raised the suspicion. ``ratio`` is
    new level / old level by all points given, [low, high] roughly its 95% interval, ``score`` the shift at that moment
    in units of what it had to exceed (> 1). ``returns``: the level is back where it was before the previous shift,
    a few points ago; worth a re-measurement only if that one was confirmed.
    """

    index: int
    ratio: float
    low: float
    high: float
    score: float
    seen: int
    returns: bool = False


class _Series(NamedTuple):
    level: Array  # the median of each point, on the scale
    error: Array  # its standard error as far as the trials tell; NaN for single trials
    quantum: Array
    newest: Array
    effect: float


class _Segment(NamedTuple):
    """Since the last shift: where it starts, and the placebo shifts of the time before."""

    start: int
    past: Array


@dataclass(frozen=True)
class _Alarm:
    index: int
    seen: int
    score: float
    returns: bool = False


@dataclass(frozen=True)
class _Last:
    """The previous shift, with the segment and the levels around it."""

    index: int
    segment: _Segment
    old: float
    new: float


def suspect(
    points: Sequence[Point], *, smallest_effect: float = 0.01, sensitivity: Sensitivity = DEFAULT
) -> list[Shift]:
    """The suspected shifts of a series of measured commits in commit order, in the order in which they were seen.

    Replays the series: each point is judged by those before it, so more points never take a suspicion back. For a new
    measurement give the last 200 or so points and act on the shifts with ``seen`` at the new one.

    From 12 points on, a shift (trimmed mean of the newest 1 to 64 points against up to 40 before) must exceed what the
    series did by itself so far, the error that its trials show, the rounding of the metric and the smallest effect,
    and most pairs of points before and after must agree with it. Before that the trials decide: a shift must exceed
    the smallest effect by several standard errors of the trials; single trials raise no suspicion. After a shift the
    new level starts afresh, with the noise known before. With values of zero or below the scale is linear, see `Scale`.
    Two points are the least; fewer have no shifts.
    """
    if len(points) < 2:
        return []
    scale = Scale.of(value for point in points for value in point.values)
    places = [scale.place(point.values).tolist() for point in points]
    level = np.array([median(place) for place in places])
    newest = newest_means(level, sensitivity.trim)
    series = _Series(level, _errors(places), quanta(level), newest, scale.effect(smallest_effect))
    alarms = list(_alarms(series, sensitivity))
    return [_shift(alarm, alarms, series, scale) for alarm in alarms]


def _errors(places: Sequence[list[float]]) -> Array:
    """Standard error of each point's median, half by its own trials, half by those of all points so far."""
    own = np.array([_scatter(place) for place in places])
    known = ~np.isnan(own)
    roots = np.cumsum(np.sqrt(np.where(known, own, 0)))
    pooled = np.divide(roots, np.cumsum(known), out=np.full(len(own), np.nan), where=np.cumsum(known) > 0) ** 2
    sizes = np.array([len(place) for place in places])
    errors: Array = np.where(known, (own + pooled) / 2, pooled) * np.sqrt(np.where(sizes > 2, math.pi / 2, 1.0) / sizes)
    return errors


def _scatter(trials: list[float]) -> float:
    """Standard deviation of the trials of one point; from four on at most what absolute deviations show.

    So one trial may be wild. The factor for few values is that of Croux & Rousseeuw (1992).
    """
    n = len(trials)
    if n < 2:
        return math.nan
    mean = sum(trials) / n
    usual = math.sqrt(sum((trial - mean) ** 2 for trial in trials) / (n - 1))
    if n < 4:
        return usual
    middle = median(trials)
    return min(usual, MAD_TO_SIGMA * n / (n - 0.8) * median(abs(trial - middle) for trial in trials))


def _alarms(series: _Series, sensitivity: Sensitivity) -> Iterator[_Alarm]:
    """Replay: scan a segment until something stands out, start a new segment there, go on with the next point."""
    segment, last, now = _Segment(0, np.empty((0, len(AFTER)))), None, 1
    while now < len(series.level):
        begin = max(segment.start, now - sensitivity.history - sensitivity.before - int(AFTER[-1]))
        stop = min(now + CHUNK, len(series.level))
        table = shifts(series.level[begin:stop], series.newest[begin:stop], sensitivity)
        alarm = _first(series, segment._replace(start=begin), table, (now, sensitivity))
        if alarm is None:
            now = stop
            continue
        now = alarm.seen + 1
        old = float(np.median(series.level[max(begin, alarm.index - sensitivity.before) : alarm.index]))
        new = float(np.median(series.level[alarm.index : now]))
        mature = len(segment.past) + alarm.seen - begin >= sensitivity.least
        if last and mature and _is_return(alarm.index, new, last, sensitivity):
            yield replace(alarm, returns=True)
            segment, last = last.segment, None
            continue
        yield alarm
        last = _Last(alarm.index, segment, old, new)
        placebos = (table.size * table.weight)[: alarm.index - begin]
        segment = _Segment(alarm.index, np.concatenate([segment.past, placebos])[-sensitivity.history :])


def _is_return(index: int, level: float, last: _Last, sensitivity: Sensitivity) -> bool:
    near = abs(level - last.old) < sensitivity.back * abs(last.new - last.old)
    return near and index - last.index <= sensitivity.spike


def _first(series: _Series, segment: _Segment, table: Shifts, when: tuple[int, Sensitivity]) -> _Alarm | None:
    """The first alarm from point ``now`` on; of several window sizes at one point the clearest that is consistent."""
    now, sensitivity = when
    begin = segment.start
    with np.errstate(invalid="ignore"):
        scores = np.abs(table.size) / np.maximum(_limits(series, segment, table, sensitivity), 1e-300)
    scores = np.nan_to_num(scores[now - begin :])
    for row in np.flatnonzero((scores > 1).any(axis=1)):
        seen = now + int(row)
        for column in np.argsort(-scores[row])[: np.count_nonzero(scores[row] > 1)]:
            split = seen + 1 - int(AFTER[column])
            before, after = series.level[max(begin, split - sensitivity.before) : split], series.level[split : seen + 1]
            wanted = sensitivity.agree[0 if len(after) <= FEW else 1]
            if _agreement(before, after, float(table.size[seen - begin, column])) >= wanted:
                return _Alarm(_place(series.level, begin, split, seen), seen, float(scores[row, column]))
    return None


def _limits(series: _Series, segment: _Segment, table: Shifts, sensitivity: Sensitivity) -> Array:
    """What each shift of the table must exceed; infinite where nothing is known to hold it against."""
    part = slice(segment.start, segment.start + len(table.size))
    errors = sensitivity.trials * trial_errors(series.error[part], sensitivity.before)
    before = np.maximum(np.arange(part.start, part.stop)[:, None] - AFTER, 0)
    limits: Array = np.fmax(yardsticks(table, segment.past, sensitivity), errors)
    limits = np.fmax(limits, np.maximum(series.effect, sensitivity.quantum * series.quantum[before]))
    young = len(segment.past) + np.arange(len(limits)) < sensitivity.least
    limits[young] = np.where(np.isnan(errors) | (AFTER > FEW), np.inf, series.effect + errors)[young]
    return limits


def _agreement(before: Array, after: Array, shift: float) -> float:
    """The share of pairs (one before, one after) that moved the way of the shift."""
    return float(((after[:, None] - before[None, :]) * shift > 0).mean())


def _place(level: Array, begin: int, split: int, seen: int) -> int:
    """The split near the given one for which two constant levels leave the least absolute deviation."""
    low = max(begin, split - PLACE_BEFORE)
    places = range(max(low + 1, split - REFINE), min(seen, split + REFINE) + 1)
    return min(places, key=lambda place: _deviation(level[low:place]) + _deviation(level[place : seen + 1]))


def _deviation(values: Array) -> float:
    return float(np.abs(values - np.median(values)).sum())


def _shift(alarm: _Alarm, alarms: Sequence[_Alarm], series: _Series, scale: Scale) -> Shift:
    """The alarm with its ratio, by the points up to the neighbouring shifts."""
    start = max((other.index for other in alarms if other.index < alarm.index), default=0)
    stop = min((other.index for other in alarms if other.index > alarm.index), default=len(series.level))
    around = slice(max(start, alarm.index - DEFAULT.before), min(stop, alarm.index + int(AFTER[-1])))
    before, after = series.level[around.start : alarm.index], series.level[alarm.index : around.stop]
    delta = float(np.median(after) - np.median(before))
    error = _noise(series, around) * math.sqrt(math.pi / 2 * (1 / len(before) + 1 / len(after)))
    low, ratio, high = (scale.ratio(delta + side * 1.96 * error) for side in (-1, 0, 1))
    return Shift(alarm.index, ratio, low, high, alarm.score, alarm.seen, alarm.returns)


def _noise(series: _Series, around: slice) -> float:
    """Standard deviation of a point: by successive differences, not less than its trials show."""
    moves = np.abs(np.diff(series.level[around]))
    between = MAD_TO_SIGMA * float(np.median(moves)) / math.sqrt(2) if len(moves) > FEW else 0.0
    known = series.error[around][~np.isnan(series.error[around])]
    return max(between, float(np.median(known)) if len(known) else 0.0)
