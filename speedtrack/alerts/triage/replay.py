"""Replay the history of a project: what was suspected when, by which new point, and what became of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from django.db import transaction

from speedtrack.alerts.detection import detection
from speedtrack.alerts.lines.effects import smallest_effect
from speedtrack.alerts.lines.trials import LineRange, trial_lines
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.triage import reasons
from speedtrack.alerts.triage.reasons import judgement, steps_of
from speedtrack.benchmarks.metrics import WATCHED
from speedtrack.projects.models import Branch, Position, Project
from speedtrack.runs.models import Series
from speedtrack.stats.changes import explain
from speedtrack.stats.changes.changepoint import Point, Shift, suspect_shifts
from speedtrack.stats.changes.history import history_verdicts

ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
NEARLY = 0.7  # of the threshold: such places are listed too, with the reason why they were not suspected
NEAR = 2  # measured commits between a shift and its change point


@dataclass(frozen=True)
class ReplayEntry:
    """One line of the replay: when ``seen`` was measured, a shift at ``place`` was suspected, or nearly."""

    series: Series
    seen: Position
    place: Position
    suspected: bool
    judgement: str
    steps: list[str]


@dataclass(frozen=True)
class WholeLine:
    """The clean points of a series along a branch with their places, its shifts, and its known change points."""

    series: Series
    positions: list[Position]
    points: list[Point]
    effect: float
    shifts: list[Shift]
    changes: dict[int, list[ChangePoint]]

    def suspected(self, arrival: int, index: int, judgement: str) -> ReplayEntry:
        """The entry of a shift that is suspected when the point at index ``arrival`` arrives, and what became of it."""
        return ReplayEntry(
            self.series, self.positions[arrival], self.positions[index], True, judgement, self.steps_near(index)
        )

    def steps_near(self, index: int) -> list[str]:
        """What became of the change points near a shift."""
        low = self.positions[max(0, index - NEAR)].number
        high = self.positions[min(len(self.positions) - 1, index + NEAR)].number
        near = [cp for at, changes in self.changes.items() if low <= at <= high for cp in changes]
        return [step for cp in near for step in steps_of(cp)]


def replay(project: Project, since: datetime = ALWAYS) -> list[ReplayEntry]:
    """What today's detector would have suspected on the default branch, in the order of the commits that show it.

    Only entries seen at commits since then are returned; earlier commits serve as history.
    """
    branch = project.branches.default().first()
    if branch is None:
        return []
    positions = {position.number: position for position in branch.positions.select_related("commit")}
    series = Series.objects.filter(project=project, metric__in=WATCHED).select_related("benchmark", "machine")
    entries: list[ReplayEntry] = []
    for member in series.order_by("benchmark__name", "metric", "machine__name", "pk"):
        with isolated(member):
            line = whole_line(member, branch, positions)
            line_entries = (*shift_entries(line), *history_entries(line), *near_misses(line))
            entries += [entry for entry in line_entries if entry.seen.commit.committed_at >= since]
    return sorted(entries, key=lambda entry: (entry.seen.number, entry.series.pk, entry.place.number))


def whole_line(series: Series, branch: Branch, positions: dict[int, Position]) -> WholeLine:
    (line,) = trial_lines([LineRange(series.pk, branch.pk, 0)])
    points = [Point(point.trials) for point in line]
    effect = smallest_effect(series)
    shifts = suspect_shifts(points, smallest_effect=effect)
    changes = reasons.changes_on(series, branch)
    return WholeLine(series, [positions[number] for number in line.positions], points, effect, shifts, changes)


def shift_entries(line: WholeLine) -> Iterator[ReplayEntry]:
    """The shifts that stand out as the points arrive."""
    starts = [0, *(shift.index for shift in line.shifts)]
    for shift in line.shifts:
        since = max(start for start in starts if start < shift.index)
        begin = max(since, shift.index - reasons.AROUND)
        around = line.points[begin : shift.seen + 1]
        reason = explain.explain_place(around, shift.index - begin, smallest_effect=line.effect)
        sentence = judgement(reason) if reason else f"score {shift.score:.2f}"
        returns = (
            "; a return to the level before: waits for the decision on the previous shift" if shift.returns else ""
        )
        yield line.suspected(shift.seen, shift.index, sentence + returns)


def history_entries(line: WholeLine) -> Iterator[ReplayEntry]:
    """What the history of the line shows where no shift stands out."""
    starts = [shift.index for shift in line.shifts]
    for verdict in history_verdicts(line.points, smallest_effect=line.effect, settled=starts):
        if not any(verdict.may_be_at(start) for start in starts):
            yield line.suspected(verdict.seen, verdict.index, reasons.history_in_words(verdict))


def near_misses(line: WholeLine) -> Iterator[ReplayEntry]:
    """Places that were nearly suspected: the clearest one between any two shifts, with why it was not."""
    starts = sorted(shift.index for shift in line.shifts)
    for start, stop in pairwise([0, *starts, len(line.points)]):
        stretch = line.points[start:stop]
        index = explain.clearest_place(stretch, smallest_effect=line.effect)
        if index is None:
            continue
        reason = explain.explain_place(stretch, index, smallest_effect=line.effect)
        if reason and not reason.suspicious and reason.score >= NEARLY:
            position = line.positions[start + index + reason.after - 1]
            yield ReplayEntry(line.series, position, line.positions[start + index], False, judgement(reason), [])


def detect_again(project: Project, since: datetime = ALWAYS) -> int:
    """Run the detector over the whole history again. Return the number of new suspicions, all of them the past."""
    count = 0
    for series in Series.objects.filter(project=project).select_related("project", "benchmark"):
        with transaction.atomic(), isolated(series):
            newest = ChangePoint.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
            detection.detect_in([(series, since)])
            new = ChangePoint.objects.filter(series=series, pk__gt=newest, status=ChangePoint.Status.SUSPECTED)
            count += new.update(past=True)
    return count
