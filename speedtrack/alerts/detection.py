"""Find suspected change points in series that have new measurements. Sensitive, never mailed: confirm.py settles."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import connection, transaction

from speedtrack.alerts import drift, history, spreads, windows
from speedtrack.alerts.history import smallest_effect
from speedtrack.alerts.known import ChangeRange, KnownChange, known_changes, rewritten_changes
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.past import mark_past
from speedtrack.alerts.trouble import isolated
from speedtrack.alerts.windows import Line
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.runs.models import Series
from speedtrack.stats.changepoint import DEFAULT, NEAR, Point, Shift, suspect_shifts
from speedtrack.stats.history import HistoryVerdict, history_verdicts

Status = ChangePoint.Status

MOST_NEWS = 200  # newest points at which the history is asked, at most: an import brings thousands

UNFOUNDED = """
    SELECT cp.id
      FROM alerts_changepoint cp, unnest(ARRAY[cp.before_id, cp.commit_id]) AS side (commit_id)
     WHERE cp.series_id = %s AND cp.kind = 'step' AND cp.status = 'suspected'
       AND NOT EXISTS (SELECT FROM runs_measurement m
                        WHERE m.series_id = cp.series_id AND m.commit_id = side.commit_id
                          AND m.accepted AND NOT m.paired AND m.flags = '{}')
"""


def detect() -> int:
    """Look at every series with new measurements. Returns how many were looked at. Safe to run twice at once."""
    looked = 0
    for series in Series.objects.undetected().select_related("project", "benchmark", "machine"):
        since = series.undetected_since
        with transaction.atomic(), isolated(series):
            if since and Series.objects.filter(pk=series.pk, undetected_since=since).update(undetected_since=None):
                detect_in(series, since)
                looked += 1
    return looked


def detect_in(series: Series, since: datetime) -> None:
    """Suspect changes that rest on measurements accepted since then, on every line of the series through them."""
    if not METRICS[series.metric].watched:
        return
    withdraw_unfounded(series)
    lines = windows.lines(series, since)
    if not lines:
        return
    effect = smallest_effect(series)
    why = history.why_not_measurable(series)
    for line in lines:
        rewritten = rewritten_changes(series, line)
        update_suspicions(series, line, effect, rewritten)
        if why:
            history.judge(series, line, effect, why)
        drift.look(series, line, effect, rewritten)


def withdraw_unfounded(series: Series) -> None:
    """Drop the suspicions one of whose two commits is no point any more: what was measured of it is now flagged."""
    with connection.cursor() as cursor:
        cursor.execute(UNFOUNDED, [series.pk])
        drop([pk for (pk,) in cursor])


def drop(suspicions: Sequence[int]) -> None:
    if suspicions:
        ChangePoint.objects.filter(pk__in=suspicions, status=Status.SUSPECTED).delete()


def update_suspicions(series: Series, line: Line, effect: float, rewritten: Sequence[ChangeRange]) -> None:
    """Write the suspicions that new points have raised, and move or drop those that points between have changed.

    A shift counts when a new point is among those it rests on: a point at the end of the line raises suspicions that
    its arrival has shown, one that fills a gap also those around it. So a window that slides over a long line suspects
    no old commit again.
    """
    new = line.new
    if not new:
        return
    known = known_changes(series, line, rewritten)
    shifts = find_shifts(series, line, known, effect)
    earlier: ChangePoint | None = None
    found: list[ChangePoint] = []
    for shift in shifts:
        match = next((k for k in known if k.is_same(shift)), None)
        if shift.returns and (earlier is None or earlier.status in (Status.REFUTED, Status.UNSETTLED)):
            earlier = None
            continue  # back from where it never was: the shift before it is not there, or was nothing
        origin = earlier if shift.returns else None
        earlier = match.change_point if match else None
        if match and match.is_open and match.change_point not in found:
            move(match.change_point, line, shift)
            found.append(match.change_point)
        elif match is None and (new_points := rests_on(shift, new)):
            earlier = raise_suspicion(series, line, shift, origin)
            mark_past(earlier, [line.points[i].commit_id for i in new_points])
            known.append(KnownChange(earlier, shift.index, shift.index))
            found.append(earlier)
    filled = [i for i in new if i < len(line.points) - 1]
    dissolved = [
        k.change_point.pk
        for k in known
        if k.is_open and k.change_point not in found and any(-NEAR <= k.last - i <= DEFAULT.before for i in filled)
    ]
    drop(dissolved)


def rests_on(shift: Shift, new: Sequence[int]) -> list[int]:
    """Which of these points are among those that the shift was judged by?"""
    return [i for i in new if shift.index - DEFAULT.before <= i <= shift.seen]


def raise_suspicion(series: Series, line: Line, shift: Shift, origin: ChangePoint | None) -> ChangePoint:
    return ChangePoint.objects.create(
        series=series, branch=line.branch, status=Status.SUSPECTED, returns_from=origin, **what_moved(line, shift)
    )


def move(suspicion: ChangePoint, line: Line, shift: Shift) -> None:
    """Bring an open suspicion in line with what further points say of it, unless it is being settled meanwhile."""
    moved = what_moved(line, shift)
    if any(getattr(suspicion, name) != value for name, value in moved.items()):
        ChangePoint.objects.filter(pk=suspicion.pk, status=Status.SUSPECTED).update(**moved)


def what_moved(line: Line, shift: Shift) -> dict[str, float | int]:
    return {
        "before_id": line.points[shift.index - 1].commit_id,
        "commit_id": line.points[shift.index].commit_id,
        "ratio": shift.ratio,
        "low": shift.low,
        "high": shift.high,
        "score": shift.score,
    }


def find_shifts(series: Series, line: Line, known: Sequence[KnownChange], effect: float) -> list[Shift]:
    """The suspected shifts of at least the smallest effect.

    Those that stand out as they arrive, and what only the history of the line as a whole shows at a new point.
    """
    points = [Point(point.trials) for point in line.points]
    settled = [answer for one in known if (answer := one.settled())]
    shifts = suspect_shifts(points, smallest_effect=effect, settled=settled, spread=spreads.of(series, points, effect))
    levels = [one.last for one in settled if one.confirmed]
    since = max(min(line.new), len(points) - MOST_NEWS)
    by_history = history_verdicts(points, smallest_effect=effect, settled=levels, since=since)
    return [*shifts, *only_in_history(by_history, shifts, known)]


def only_in_history(
    by_history: Sequence[HistoryVerdict], shifts: Sequence[Shift], known: Sequence[KnownChange]
) -> Iterator[Shift]:
    """The verdicts near which no shift was found, as shifts. One that may be an open suspicion gets its place."""
    for verdict in by_history:
        if not any(verdict.may_be_at(shift.index) for shift in shifts):
            place = next((one.last for one in known if one.is_open and verdict.may_be_at(one.last)), verdict.index)
            yield Shift(place, verdict.ratio, verdict.low, verdict.high, verdict.score, verdict.seen)
