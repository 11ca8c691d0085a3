"""Where does a series seem to have moved? These suspicions are early and sensitive; re-measuring settles them."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from speedtrack.stats.arrays import Array, scale_of
from speedtrack.stats.changes.windows import (
    AFTER,
    Sensitivity,
    Shifts,
    newest_means,
    quanta,
    rolling_means,
    shifts,
    trial_errors,
    yardsticks,
)
from speedtrack.stats.levels import Trials, levels
from speedtrack.stats.scale import Scale
from speedtrack.stats.summary import MAD_TO_SIGMA

DEFAULT = Sensitivity()
CHUNK = 256  # points examined at once
AT_ONCE = 16  # lines that are placed at once
FEW = 4  # points: windows up to this size need closer agreement
REFINE = 8  # points on each side of a split in which the exact index is searched
PLACE_BEFORE = 60  # points before a step that determine its exact index
NEAR = 2  # points: a shift this near to a known one in the same direction is the same shift
OTHER_LINE = math.log(2)  # a lasting refuted shift of this size is not noise: the unit or the surroundings changed


@dataclass(frozen=True)
class Point:
    """The raw values of the trials of one measured commit, at least one."""

    values: tuple[float, ...]


@dataclass(frozen=True)
class Shift:
    """A suspected move of the level.

    ``index`` is the first point of the new level, ``seen`` the point whose arrival raised the suspicion. ``ratio`` is
    new level / old level by all points, [low, high] roughly its 95% interval; ``score`` is the shift when it was seen,
    in units of its limit (> 1). ``returns``: the level went back to where it was before the previous shift, a few
    points ago; re-measuring is worthwhile only if that shift was confirmed.
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
    """A shift that was confirmed or refuted for good. Its new level starts between ``first`` and ``last``.

    ``near``: the number of points by which noise may move it.
    """

    first: int
    last: int
    upwards: bool
    confirmed: bool
    near: int = NEAR

    def is_same(self, index: int, upwards: bool) -> bool:
        """Return whether a shift at this index is the same one. A refuted shift's range may include its neighbours."""
        near = self.near if self.confirmed else max(0, self.near - (self.last - self.first) // 2)
        return upwards == self.upwards and self.first - near <= index <= self.last + near


class PlacedLine(NamedTuple):
    """A series of points on its scale, with the means of its windows: all that does not depend on what is known of it.

    ``level``: the median of each point; ``error``: its standard error from the trials, NaN for single trials;
    ``newest``: the means of the newest points; ``base``: the means of the points from the first on.
    """

    scale: Scale
    level: Array
    error: Array
    newest: Array
    base: Array


class _Series(NamedTuple):
    level: Array
    error: Array
    quantum: Array
    newest: Array
    base: Array
    effect: float
    spread: float  # standard deviation between points, from other series


class _Segment(NamedTuple):
    """The points since the last shift: the first one, and the placebo shifts of earlier segments."""

    start: int
    past: Array


@dataclass(frozen=True)
class _Alarm:
    """``known``: it only starts a new segment, because it is confirmed already or is no shift of this line."""

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
    """Find the suspected shifts of a series of measured commits, in the order in which they were seen.

    The points are in commit order. The series is replayed: each point is judged by those before it, so further points
    never take a suspicion back. For a new measurement, pass about the last 200 points and use the shifts that were
    ``seen`` at the newest.

    From 12 points on, a shift (trimmed mean of the newest 1 to 64 points against up to 40 before) must exceed the
    series' own moves so far, the error that its trials show, the rounding of the metric and the smallest effect, and
    most pairs of points before and after must agree with it. With fewer points, the trials decide together with
    ``spread``, the relative standard deviation between runs of other series (0: not known), and with the moves so far
    if these are larger: a shift must exceed the smallest effect by several standard errors; single trials without a
    spread raise no suspicion. A shift starts a new level, with the noise known from before. With values of zero or
    below the scale is linear, see `Scale`.

    ``settled`` shifts are not suspected again. A confirmed one starts a new level at its index. A refuted one does not,
    so its points count as noise of the line; but if it at least doubles or halves the level and lasts, it is not noise
    (the metric may have changed its unit), and it starts a new level without a suspicion.

    Fewer than two points have no shifts.
    """
    if len(points) < 2:
        return []
    (line,) = placed_lines([Trials.of([point.values for point in points])], sensitivity)
    return suspect_shifts_in(
        line, smallest_effect=smallest_effect, settled=settled, spread=spread, sensitivity=sensitivity
    )


def suspect_shifts_in(
    line: PlacedLine,
    *,
    smallest_effect: float = 0.01,
    settled: Sequence[SettledShift] = (),
    spread: float = 0.0,
    sensitivity: Sensitivity = DEFAULT,
) -> list[Shift]:
    """The answer of ``suspect_shifts`` for a line that is placed already."""
    scale, level, error, newest, base = line
    if len(level) < 2:
        return []
    series = _Series(level, error, quanta(level), newest, base, scale.effect(smallest_effect), spread)
    boundaries = _boundaries(level, settled)
    alarms = list(_alarms(series, settled, boundaries, sensitivity))
    cuts = [*boundaries, *(alarm.index for alarm in alarms)]
    return [_shift(alarm, cuts, series, scale) for alarm in alarms if not alarm.known]


def placed_lines(of_trials: Sequence[Trials], sensitivity: Sensitivity = DEFAULT) -> list[PlacedLine]:
    """The points of each line on its scale. The means of several lines are computed at once."""
    batches = (of_trials[at : at + AT_ONCE] for at in range(0, len(of_trials), AT_ONCE))
    return [line for batch in batches for line in _placed_together(batch, sensitivity)]


def _placed_together(of_trials: Sequence[Trials], sensitivity: Sensitivity) -> Iterator[PlacedLine]:
    """Place lines as rows of one table. What fills up shorter rows comes after the means that are read."""
    scales = [scale_of(trials.values) for trials in of_trials]
    placed = [levels(trials, scale) for trials, scale in zip(of_trials, scales, strict=True)]
    table = np.zeros((len(placed), max(len(level) for level, _ in placed)))
    for at, (level, _) in enumerate(placed):
        table[at, : len(level)] = level
    newest, base = newest_means(table, sensitivity.trim), rolling_means(table, sensitivity.before, sensitivity.trim)
    for at, (scale, (level, error)) in enumerate(zip(scales, placed, strict=True)):
        yield PlacedLine(scale, level, error, newest[at, : len(level)], base[at, : len(level)])


def _boundaries(level: Array, settled_shifts: Iterable[SettledShift]) -> list[int]:
    """The indices where confirmed shifts start new levels: where two levels fit best in the range of each shift."""
    boundaries = set()
    for shift in settled_shifts:
        indices = range(max(1, shift.first), min(shift.last, len(level) - 1) + 1)
        if shift.confirmed and indices:
            low, high = max(0, indices[0] - PLACE_BEFORE), min(len(level), indices[-1] + int(AFTER[-1]))
            boundaries.add(indices[0] if len(indices) == 1 else _fit(level[low:high], indices, low))
    return sorted(boundaries)


def _alarms(
    series: _Series, settled_shifts: Sequence[SettledShift], boundaries: Sequence[int], sensitivity: Sensitivity
) -> Iterator[_Alarm]:
    """Replay the series: scan a segment up to the first alarm, start a new segment there, and go on."""
    segment, last, now = _Segment(0, np.empty((0, len(AFTER)))), None, 1
    while now < len(series.level):
        begin = max(segment.start, now - sensitivity.history - sensitivity.before - int(AFTER[-1]))
        boundary = next((boundary for boundary in boundaries if boundary >= now), len(series.level))
        stop = min(now + CHUNK, boundary)
        base = None if begin else series.base[:stop]
        table = shifts(series.level[begin:stop], series.newest[begin:stop], sensitivity, base)
        alarm = _first(series, segment._replace(start=begin), table, (now, sensitivity), settled_shifts)
        if alarm is None:
            now = stop
            if stop == boundary:
                segment, last, now = _next_segment(segment, table, begin, boundary, sensitivity), None, boundary + 1
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
    """The segment that begins at ``start``, with the placebos of this one, whose table begins at ``begin``."""
    placebos = (table.size * table.weight)[: start - begin]
    return _Segment(start, np.concatenate([segment.past, placebos])[-sensitivity.history :])


def _is_return(index: int, level: float, last: _Last, sensitivity: Sensitivity) -> bool:
    near = abs(level - last.old) < sensitivity.back * abs(last.new - last.old)
    return near and index - last.index <= sensitivity.spike


def _first(
    series: _Series,
    segment: _Segment,
    table: Shifts,
    when: tuple[int, Sensitivity],
    settled_shifts: Sequence[SettledShift],
) -> _Alarm | None:
    """The first alarm from point ``now`` on; among several window sizes at one point, the clearest consistent one."""
    now, sensitivity = when
    begin = segment.start
    with np.errstate(invalid="ignore"):
        scores = np.abs(table.size) / np.maximum(_limits(series, segment, table, sensitivity), 1e-300)
    scores = np.nan_to_num(scores[now - begin :])
    for row in np.flatnonzero((scores > 1).any(axis=1)):
        arrival = now + int(row)
        nothing: list[SettledShift] = []  # refuted shifts that windows at this point show again
        for column in np.argsort(-scores[row])[: np.count_nonzero(scores[row] > 1)]:
            split, size = arrival + 1 - int(AFTER[column]), float(table.size[arrival - begin, column])
            before, after = (
                series.level[max(begin, split - sensitivity.before) : split],
                series.level[split : arrival + 1],
            )
            if any(shift.first - REFINE <= split <= shift.last + REFINE for shift in nothing):
                continue  # another window over the same refuted shift
            if _agreement(before, after, size) < sensitivity.agree[0 if len(after) <= FEW else 1]:
                continue
            alarm = _Alarm(_place(series.level, begin, split, arrival), arrival, float(scores[row, column]))
            same = next((shift for shift in settled_shifts if shift.is_same(alarm.index, size > 0)), None)
            if same is None:
                return alarm
            if same.confirmed or (abs(size) > OTHER_LINE and arrival - alarm.index >= FEW):
                return replace(alarm, known=True)
            nothing.append(same)
    return None


def _limits(series: _Series, segment: _Segment, table: Shifts, sensitivity: Sensitivity) -> Array:
    """The limit that each shift of the table must exceed; infinite without anything to compare with."""
    window = slice(segment.start, segment.start + len(table.size))
    errors = sensitivity.trials * trial_errors(series.error[window], sensitivity.before)
    before = np.maximum(np.arange(window.start, window.stop)[:, None] - AFTER, 0)
    limits: Array = np.fmax(yardsticks(table, segment.past, sensitivity), errors)
    limits = np.fmax(limits, np.maximum(series.effect, sensitivity.quantum * series.quantum[before]))
    young = len(segment.past) + np.arange(len(limits)) < sensitivity.least
    if young.any():
        limits[young] = _young_limits(series, segment, table, errors, sensitivity)[young]
    return limits


def _young_limits(series: _Series, segment: _Segment, table: Shifts, errors: Array, sensitivity: Sensitivity) -> Array:
    """The limits while the line has little history: from its trials, and from the spread between runs."""
    if series.spread:
        moves = np.concatenate([segment.past, table.size * table.weight])[:, 0]
        spread = _spread_so_far(moves, series.spread, sensitivity.borrowed)[len(segment.past) :, None]
        errors = np.hypot(np.where(np.isnan(errors), 0.0, errors), sensitivity.between * spread / table.weight)
    limits: Array = np.where(np.isnan(errors) | (AFTER > FEW), np.inf, series.effect + errors)
    return limits


def _spread_so_far(moves: Array, known_spread: float, borrowed: float) -> Array:
    """The spread between runs from the moves before each, and the known spread, which counts as ``borrowed`` moves.

    It is at least the known spread, since a few points may be close to each other by chance.
    """
    squares, counts = np.cumsum(np.nan_to_num(moves) ** 2), np.cumsum(~np.isnan(moves))
    own, n = np.concatenate([[0.0], squares[:-1]]), np.concatenate([[0], counts[:-1]])
    spread: Array = np.maximum(known_spread, np.sqrt((borrowed * known_spread**2 + own) / (borrowed + n)))
    return spread


def _agreement(before: Array, after: Array, shift: float) -> float:
    """The share of pairs (one point before, one after) that agree with the direction of the shift."""
    return float(((after[:, None] - before[None, :]) * shift > 0).mean())


def _place(level: Array, begin: int, split: int, arrival: int) -> int:
    """The split near this one for which two constant levels leave the smallest absolute deviations."""
    low = max(begin, split - PLACE_BEFORE)
    return _fit(level[low : arrival + 1], range(max(low + 1, split - REFINE), min(arrival, split + REFINE) + 1), low)


def _fit(level: Array, indices: Sequence[int], low: int) -> int:
    """The best split among these neighbouring indices, the first of equal ones. ``level`` begins at index ``low``."""
    values: list[float] = level.tolist()
    lefts = _deviations(values, [index - low for index in indices])
    rights = _deviations(values[::-1], [len(values) - (index - low) for index in reversed(indices)])
    costs = [before + after for before, after in zip(lefts, reversed(rights), strict=True)]
    least = min(costs)
    equal = (math.isclose(cost, least, rel_tol=1e-9, abs_tol=1e-12) for cost in costs)  # rounding must not decide
    return next(index for index, is_best in zip(indices, equal, strict=True) if is_best)


def _deviations(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """For each count: the sum of absolute deviations of the first values from their median. Counts grow by one."""
    ordered = sorted(values[: counts[0] - 1])
    sums = []
    for count in counts:
        insort(ordered, values[count - 1])
        sums.append(sum(ordered[(count + 1) // 2 :]) - sum(ordered[: count // 2]))
    return sums


def _shift(alarm: _Alarm, cuts: Sequence[int], series: _Series, scale: Scale) -> Shift:
    """The shift of an alarm, with its ratio from the points up to the neighbouring shifts."""
    start = max((cut for cut in cuts if cut < alarm.index), default=0)
    stop = min((cut for cut in cuts if cut > alarm.index), default=len(series.level))
    around = slice(max(start, alarm.index - DEFAULT.before), min(stop, alarm.index + int(AFTER[-1])))
    before, after = series.level[around.start : alarm.index], series.level[alarm.index : around.stop]
    delta = float(np.median(after) - np.median(before))
    error = _noise(series, around) * math.sqrt(math.pi / 2 * (1 / len(before) + 1 / len(after)))
    low, ratio, high = (scale.ratio(delta + side * 1.96 * error) for side in (-1, 0, 1))
    return Shift(alarm.index, ratio, low, high, alarm.score, alarm.seen, alarm.returns)


def _noise(series: _Series, around: slice) -> float:
    """Standard deviation of a point from successive differences, but at least the one from the trials."""
    moves = np.abs(np.diff(series.level[around]))
    between = MAD_TO_SIGMA * float(np.median(moves)) / math.sqrt(2) if len(moves) > FEW else 0.0
    errors = series.error[around][~np.isnan(series.error[around])]
    return max(between, float(np.median(errors)) if len(errors) else 0.0)
