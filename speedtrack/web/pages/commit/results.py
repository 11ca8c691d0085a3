"""What was measured of a commit on one machine, compared with the last commit measured before it."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.judging.judge import Neighbour
from speedtrack.judging.summaries import CommitFacts
from speedtrack.projects.models import Branch, Commit

FEW_RESULTS = 120  # of a machine, up to which the page has the numbers of all metrics


class SeriesResult(NamedTuple):
    """The result of one series at the commit, compared with the commit that the series measured before.

    ``is_first``: detection has seen it, and found nothing before it.
    """

    series_id: int
    benchmark: str
    metric: Metric
    point: LinePoint
    comparison: Neighbour | None
    is_first: bool
    change: ChangePoint | None

    @property
    def look(self) -> str:
        return self.comparison.judgement.look if self.comparison else "same"

    @property
    def sign(self) -> str:
        return self.comparison.judgement.sign if self.comparison else ""

    @property
    def answer(self) -> str:
        """The result of the comparison in a word or two."""
        if self.comparison is None:
            return "first measurement" if self.is_first else "not compared yet"
        return self.comparison.judgement.words


@dataclass(frozen=True)
class MetricResults:
    """The results of one metric on one machine."""

    metric: Metric
    results: list[SeriesResult]

    @property
    def moved(self) -> int:
        return sum(r.look != "same" for r in self.results)


@dataclass(frozen=True)
class MachineResults:
    """All results of one machine as a table of benchmarks by metrics, without those of the build.

    ``groups``: the numbers by metric; of many results, those of one metric. ``moved``: of many, those that differ: the
    page shows them before all others.
    """

    machine: str
    groups: list[MetricResults]
    columns: list[MetricResults]
    rows: list[tuple[str, list[SeriesResult | None]]]
    moved: list[SeriesResult]
    others: list[Metric]  #: the metrics whose numbers another request shows
    count: int


class BranchPlace(NamedTuple):
    """A commit's place on a branch, with the change points there whose range includes the commit."""

    commit: Commit
    branch: Branch
    number: int
    points: list[ChangePoint]


class MeasuringMachine(NamedTuple):
    name: str


def machines_of(facts: CommitFacts) -> list[MeasuringMachine]:
    """The machines with results of a commit in the order of the grid: first those with a runner, then by name.

    Of the others, the one with most results comes first: the first by name is often only a try.
    """
    counts = Counter((one.is_outside, one.machine) for one in facts.series)
    ordered = sorted(counts, key=lambda machine: (machine[0], machine[0] and -counts[machine], machine[1]))
    return [MeasuringMachine(name) for _, name in ordered]


def results_on(machine: MeasuringMachine, branch_place: BranchPlace, facts: CommitFacts) -> list[SeriesResult]:
    """The results of one machine."""
    series = {one.series_id: one for one in facts.series if one.machine == machine.name}
    points = lines.points(list(series), branch_place.branch, branch_place.number, branch_place.number)
    here = {point.series_id: point for point in points}
    marks = {cp.series_id: cp for cp in branch_place.points if cp.commit_id == branch_place.commit.pk}
    return [
        SeriesResult(
            pk, one.benchmark, METRICS[one.metric], here[pk], facts.neighbours.get(pk), not one.is_new, marks.get(pk)
        )
        for pk, one in series.items()
        if pk in here
    ]


def machine_results(machine: str, results: list[SeriesResult], metric_name: str | None) -> MachineResults:
    """The results of a machine in the metrics' order.

    If environments differ, the table has the results of the newest one.
    """
    results = sorted(results, key=lambda r: (r.benchmark, r.series_id))
    by_metric = {
        metric.name: MetricResults(metric, []) for metric in METRICS.among(result.metric.name for result in results)
    }
    for result in results:
        by_metric[result.metric.name].results.append(result)
    groups = [group for group in by_metric.values() if group.results]
    newest = {(r.benchmark, r.metric.name): r for r in results}
    names = dict.fromkeys(r.benchmark for r in results)
    columns = [g for g in groups if any(r.benchmark != BUILD for r in g.results)]
    rows = [(name, [newest.get((name, g.metric.name)) for g in columns]) for name in names if name != BUILD]
    if len(results) <= FEW_RESULTS:
        return MachineResults(machine, groups, columns, rows, [], [], len(results))
    selection = next((group for group in groups if group.metric.name == metric_name), groups[0])
    notable = [r for r in results if r.look != "same" or r.change]
    other_metrics = [group.metric for group in groups if group is not selection]
    return MachineResults(machine, [selection], columns, rows, notable, other_metrics, len(results))
