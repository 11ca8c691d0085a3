"""Go through the history of a project in order: what is suspected when, by which new point, and what became of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from django.db import transaction

from speedtrack.alerts import detection, reasons
from speedtrack.alerts import series as lines
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.reasons import judgement, steps_of, trials_of
from speedtrack.alerts.sensitivity import Effects
from speedtrack.alerts.series import MeasuredCommit
from speedtrack.alerts.trouble import isolated
from speedtrack.benchmarks.metrics import WATCHED
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import Series
from speedtrack.stats import explain
from speedtrack.stats.changepoint import Shift, suspect_shifts
from speedtrack.stats.history import HistoryVerdict, history_verdicts

ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
NEARLY = 0.7  # of what it had to exceed: such a place is told of as well, with why it was not suspected
NEAR = 2  # measured commits between a shift and the change point that stands for it


@dataclass(frozen=True)
class Entry:
    """One line of the replay: when ``seen`` was measured, a shift at ``point`` is suspected, or nearly."""

    series: Series
    seen: MeasuredCommit
    point: MeasuredCommit
    suspected: bool
    judgement: str
    steps: list[str]


def replay(project: Project, since: datetime = ALWAYS) -> list[Entry]:
    """What the detector of today would have suspected on the default branch, in the order of the commits that show it.

    Only commits committed since then are told of; those before them are their history.
    """
    branch = project.branches.filter(name=project.default_branch).first()
    if branch is None:
        return []
    series = Series.objects.filter(project=project, metric__in=WATCHED).select_related("benchmark", "machine")
    entries: list[Entry] = []
    for one in series.order_by("benchmark__name", "metric", "machine__name", "pk"):
        with isolated(one):
            entries += [entry for entry in entries_of(one, branch) if entry.seen.committed_at >= since]
    return sorted(entries, key=lambda entry: (entry.seen.position, entry.series.pk, entry.point.position))


def entries_of(series: Series, branch: Branch) -> Iterator[Entry]:
    points = [point for point in lines.load([series], branch) if not point.flags]
    trials = trials_of(points)
    effect = Effects(series.project_id).of(series.metric)
    shifts = suspect_shifts(trials, smallest_effect=effect)
    known = reasons.changes_on(series, branch)
    starts = [0, *(shift.index for shift in shifts)]
    for shift in shifts:
        since = max(start for start in starts if start < shift.index)
        begin = max(since, shift.index - reasons.AROUND)
        reason = explain.explain_place(trials[begin : shift.seen + 1], shift.index - begin, smallest_effect=effect)
        words = judgement(reason) if reason else f"score {shift.score:.2f}"
        steps = [step for cp in standing_for(known, points, shift) for step in steps_of(cp)]
        returns = "; back where it was before: waits for what becomes of that" if shift.returns else ""
        yield Entry(series, points[shift.seen], points[shift.index], True, words + returns, steps)
    for verdict in history_verdicts(trials, smallest_effect=effect, settled=starts[1:]):
        if not any(verdict.may_be_at(start) for start in starts[1:]):
            steps = [step for cp in standing_for(known, points, verdict) for step in steps_of(cp)]
            yield Entry(series, points[verdict.seen], points[verdict.index], True, reasons.by_history(verdict), steps)
    yield from near_misses(series, points, shifts, effect)


def standing_for(
    known: dict[int, list[ChangePoint]], points: list[MeasuredCommit], shift: Shift | HistoryVerdict
) -> list[ChangePoint]:
    """The change points that were written for a shift, as far as its place tells."""
    low = points[max(0, shift.index - NEAR)].position
    high = points[min(len(points) - 1, shift.index + NEAR)].position
    return [cp for at, found in known.items() if low <= at <= high for cp in found]


def near_misses(series: Series, points: list[MeasuredCommit], shifts: list[Shift], effect: float) -> Iterator[Entry]:
    """Places that were nearly suspected: the clearest one between any two shifts, with why it was not."""
    trials = trials_of(points)
    for start, stop in pairwise([0, *sorted(shift.index for shift in shifts), len(points)]):
        place = explain.clearest_place(trials[start:stop], smallest_effect=effect)
        if place is None:
            continue
        reason = explain.explain_place(trials[start:stop], place, smallest_effect=effect)
        if reason and not reason.suspicious and reason.score >= NEARLY:
            seen = points[start + place + reason.after - 1]
            yield Entry(series, seen, points[start + place], False, judgement(reason), [])


def detect_again(project: Project, since: datetime = ALWAYS) -> int:
    """Let the detector look at the whole history again; how many suspicions are new. All that it finds is the past."""
    found = 0
    for series in Series.objects.filter(project=project).select_related("project", "benchmark"):
        with transaction.atomic(), isolated(series):
            newest = ChangePoint.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
            detection.detect_in(series, since)
            new = ChangePoint.objects.filter(series=series, pk__gt=newest, status=ChangePoint.Status.SUSPECTED)
            found += new.update(past=True)
    return found
