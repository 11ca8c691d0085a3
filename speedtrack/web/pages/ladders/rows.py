"""The measurements of lines, by the values of the axis, and why some are missing."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import QuerySet

from speedtrack.projects.models import Commit
from speedtrack.runs.models import Attempt, Machine, Measurement, Run, Status
from speedtrack.web.drawing.linecharts import MOST_LINES
from speedtrack.web.pages.ladders.choices import LineChoice
from speedtrack.web.pages.ladders.names import LadderName, rungs_of

Place = tuple[int, str]  # a commit, by id, and a ladder, by name


@dataclass(frozen=True)
class LadderLine:
    """A commit on a ladder."""

    commit: Commit
    release: str
    ladder: str
    label: str

    @property
    def place(self) -> Place:
        return self.commit.pk, self.ladder


@dataclass(frozen=True)
class Cell:
    """A line at a value of the axis. ``reason``: why the machine cannot reach it.

    ``asked``: a run was to measure it; without a measurement that run has failed, or waits.
    """

    measured: Measurement | None
    reason: str
    asked: bool

    @property
    def out_of_reach(self) -> str:
        return "" if self.measured else self.reason


@dataclass(frozen=True)
class LadderRow:
    """A value of the axis, with a cell for each line."""

    value: float
    cells: list[Cell]


def lines_of(choices: list[LineChoice], ladders: list[LadderName]) -> list[LadderLine]:
    """The lines to draw: each selected commit on each of these ladders."""
    beside = len(ladders) > 1
    every = [
        LadderLine(one.commit, one.release, ladder.name, f"{one.label}, {ladder.name}" if beside else one.label)
        for one in choices
        if one.shown
        for ladder in ladders
    ]
    return every[:MOST_LINES]


def rows_of(
    points: QuerySet[Measurement],
    lines: list[LadderLine],
    asked: set[tuple[Place, float]],
    reasons: Mapping[tuple[Place, float], str],
) -> list[LadderRow]:
    """The newest measurement of each line at each value; values that were only asked for are included."""
    found = points.filter(commit__in=[line.commit.pk for line in lines]).select_related("series__benchmark")
    measured: dict[float, dict[Place, Measurement]] = {value: {} for _, value in asked}
    for one in found.order_by("pk"):
        value = one.series.benchmark.rung
        if value is not None:
            measured.setdefault(value, {})[one.commit_id, one.series.benchmark.ladder] = one
    places = [line.place for line in lines]
    return [
        LadderRow(value, [Cell(own.get(at), reasons.get((at, value), ""), (at, value) in asked) for at in places])
        for value, own in sorted(measured.items())
    ]


def values_asked(
    ladders: list[LadderName], machine: Machine | None, lines: list[LadderLine]
) -> set[tuple[Place, float]]:
    """The (line, value) that runs were to measure."""
    commits = [line.commit.pk for line in lines]
    runs = Run.objects.filter(commit__in=commits, machine=machine, benchmark_set__benchmarks__in=rungs_of(ladders))
    rung = "benchmark_set__benchmarks__"
    found = runs.values_list("commit", f"{rung}ladder", f"{rung}rung").distinct()
    return {((commit, ladder), value) for commit, ladder, value in found if value is not None}


def reasons_of(
    ladders: list[LadderName], machine: Machine | None, lines: list[LadderLine]
) -> dict[tuple[Place, float], str]:
    """By (line, value): why the machine could not reach it, as the newest attempt reported."""
    commits = [line.commit.pk for line in lines]
    attempts = Attempt.objects.filter(run__commit__in=commits, run__machine=machine).exclude(out_of_reach={})
    found = list(attempts.order_by("pk").values_list("run__commit", "out_of_reach"))
    names = {name for _, reasons in found for name in reasons}
    if not names:
        return {}
    rungs = rungs_of(ladders).filter(name__in=names).values_list("name", "ladder", "rung")
    rung = {name: (ladder, value) for name, ladder, value in rungs if value is not None}
    return {
        ((commit, rung[name][0]), rung[name][1]): why
        for commit, reasons in found
        for name, why in reasons.items()
        if name in rung
    }


def failed_runs(
    ladders: list[LadderName], machine: Machine | None, lines: list[LadderLine], rows: list[LadderRow]
) -> list[tuple[LadderLine, Run]]:
    """For each line that lacks a value without a reason, its newest run of the ladder, if that run failed."""
    lacking = [
        line
        for place, line in enumerate(lines)
        if any(one.asked and not one.measured and not one.reason for one in (row.cells[place] for row in rows))
    ]
    commits = [line.commit.pk for line in lacking]
    runs = Run.objects.filter(commit__in=commits, machine=machine, benchmark_set__benchmarks__in=rungs_of(ladders))
    newest = {run.commit_id: run for run in runs.distinct().order_by("pk")}
    found = [(line, newest.get(line.commit.pk)) for line in lacking]
    return [(line, run) for line, run in found if run and run.status == Status.FAILED]
