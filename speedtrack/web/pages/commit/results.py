"""What was measured of a commit on one machine as tables."""

from dataclasses import dataclass

from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.reports.readings.commits import SeriesResult

FEW_RESULTS = 120  # of a machine, up to which the page has the numbers of all metrics


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
