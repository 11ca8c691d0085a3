"""Verdicts by history alone, for series that cannot be measured again: marked as such, and mailed only on request."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.alerts.lines.effects import smallest_effect
from speedtrack.alerts.lines.known import steps_on
from speedtrack.alerts.lines.past import mark_past
from speedtrack.alerts.lines.trials import TrialLine
from speedtrack.alerts.lines.windows import Window, points_around
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.pairs.brackets import positions_of
from speedtrack.runs.models import Machine, MachineEvent, Series
from speedtrack.stats.changes.changepoint import Point
from speedtrack.stats.changes.history import HistoryVerdict, history_verdicts

SILENT = timedelta(days=14)  # a machine that was silent for so long counts as gone
PAUSED = timedelta(days=7)  # a machine that was paused for so long is not waited for either
NEAR = 3  # measured commits: a verdict this near to a suspicion is about it
SPIKE = "a spike: the values after it are those of before"
NOTE = "the history shows it; it could not be measured again: "

Kind = ChangePoint.Kind
Status = ChangePoint.Status


def why_not_measurable(series: Series) -> str:
    """Why the commits of a series cannot be measured again; empty if they can."""
    machine, now = series.machine, timezone.now()
    seen_at = machine.last_seen_at
    if machine.outside:
        return f"{machine} has no runner here, its results are sent in"
    if series.project not in machine.projects.all():
        return f"{machine} no longer measures {series.project}"
    if machine.paused and ((paused_at := last_paused(machine)) is None or paused_at < now - PAUSED):
        return f"{machine} has been paused for {PAUSED.days} days or more"
    if seen_at is not None and seen_at < now - SILENT:
        return f"{machine} has sent nothing for {SILENT.days} days"
    return ""


def last_paused(machine: Machine) -> datetime | None:
    """When a paused machine was paused; without an event of that, when it called last. None if neither is known."""
    events = MachineEvent.objects.filter(machine=machine, kind=MachineEvent.Kind.PAUSED).order_by("-pk")
    return events.values_list("at", flat=True).first() or machine.last_seen_at


def write_history_verdict(window: Window, verdict: HistoryVerdict, why: str) -> None:
    """Write a verdict of the history into the open suspicion that it is about, or as a new change point.

    ``why``: why the series cannot be measured again.
    """
    points = window.points
    first, last = max(0, verdict.index - 1 - NEAR), min(len(points) - 1, verdict.index + NEAR)
    open_here = ChangePoint.objects.filter(
        series=window.series,
        kind=Kind.STEP,
        status=Status.SUSPECTED,
        before__in=points.commits[first:last],
        commit__in=points.commits[first : last + 1],
    )
    fields: dict[str, Any] = {
        "before_id": points.commits[max(0, verdict.first - 1)],
        "commit_id": points.commits[verdict.last],
        "score": verdict.score,
        **settled_fields(points, verdict, why),
    }
    same_way = next((cp for cp in open_here if (cp.ratio > 1) == (verdict.ratio > 1)), None)
    if same_way:
        ChangePoint.objects.filter(pk=same_way.pk).update(**fields)
    else:
        change = ChangePoint.objects.create(series=window.series, branch=window.branch, **fields)
        if window.series.machine.outside:
            mark_past(change, [points.commits[i] for i in window.new])


def settled_fields(points: TrialLine, verdict: HistoryVerdict, why: str) -> dict[str, Any]:
    return {
        "status": Status.HISTORY,
        "ratio": verdict.ratio,
        "low": verdict.low,
        "high": verdict.high,
        "from_zero": points.level_from_zero(verdict.first, verdict.last),
        "note": NOTE + why,
        "settled_at": Now(),
    }


def refute_spike(cp: ChangePoint) -> None:
    """Refute a suspicion that could not be measured again, since later values are those of before."""
    ChangePoint.objects.filter(pk=cp.pk, status=Status.UNSETTLED).update(status=Status.REFUTED, note=SPIKE)


def take_over(cp: ChangePoint, why: str) -> bool:
    """Settle a suspicion that could not be measured again by the history. False if the history shows nothing there."""
    if cp.kind != Kind.STEP:
        return False
    position = positions_of(cp.branch, [cp.commit_id]).get(cp.commit_id)
    if position is None:
        return False
    points = points_around(cp.series, cp.branch, position)
    index = next((i for i, point in enumerate(points) if point.position >= position), len(points) - 1)
    reported = {s.last for s in steps_on(cp.series, cp.branch).placed if s.status in (Status.CONFIRMED, Status.HISTORY)}
    levels = [i for i, point in enumerate(points) if point.position in reported]
    trials = [Point(point.trials) for point in points]
    for verdict in history_verdicts(trials, smallest_effect=smallest_effect(cp.series), settled=levels, since=index):
        if abs(verdict.index - index) <= NEAR and (verdict.ratio > 1) == (cp.ratio > 1):
            ChangePoint.objects.filter(pk=cp.pk).update(**settled_fields(points, verdict, why))
            cp.status = Status.HISTORY
            return True
    return False
