"""The measurements of lines, by the values of the axis, and why some are missing."""

from collections.abc import Mapping
from dataclasses import dataclass

from speedtrack.runs.models import Attempt, Environment, Machine, Measurement, Run, Status
from speedtrack.runs.results.environments import changed_facts
from speedtrack.web.pages.ladders.lines import Environments, LadderCommit, LadderLine, MeasuredRung
from speedtrack.web.pages.ladders.names import LadderName, rungs_of


@dataclass(frozen=True)
class LadderCell:
    """A line at a value of the axis. ``measured``: in the line's environment.

    ``reason``: why the machine cannot reach it; ``elsewhere``: in which other environment it was measured.
    ``asked``: a run was to measure it; without a measurement that run has failed, or waits.
    """

    measured: Measurement | None
    reason: str
    elsewhere: str
    asked: bool

    @property
    def out_of_reach(self) -> str:
        return "" if self.measured else self.reason

    @property
    def is_lacking(self) -> bool:
        return self.asked and not self.measured and not self.reason


@dataclass(frozen=True)
class LadderRow:
    """A value of the axis, with a cell for each line."""

    value: float
    cells: list[LadderCell]


def rows_of(
    lines: list[LadderLine],
    rungs: list[MeasuredRung],
    environments: Environments,
    planned_values: set[tuple[LadderCommit, float]],
    reasons: Mapping[tuple[LadderCommit, float], str],
) -> list[LadderRow]:
    """The newest measurement of each line at each value; values that were only asked for are included."""
    keys = {line.place for line in lines}
    values = {value for _, value in planned_values} | {rung.value for rung in rungs if rung.place in keys}
    own = {(rung.place, rung.value, rung.environment): rung.measurement for rung in rungs}
    newest = {(rung.place, rung.value): rung for rung in rungs}

    def cell_at(line: LadderLine, value: float) -> LadderCell:
        at = line.place, value
        measurement = own.get((*at, line.environment.pk)) if line.environment else None
        newest_rung = None if measurement else newest.get(at)
        elsewhere = why_elsewhere(environments[newest_rung.environment], line.environment) if newest_rung else ""
        return LadderCell(measurement, reasons.get(at, "") if line.newest else "", elsewhere, at in planned_values)

    return [LadderRow(value, [cell_at(line, value) for line in lines]) for value in sorted(values)]


def why_elsewhere(there: Environment, here: Environment | None) -> str:
    """A rung that the environment of its line did not measure, but another one did."""
    facts = changed_facts(there, here) if here else []
    differences = ", ".join(f"{fact.fact} {fact.before} there, {fact.after} here" for fact in facts)
    return f"measured in another environment: {differences or 'nothing that is known differs'}"


def values_asked(
    ladders: list[LadderName], machine: Machine | None, lines: list[LadderLine]
) -> set[tuple[LadderCommit, float]]:
    """The (line, value) that runs were to measure."""
    commits = [line.commit.pk for line in lines]
    runs = Run.objects.filter(commit__in=commits, machine=machine, benchmark_set__benchmarks__in=rungs_of(ladders))
    rung = "benchmark_set__benchmarks__"
    rows = runs.values_list("commit", f"{rung}ladder", f"{rung}rung").distinct()
    return {((commit, ladder), value) for commit, ladder, value in rows if value is not None}


def reasons_of(
    ladders: list[LadderName], machine: Machine | None, lines: list[LadderLine]
) -> dict[tuple[LadderCommit, float], str]:
    """By (line, value): why the machine could not reach it, as the newest attempt reported."""
    commits = [line.commit.pk for line in lines]
    attempts = Attempt.objects.filter(run__commit__in=commits, run__machine=machine).exclude(out_of_reach={})
    rows = list(attempts.order_by("pk").values_list("run__commit", "out_of_reach"))
    names = {name for _, reasons in rows for name in reasons}
    if not names:
        return {}
    rungs = rungs_of(ladders).filter(name__in=names).values_list("name", "ladder", "rung")
    rung = {name: (ladder, value) for name, ladder, value in rungs if value is not None}
    return {
        ((commit, rung[name][0]), rung[name][1]): why
        for commit, reasons in rows
        for name, why in reasons.items()
        if name in rung
    }


def failed_runs(
    ladders: list[LadderName], machine: Machine | None, lines: list[LadderLine], rows: list[LadderRow]
) -> list[tuple[LadderLine, Run]]:
    """For each commit that lacks a value without a reason, its newest run of the ladder, if that run failed."""
    lacking = [
        line for number, line in enumerate(lines) if line.newest and any(row.cells[number].is_lacking for row in rows)
    ]
    commits = [line.commit.pk for line in lacking]
    runs = Run.objects.filter(commit__in=commits, machine=machine, benchmark_set__benchmarks__in=rungs_of(ladders))
    newest = {run.commit_id: run for run in runs.distinct().order_by("pk")}
    pairs = [(line, newest.get(line.commit.pk)) for line in lacking]
    return [(line, run) for line, run in pairs if run and run.status == Status.FAILED]
