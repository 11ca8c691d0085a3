"""Find suspected change points in series with new measurements. Sensitive and never mailed: confirm.py settles them."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import transaction

from speedtrack.alerts import drift, history
from speedtrack.alerts.effects import SmallestEffects
from speedtrack.alerts.known import (
    KnownChange,
    known_changes,
    placed_step,
    rewritten_changes,
    steps_on,
    unfounded_suspicions,
)
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.past import mark_past
from speedtrack.alerts.spreads import spread_of
from speedtrack.alerts.trouble import isolated
from speedtrack.alerts.windows import Window, windows_since
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.runs.models import Series
from speedtrack.stats.changepoint import DEFAULT, NEAR, Point, Shift, suspect_shifts
from speedtrack.stats.history import HistoryVerdict, history_verdicts

Status = ChangePoint.Status

MOST_JUDGED = 200  # of the new points, the newest at which the whole history is judged: an import brings thousands


def detect() -> int:
    """Look at every series with new measurements; returns how many. Two of these may run at the same time."""
    looked, effects = 0, dict[int, SmallestEffects]()
    undetected = Series.objects.undetected().select_related("project", "benchmark", "machine")
    for series in undetected.prefetch_related("project__branches", "machine__projects"):
        since = series.undetected_since
        of_project = effects.setdefault(series.project_id, SmallestEffects(series.project_id))
        with transaction.atomic(), isolated(series):
            if since and Series.objects.filter(pk=series.pk, undetected_since=since).update(undetected_since=None):
                detect_in(series, since, of_project)
                looked += 1
    return looked


def detect_in(series: Series, since: datetime, effects: SmallestEffects | None = None) -> None:
    """Suspect changes shown by measurements accepted since then, on every line of the series that contains them.

    ``effects``: those of the series' project, if they are loaded already.
    """
    if not METRICS[series.metric].watched:
        return
    drop_suspicions(unfounded_suspicions(series))
    windows = windows_since(series, since)
    if not windows:
        return
    effect = (effects or SmallestEffects(series.project_id)).of(series.metric)
    why = history.why_not_measurable(series)
    for window in windows:
        steps = steps_on(series, window.branch)
        rewritten = rewritten_changes(steps, window) if window.new else []
        if window.new and look_for_steps(series, window, known_changes(window, steps, rewritten), effect, why):
            steps = steps_on(series, window.branch)
        drift.look_for_drift(series, window, effect, [*steps.placed, *map(placed_step, rewritten)])


def drop_suspicions(suspicions: Sequence[int]) -> bool:
    """Delete suspicions, except those that are being settled meanwhile. True if any was deleted."""
    return bool(suspicions) and ChangePoint.objects.filter(pk__in=suspicions, status=Status.SUSPECTED).delete()[0] > 0


def look_for_steps(series: Series, window: Window, known: list[KnownChange], effect: float, why: str) -> bool:
    """Write the steps that new points of a window show. True if any was written, moved or dropped.

    ``why``: why nothing can be measured again, so that the history decides; empty if it can.
    """
    points = [Point(point.trials) for point in window.points]
    by_history = verdicts_at_new(window, points, known, effect, bool(why))
    settled = [answer for one in known if (answer := one.settled())]
    spread = spread_of(series, [point.value for point in window.points], effect)
    shifts = suspect_shifts(points, smallest_effect=effect, settled=settled, spread=spread)
    changed = update_suspicions(series, window, known, [*shifts, *only_in_history(by_history, shifts, known)])
    if why:
        for verdict in by_history:
            history.write_history_verdict(series, window, verdict, why)
    return changed or bool(why and by_history)


def verdicts_at_new(
    window: Window, points: Sequence[Point], known: Sequence[KnownChange], effect: float, decisive: bool
) -> list[HistoryVerdict]:
    """The verdicts of the line's history at its new points. ``decisive``: nothing can be measured again.

    Then all new points are judged, and a reported change stays a boundary even if a person called it invalid.
    """
    first = min(window.new) if decisive else max(min(window.new), len(points) - MOST_JUDGED)
    levels = [one.last for one in known if one.begins_level or (decisive and one.is_reported)]
    return history_verdicts(points, smallest_effect=effect, settled=levels, since=first)


def update_suspicions(series: Series, window: Window, known: list[KnownChange], shifts: Sequence[Shift]) -> bool:
    """Write the suspicions that new points raise, and move or drop those that points between older ones have changed.

    A shift counts if it was judged by a new point. A point at the end of the line raises the suspicions that its
    arrival shows, a point that fills a gap also those around it. So a window that slides over a long line suspects
    no old commit again. Returns True if anything was written.
    """
    new = window.new
    earlier: ChangePoint | None = None
    found: list[ChangePoint] = []
    changed = False
    for shift in shifts:
        match = next((k for k in known if k.is_same(shift)), None)
        if shift.returns and (earlier is None or earlier.status in (Status.REFUTED, Status.UNSETTLED)):
            earlier = None
            continue  # a return from a shift that was not found, or was refuted
        origin = earlier if shift.returns else None
        earlier = match.change_point if match else None
        if match and match.is_open and match.change_point not in found:
            changed |= move_suspicion(match.change_point, window, shift)
            found.append(match.change_point)
        elif match is None and (rests_on_new := rests_on(shift, new)):
            earlier = raise_suspicion(series, window, shift, origin)
            mark_past(earlier, [window.points[i].commit_id for i in rests_on_new])
            known.append(KnownChange(earlier, shift.index, shift.index))
            found.append(earlier)
            changed = True
    filled = [i for i in new if i < len(window.points) - 1]
    dissolved = [
        k.change_point.pk
        for k in known
        if k.is_open and k.change_point not in found and any(-NEAR <= k.last - i <= DEFAULT.before for i in filled)
    ]
    return drop_suspicions(dissolved) or changed


def rests_on(shift: Shift, new: Sequence[int]) -> list[int]:
    """Those of these points by which the shift was judged."""
    return [i for i in new if shift.index - DEFAULT.before <= i <= shift.seen]


def raise_suspicion(series: Series, window: Window, shift: Shift, origin: ChangePoint | None) -> ChangePoint:
    return ChangePoint.objects.create(
        series=series, branch=window.branch, status=Status.SUSPECTED, returns_from=origin, **shift_fields(window, shift)
    )


def move_suspicion(suspicion: ChangePoint, window: Window, shift: Shift) -> bool:
    """Update an open suspicion with what further points show, unless it is being settled meanwhile."""
    fields = shift_fields(window, shift)
    if all(getattr(suspicion, name) == value for name, value in fields.items()):
        return False
    return ChangePoint.objects.filter(pk=suspicion.pk, status=Status.SUSPECTED).update(**fields) > 0


def shift_fields(window: Window, shift: Shift) -> dict[str, float | int]:
    return {
        "before_id": window.points[shift.index - 1].commit_id,
        "commit_id": window.points[shift.index].commit_id,
        "ratio": shift.ratio,
        "low": shift.low,
        "high": shift.high,
        "score": shift.score,
    }


def only_in_history(
    by_history: Sequence[HistoryVerdict], shifts: Sequence[Shift], known: Sequence[KnownChange]
) -> Iterator[Shift]:
    """The verdicts without a shift near them, as shifts; at the place of an open suspicion that may be the same."""
    for verdict in by_history:
        if not any(verdict.may_be_at(shift.index) for shift in shifts):
            place = next((one.last for one in known if one.is_open and verdict.may_be_at(one.last)), verdict.index)
            yield Shift(place, verdict.ratio, verdict.low, verdict.high, verdict.score, verdict.seen)
