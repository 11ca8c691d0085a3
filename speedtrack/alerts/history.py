"""Verdicts from history alone, for series that cannot be measured again: shown as such, and mailed only if asked."""

from collections.abc import Sequence
from datetime import timedelta

from django.db.models import Subquery
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.alerts import windows
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.windows import Line, Measured, News
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import Suite
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Run, Series
from speedtrack.stats.changepoint import Point
from speedtrack.stats.history import HistoryVerdict, history_verdicts

SILENT = timedelta(days=14)  # a machine not heard of for so long is taken for gone
PAUSED = timedelta(days=7)  # a paused one sooner
NEAR = 3  # measured commits: a verdict this near to a suspicion speaks of it
NOTE = "the history shows it; it was not measured again: "

Kind = ChangePoint.Kind
Status = ChangePoint.Status


def why_not_measurable(series: Series) -> str:
    """Why the commits of a series cannot be measured again; empty where they can."""
    machine, now = series.machine, timezone.now()
    seen = machine.last_seen_at
    if not machine.projects.filter(pk=series.project_id).exists():
        return f"{machine} no longer measures {series.project}"
    if machine.paused and (seen is None or seen < now - PAUSED):
        return f"{machine} is paused for long"
    if seen is not None and seen < now - SILENT:
        return f"{machine} was not heard of for {SILENT.days} days"
    return ""


def judge(series: Series, line: Line, effect: float, why: str) -> None:
    """Write the changes that new points of a line show, where nothing can be measured again, and why it cannot."""
    if not line.new:
        return
    known = known_places(series, line.branch, line.points)
    for verdict in of_line(line.points, known, effect, min(line.new)):
        write(series, line.branch, line.points, verdict, why)


def of_line(points: Sequence[Measured], known: Sequence[int], effect: float, since: int) -> list[HistoryVerdict]:
    trials = [Point(point.trials) for point in points]
    return history_verdicts(trials, smallest_effect=effect, settled=known, since=since)


def smallest_effect(series: Series) -> float:
    """What counts as a change of the series, by the project's newest suite."""
    metric = METRICS[series.metric]
    newest = Run.objects.own().filter(project=series.project).order_by("-id").values("suite")[:1]
    suite = Suite.objects.filter(pk=Subquery(newest)).first()
    return suite.smallest_effect(metric.name, metric.smallest_effect) if suite else metric.smallest_effect


def known_places(series: Series, branch: Branch, points: Sequence[Measured]) -> list[int]:
    """The indices of the points at which the series is known to have changed: what was reported once stays."""
    certain = ChangePoint.objects.filter(
        series=series, kind=Kind.STEP, status__in=(Status.CONFIRMED, Status.HISTORY)
    ).filter(commit__positions__branch=branch)
    places = set(certain.values_list("commit__positions__number", flat=True))
    return [i for i, point in enumerate(points) if point.position in places]


def write(series: Series, branch: Branch, points: Sequence[Measured], verdict: HistoryVerdict, why: str) -> ChangePoint:
    """Make the suspicion that the verdict speaks of one by history, or write a new change point."""
    first, last = max(0, verdict.index - 1 - NEAR), min(len(points) - 1, verdict.index + NEAR)
    open_here = ChangePoint.objects.filter(
        series=series,
        kind=Kind.STEP,
        status=Status.SUSPECTED,
        before__in=[point.commit_id for point in points[first:last]],
        commit__in=[point.commit_id for point in points[first : last + 1]],
    )
    of_verdict = {
        "before_id": points[max(0, verdict.first - 1)].commit_id,
        "commit_id": points[verdict.last].commit_id,
        "status": Status.HISTORY,
        "ratio": verdict.ratio,
        "low": verdict.low,
        "high": verdict.high,
        "score": verdict.score,
        "note": NOTE + why,
    }
    same_way = [cp for cp in open_here if (cp.ratio > 1) == (verdict.ratio > 1)]
    for cp in same_way[:1]:
        ChangePoint.objects.filter(pk=cp.pk).update(**of_verdict, settled_at=Now())
        return cp
    return ChangePoint.objects.create(series=series, branch=branch, **of_verdict, settled_at=Now())


def take_over(cp: ChangePoint, why: str) -> bool:
    """Let the history decide of a suspicion that could not be measured again. False if it shows nothing there."""
    if cp.kind != Kind.STEP:
        return False
    place = cp.branch.positions.filter(commit=cp.commit_id).values_list("number", flat=True).first()
    if place is None:
        return False
    points = windows.load(cp.series, News(cp.branch, (place,), ())).points
    index = next((i for i, point in enumerate(points) if point.position >= place), len(points) - 1)
    known = known_places(cp.series, cp.branch, points)
    for verdict in of_line(points, known, smallest_effect(cp.series), index):
        if abs(verdict.index - index) <= NEAR and (verdict.ratio > 1) == (cp.ratio > 1):
            ChangePoint.objects.filter(pk=cp.pk).update(
                status=Status.HISTORY,
                ratio=verdict.ratio,
                low=verdict.low,
                high=verdict.high,
                note=NOTE + why,
                settled_at=Now(),
            )
            cp.status = Status.HISTORY
            return True
    return False
