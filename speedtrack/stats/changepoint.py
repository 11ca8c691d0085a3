"""Where does one series look as if it had moved? Suspicions, sensitive and early; a re-measurement settles them."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from speedtrack.stats.levels import levels
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
NEAR = 2  # points: a shift this near to a known one, in its direction, is the same one
OTHER_LINE = math.log(2)  # a refuted shift of this size that lasts is no noise: the unit or the surroundings changed


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


@dataclass(frozen=True)
class SettledShift:
    """What is known of a shift for good: it was confirmed or refuted. Its new level starts at ``first`` to ``last``."""

    first: int
    last: int
    upwards: bool
    confirmed: bool

    def is_same(self, index: int, upwards: bool) -> bool:
        """Is a shift at this place this one again? The range of a refuted one may hold its neighbours already."""
        near = NEAR if self.confirmed else max(0, NEAR - (self.last - self.first) // 2)
        return upwards == self.upwards and self.first - near <= index <= self.last + near


class _Series(NamedTuple):
    level: Array  # the median of each point, on the scale
    error: Array  # its standard error as far as the trials tell; NaN for single trials
    quantum: Array
    newest: Array
    effect: float
    spread: float  # standard deviation between points, as known from elsewhere


class _Segment(NamedTuple):
    """Since the last shift: where it starts, and the placebo shifts of the time before."""

    start: int
    past: Array


@dataclass(frozen=True)
class _Alarm:
    """``known``: it only starts a new segment, as it is confirmed already, or is no shift of this line."""

    index: int
    seen: int
    score: float
    returns: bool = False
    known: bool = False


@dataclass(frozen=True)
class _Last:
    """The previous shift, with the segment and the levels around it."""

    index: int
    segment: _Segment
    old: float
    new: float


def suspect_shifts(
    points: Sequence[Point],
    *,
    smallest_effect: float = 0.01,
    settled: Sequence[SettledShift] = (),
    spread: float = 0.0,
    sensitivity: Sensitivity = DEFAULT,
) -> list[Shift]:
    """The suspected shifts of a series of measured commits in commit order, in the order in which they were seen.

    Replays the series: each point is judged by those before it, so more points never take a suspicion back. For a new
    measurement give the last 200 or so points and act on the shifts with ``seen`` at the new one.

    From 12 points on, a shift (trimmed mean of the newest 1 to 64 points against up to 40 before) must exceed what the
    series did by itself so far, the error that its trials show, the rounding of the metric and the smallest effect,
    and most pairs of points before and after must agree with it. Before that the trials decide, and ``spread``, the
    relative standard deviation between runs as other series show it (0: not known): a shift must exceed the smallest
    effect by several standard errors; single trials without a spread raise no suspicion. After a shift the new level
    starts afresh, with the noise known before. With values of zero or below the scale is linear, see `Scale`.

    What is ``settled`` is not suspected again. A confirmed shift starts a new level where it is; a refuted one cuts
    nothing, so that what it did is noise of the line. But a refuted one of twice the level that lasts is no noise
    (a metric that changed its unit): it starts a new level in silence.

    Two points are the least; fewer have no shifts.
    """
    if len(points) < 2:
        return []
    trials = [point.values for point in points]
    scale = Scale.of(chain.from_iterable(trials))
    level, error = levels(trials, scale)
    newest = newest_means(level, sensitivity.trim)
    series = _Series(level, error, quanta(level), newest, scale.effect(smallest_effect), spread)
    walls = _walls(level, settled)
    alarms = list(_alarms(series, settled, walls, sensitivity))
    cuts = [*walls, *(alarm.index for alarm in alarms)]
    return [_shift(alarm, cuts, series, scale) for alarm in alarms if not alarm.known]


def _walls(level: Array, settled: Iterable[SettledShift]) -> list[int]:
    """Where confirmed shifts start new levels: in the range of each, where two levels fit best."""
    walls = set()
    for one in settled:
        places = range(max(1, one.first), min(one.last, len(level) - 1) + 1)
        if one.confirmed and places:
            low, high = max(0, places[0] - PLACE_BEFORE), min(len(level), places[-1] + int(AFTER[-1]))
            walls.add(places[0] if len(places) == 1 else _fit(level[low:high], places, low))
    return sorted(walls)


def _alarms(
    series: _Series, settled: Sequence[SettledShift], walls: Sequence[int], sensitivity: Sensitivity
) -> Iterator[_Alarm]:
    """Replay: scan a segment until something stands out, start a new segment there, go on with the next point."""
    segment, last, now = _Segment(0, np.empty((0, len(AFTER)))), None, 1
    while now < len(series.level):
        begin = max(segment.start, now - sensitivity.history - sensitivity.before - int(AFTER[-1]))
        wall = next((wall for wall in walls if wall >= now), len(series.level))
        stop = min(now + CHUNK, wall)
        table = shifts(series.level[begin:stop], series.newest[begin:stop], sensitivity)
        alarm = _first(series, segment._replace(start=begin), table, (now, sensitivity), settled)
        if alarm is None:
            now = stop
            if stop == wall:
                segment, last, now = _next_segment(segment, table, begin, wall, sensitivity), None, wall + 1
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
        segment = _next_segment(segment, table, begin, alarm.index, sensitivity)


def _next_segment(segment: _Segment, table: Shifts, begin: int, start: int, sensitivity: Sensitivity) -> _Segment:
    """The segment from ``start`` on, which knows the placebos of this one, whose table begins at ``begin``."""
    placebos = (table.size * table.weight)[: start - begin]
    return _Segment(start, np.concatenate([segment.past, placebos])[-sensitivity.history :])


def _is_return(index: int, level: float, last: _Last, sensitivity: Sensitivity) -> bool:
    near = abs(level - last.old) < sensitivity.back * abs(last.new - last.old)
    return near and index - last.index <= sensitivity.spike


def _first(
    series: _Series, segment: _Segment, table: Shifts, when: tuple[int, Sensitivity], settled: Sequence[SettledShift]
) -> _Alarm | None:
    """The first alarm from point ``now`` on; of several window sizes at one point the clearest that is consistent."""
    now, sensitivity = when
    begin = segment.start
    with np.errstate(invalid="ignore"):
        scores = np.abs(table.size) / np.maximum(_limits(series, segment, table, sensitivity), 1e-300)
    scores = np.nan_to_num(scores[now - begin :])
    for row in np.flatnonzero((scores > 1).any(axis=1)):
        seen = now + int(row)
        nothing: list[SettledShift] = []  # what was found to be a refuted shift again at this point
        for column in np.argsort(-scores[row])[: np.count_nonzero(scores[row] > 1)]:
            split, size = seen + 1 - int(AFTER[column]), float(table.size[seen - begin, column])
            before, after = series.level[max(begin, split - sensitivity.before) : split], series.level[split : seen + 1]
            if any(one.first - REFINE <= split <= one.last + REFINE for one in nothing):
                continue  # another window over the same refuted shift
            if _agreement(before, after, size) < sensitivity.agree[0 if len(after) <= FEW else 1]:
                continue
            alarm = _Alarm(_place(series.level, begin, split, seen), seen, float(scores[row, column]))
            same = next((one for one in settled if one.is_same(alarm.index, size > 0)), None)
            if same is None:
                return alarm
            if same.confirmed or (abs(size) > OTHER_LINE and seen - alarm.index >= FEW):
                return replace(alarm, known=True)
            nothing.append(same)
    return None


def _limits(series: _Series, segment: _Segment, table: Shifts, sensitivity: Sensitivity) -> Array:
    """What each shift of the table must exceed; infinite where nothing is known to hold it against."""
    part = slice(segment.start, segment.start + len(table.size))
    errors = sensitivity.trials * trial_errors(series.error[part], sensitivity.before)
    before = np.maximum(np.arange(part.start, part.stop)[:, None] - AFTER, 0)
    limits: Array = np.fmax(yardsticks(table, segment.past, sensitivity), errors)
    limits = np.fmax(limits, np.maximum(series.effect, sensitivity.quantum * series.quantum[before]))
    young = len(segment.past) + np.arange(len(limits)) < sensitivity.least
    limits[young] = _young_limits(series, table, errors, sensitivity)[young]
    return limits


def _young_limits(series: _Series, table: Shifts, errors: Array, sensitivity: Sensitivity) -> Array:
    """What a shift must exceed before the line has a history: by its trials and the spread of runs elsewhere."""
    if series.spread:
        errors = np.hypot(np.nan_to_num(errors), sensitivity.between * series.spread / table.weight)
    limits: Array = np.where(np.isnan(errors) | (AFTER > FEW), np.inf, series.effect + errors)
    return limits


def _agreement(before: Array, after: Array, shift: float) -> float:
    """The share of pairs (one before, one after) that moved the way of the shift."""
    return float(((after[:, None] - before[None, :]) * shift > 0).mean())


def _place(level: Array, begin: int, split: int, seen: int) -> int:
    """The split near the given one for which two constant levels leave the least absolute deviation."""
    low = max(begin, split - PLACE_BEFORE)
    return _fit(level[low : seen + 1], range(max(low + 1, split - REFINE), min(seen, split + REFINE) + 1), low)


def _fit(level: Array, places: Sequence[int], low: int) -> int:
    """The place, of these neighbouring ones, where the levels split best; ``level`` begins at place ``low``."""
    values: list[float] = level.tolist()
    lefts = _deviations(values, [place - low for place in places])
    rights = _deviations(values[::-1], [len(values) - (place - low) for place in reversed(places)])
    costs = [left + right for left, right in zip(lefts, reversed(rights), strict=True)]
    return places[costs.index(min(costs))]


def _deviations(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """The sum of absolute deviations from the median of the first so many values; the counts grow by one."""
    ordered = sorted(values[: counts[0] - 1])
    sums = []
    for count in counts:
        insort(ordered, values[count - 1])
        sums.append(sum(ordered[(count + 1) // 2 :]) - sum(ordered[: count // 2]))
    return sums


def _shift(alarm: _Alarm, cuts: Sequence[int], series: _Series, scale: Scale) -> Shift:
    """The alarm with its ratio, by the points up to the neighbouring shifts."""
    start = max((cut for cut in cuts if cut < alarm.index), default=0)
    stop = min((cut for cut in cuts if cut > alarm.index), default=len(series.level))
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
