"""Find suspected change points in series with new measurements. Sensitive and never mailed: confirm.py settles them."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from speedtrack.alerts.detection import drift, driftreferences, history
from speedtrack.alerts.lines import comparisons, sensitivity
from speedtrack.alerts.lines.effects import EffectsOfProjects
from speedtrack.alerts.lines.known import KnownChange, known_lines, near_in, unfounded_suspicions
from speedtrack.alerts.lines.past import mark_past
from speedtrack.alerts.lines.spreads import spreads_of
from speedtrack.alerts.lines.trouble import DATABASE_AWAY, clear_trouble, isolated
from speedtrack.alerts.lines.windows import Window, windows_since
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.ground.observing import failpoints
from speedtrack.runs.models import Series
from speedtrack.stats.changes.changepoint import DEFAULT, PlacedLine, Shift, placed_lines, suspect_shifts_in
from speedtrack.stats.changes.history import HistoryVerdict, verdicts_on

Status = ChangePoint.Status

TOGETHER = 100  # series that are read and judged in one transaction; whoever accepts measurements of them waits for it
MOST_JUDGED = 200  # of the new points, the newest at which the whole history is judged: an import brings thousands


class JudgedLine(NamedTuple):
    """A window with new points, its points on their scale, and the smallest effect that matters in its series."""

    window: Window
    placed: PlacedLine
    effect: float


def detect() -> int:
    """Look at every series with new measurements. Return the number of series.

    Two of these may run at the same time. Series are read and judged together, so that the number of queries does not
    grow with the number of series.
    """
    count, effects = 0, EffectsOfProjects()
    while True:
        batch_size = detect_in_some(effects)
        count += batch_size
        if batch_size < TOGETHER:
            return count


def detect_in_some(effects: EffectsOfProjects) -> int:
    """Look at up to TOGETHER series. Return their number. If one of them fails, they are looked at one by one."""
    locked: list[Series] = []
    try:
        with transaction.atomic():
            locked = take(Series.objects.undetected())
            look_at(locked, effects)
            clear_trouble(locked)
            failpoints.reach("detect.before_commit")
            return len(locked)
    except DATABASE_AWAY:
        raise
    except Exception:  # which one fails is found, and logged, by itself
        return sum(detect_alone(series.pk, effects) for series in locked)


def detect_alone(pk: int, effects: EffectsOfProjects) -> int:
    with transaction.atomic():
        locked = take(Series.objects.undetected().filter(pk=pk))
        for series in locked:
            with isolated(series):
                look_at(locked, effects)
        return len(locked)


def take(undetected: QuerySet[Series]) -> list[Series]:
    """Lock some of these series, skipping those that are locked already. Return them.

    Measurements that are accepted from now on wait for the lock, and then mark the series again.
    """
    locked = undetected.order_by("pk").select_for_update(skip_locked=True, of=("self",), no_key=True)
    # Not joined: few projects, machines and benchmarks have many series, and their documents are long.
    return list(locked.prefetch_related("project", "machine__projects", "benchmark")[:TOGETHER])


def look_at(locked: Sequence[Series], effects: EffectsOfProjects) -> None:
    """Judge series that are locked, and store that their new measurements have been seen."""
    news = [(series, series.undetected_since) for series in locked if series.undetected_since]
    detect_in(news, effects)
    comparisons.compare_new(news, effects)
    sensitivity.judge([series for series, _ in news], effects)
    Series.objects.filter(pk__in=[series.pk for series in locked]).update(undetected_since=None)


def detect_in(news: Sequence[tuple[Series, datetime]], effects: EffectsOfProjects | None = None) -> None:
    """Suspect changes that measurements accepted since the given times show, on every line of each series with them.

    ``effects``: the smallest effects, if they are loaded already.
    """
    effects = effects or EffectsOfProjects()
    watched = [(series, since) for series, since in news if METRICS[series.metric].watched]
    if not watched:
        return
    drop_suspicions(unfounded_suspicions([series for series, _ in watched]))
    windows = [window for window in windows_since(watched) if window.new]
    if not windows:
        return
    placed = placed_lines([window.points.trials for window in windows])
    lines = [JudgedLine(*both, effects.of(both[0].series)) for both in zip(windows, placed, strict=True)]
    spreads = spreads_of([(line.window.series, line.window.values, line.effect) for line in lines])
    stale: set[int] = set()  # the series of which the known steps must be read again
    drifts = []
    for line, spread, known_line in zip(lines, spreads, known_lines(windows), strict=True):
        series = line.window.series
        if series.pk in stale:
            (known_line,) = known_lines([line.window])
        if look_for_steps(line, known_line.changes, spread):
            stale.add(series.pk)
            (known_line,) = known_lines([line.window])
        drifts.append(driftreferences.Heading(line.window, line.effect, known_line.placed()))
    drift.look_for_drifts(drifts)


def drop_suspicions(suspicions: Sequence[int]) -> bool:
    """Delete these suspicions, except those that are being settled meanwhile. Return whether any was deleted."""
    return bool(suspicions) and ChangePoint.objects.filter(pk__in=suspicions, status=Status.SUSPECTED).delete()[0] > 0


def look_for_steps(line: JudgedLine, changes: list[KnownChange], spread: float) -> bool:
    """Write the steps that new points of a line show. Return whether any was written, moved or dropped."""
    window = line.window
    why = history.why_not_measurable(window.series)  # if there is a reason, the history decides
    by_history = verdicts_at_new(line, changes, bool(why))
    settled_shifts = [answer for change in changes if (answer := change.settled())]
    shifts = suspect_shifts_in(line.placed, smallest_effect=line.effect, settled=settled_shifts, spread=spread)
    has_changed = update_suspicions(
        window, changes, [*shifts, *only_in_history(by_history, shifts, changes)], bool(why)
    )
    if why:
        for verdict in by_history:
            history.write_history_verdict(window, verdict, why)
    return has_changed or bool(why and by_history)


def verdicts_at_new(line: JudgedLine, changes: Sequence[KnownChange], decisive: bool) -> list[HistoryVerdict]:
    """The verdicts of the line's history at its new points. ``decisive``: nothing can be measured again.

    Then all new points are judged, and a reported change stays a boundary even if a person called it invalid.
    """
    oldest, values = min(line.window.new), line.window.values
    first = oldest if decisive else max(oldest, len(values) - MOST_JUDGED)
    levels = [change.last for change in changes if change.begins_level or (decisive and change.is_reported)]
    return verdicts_on(line.placed.scale, values, smallest_effect=line.effect, settled=levels, since=first)


def update_suspicions(window: Window, changes: list[KnownChange], shifts: Sequence[Shift], decisive: bool) -> bool:
    """Write the suspicions that new points raise, and move or drop those that points between older ones have changed.

    A shift counts if it was judged by a new point. A point at the end of the line raises the suspicions that its
    arrival shows, a point that fills a gap also those around it. So a window that slides over a long line suspects
    no old commit again. ``decisive``: nothing can be measured again. Returns True if anything was written.
    """
    new = window.new
    earlier: ChangePoint | None = None
    suspicions: list[ChangePoint] = []
    has_changed = False
    for shift in shifts:
        match = next((k for k in changes if k.is_same(shift)), None)
        if shift.returns and (earlier is None or earlier.status in (Status.REFUTED, Status.UNSETTLED)):
            if earlier and decisive:
                history.refute_spike(earlier)
            earlier = None
            continue  # a return from a shift that was not found, or was refuted
        origin = earlier if shift.returns else None
        earlier = match.change_point if match else None
        if match and match.is_open and match.change_point not in suspicions:
            has_changed |= move_suspicion(match.change_point, window, shift)
            suspicions.append(match.change_point)
        elif match is None and (rests_on_new := rests_on(shift, new)):
            earlier = raise_suspicion(window, shift, origin)
            mark_past(earlier, [window.points.commits[i] for i in rests_on_new])
            changes.append(KnownChange(earlier, shift.index, shift.index, near_in(window.series)))
            suspicions.append(earlier)
            has_changed = True
    filled = [i for i in new if i < len(window.points) - 1]
    dissolved = [
        k.change_point.pk
        for k in changes
        if k.is_open
        and k.change_point not in suspicions
        and any(-k.near <= k.last - i <= DEFAULT.before for i in filled)
    ]
    return drop_suspicions(dissolved) or has_changed


def rests_on(shift: Shift, new: Sequence[int]) -> list[int]:
    """The indices of those new points by which the shift was judged."""
    return [i for i in new if shift.index - DEFAULT.before <= i <= shift.seen]


def raise_suspicion(window: Window, shift: Shift, origin: ChangePoint | None) -> ChangePoint:
    return ChangePoint.objects.create(
        series=window.series,
        branch=window.branch,
        status=Status.SUSPECTED,
        returns_from=origin,
        **shift_fields(window, shift),
    )


def move_suspicion(suspicion: ChangePoint, window: Window, shift: Shift) -> bool:
    """Update an open suspicion with what further points show, unless it is being settled meanwhile."""
    fields = shift_fields(window, shift)
    if all(getattr(suspicion, name) == value for name, value in fields.items()):
        return False
    return ChangePoint.objects.filter(pk=suspicion.pk, status=Status.SUSPECTED).update(**fields) > 0


def shift_fields(window: Window, shift: Shift) -> dict[str, float | int | None]:
    return {
        "before_id": window.points.commits[shift.index - 1],
        "commit_id": window.points.commits[shift.index],
        "ratio": shift.ratio,
        "low": shift.low,
        "high": shift.high,
        "from_zero": window.points.level_from_zero(shift.index, shift.index),
        "score": shift.score,
    }


def only_in_history(
    by_history: Sequence[HistoryVerdict], shifts: Sequence[Shift], changes: Sequence[KnownChange]
) -> Iterator[Shift]:
    """The history's verdicts that have no shift near them, as shifts.

    One at the place of an open suspicion may be the same change.
    """
    for verdict in by_history:
        if not any(verdict.may_be_at(shift.index) for shift in shifts):
            index = next(
                (change.last for change in changes if change.is_open and verdict.may_be_at(change.last)), verdict.index
            )
            yield Shift(index, verdict.ratio, verdict.low, verdict.high, verdict.score, verdict.seen)
