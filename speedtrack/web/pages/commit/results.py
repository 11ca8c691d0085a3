"""What was measured of a commit on one machine as tables."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.reports.readings.commits import CommitResults, SeriesResult
from speedtrack.web.pages.paging import PageSpan, one_page, span_of

FEW_RESULTS = 120  # of a machine, up to which the page has the numbers of all metrics


@dataclass(frozen=True)
class MetricResults:
    """The results of one metric on one machine that a page has. ``count``, ``moved``: of all, and those that differ."""

    metric: Metric
    results: list[SeriesResult]
    count: int
    moved: int


@dataclass(frozen=True)
class MachineResults:
    """All results of one machine as a table of benchmarks by metrics, without those of the build.

    ``benchmarks``: of all pages, of which the tables have those of ``span``. ``groups``: the numbers by metric; of many
    results, those of one metric. ``notable``: of many, the largest of those that differ or have a change, shown before
    all others; ``moved``: how many differ; ``others``: the metrics whose numbers another request shows.
    """

    machine: str
    count: int
    moved: int
    benchmarks: list[str]
    span: PageSpan
    groups: list[MetricResults]
    columns: list[Metric] = field(default_factory=list)
    rows: list[tuple[str, list[SeriesResult | None]]] = field(default_factory=list)
    notable: list[SeriesResult] = field(default_factory=list)
    others: list[Metric] = field(default_factory=list)

    @property
    def is_long(self) -> bool:
        """Whether the page has the numbers of one metric at a time."""
        return self.count > FEW_RESULTS


@dataclass(frozen=True)
class ResultTables:
    """The results from which the tables of a page are made. ``page``: None for all benchmarks at once."""

    results: CommitResults
    page: int | None

    @cached_property
    def metrics(self) -> list[Metric]:
        names = self.results.series.names.metrics
        return METRICS.among(names[index] for index in np.unique(self.results.series.metric).tolist())

    @cached_property
    def benchmarks(self) -> list[str]:
        """The names of the benchmarks, sorted, without the build."""
        names = self.results.series.names.benchmarks
        indices = np.unique(self.results.series.name).tolist()
        return [names[index] for index in indices if names[index] != BUILD]

    @property
    def span(self) -> PageSpan:
        count = len(self.benchmarks)
        return span_of(self.page, count) if self.page else one_page(count)

    def of_metric(self, metric: Metric) -> Array:
        """Whether each result is of this metric."""
        is_own: Array = self.results.series.metric == self.results.series.names.index_of_metric(metric.name)
        return is_own

    @cached_property
    def columns(self) -> list[Metric]:
        """The metrics of benchmarks other than the build."""
        series = self.results.series
        is_build = np.array([name == BUILD for name in series.names.benchmarks], bool)[series.name]
        return [metric for metric in self.metrics if (self.of_metric(metric) & ~is_build).any()]

    @property
    def of_page(self) -> Array:
        """The indices of the results of this page's benchmarks and of the build, by name and series."""
        series, names = self.results.series, {*self.span.among(self.benchmarks), BUILD}
        is_shown = np.array([name in names for name in series.names.benchmarks], bool)[series.name]
        return in_order(self.results, np.flatnonzero(is_shown))

    def group_of(self, metric: Metric, results: list[SeriesResult]) -> MetricResults:
        is_own = self.of_metric(metric)
        own = [result for result in results if result.metric == metric]
        return MetricResults(metric, own, int(is_own.sum()), int((is_own & self.results.differs).sum()))

    def rows_of(self, results: list[SeriesResult]) -> list[tuple[str, list[SeriesResult | None]]]:
        """The results of each benchmark by metric; if environments differ, those of the newest one."""
        newest = {(result.benchmark, result.metric.name): result for result in results}
        names = self.span.among(self.benchmarks)
        return [(name, [newest.get((name, metric.name)) for metric in self.columns]) for name in names]


def in_order(results: CommitResults, indices: Array) -> Array:
    """These indices by name and series."""
    ordered: Array = indices[np.lexsort((results.series.series[indices], results.series.name[indices]))]
    return ordered


def machine_results(machine: str, results: CommitResults, metric_name: str, page: int) -> MachineResults:
    """The results of a machine in the metrics' order.

    Of many, those that differ and, if a metric is named, a page of the benchmarks with its numbers.
    """
    if len(results) <= FEW_RESULTS:
        tables = ResultTables(results, None)
        return tables_of(machine, tables, tables.metrics, results.at(tables.of_page))
    tables = ResultTables(results, page)
    selection = next((metric for metric in tables.metrics if metric.name == metric_name), tables.metrics[0])
    notable, of_page = largest_notable(results), tables.of_page if metric_name else np.empty(0, int)
    by_series = {result.series_id: result for result in results.at(np.union1d(notable, of_page).astype(int))}
    of_tables, notable_results = (
        [by_series[pk] for pk in results.series.series[indices].tolist() if pk in by_series]
        for indices in (of_page, notable)
    )
    return replace(
        tables_of(machine, tables, [selection], of_tables),
        notable=notable_results,
        others=[metric for metric in tables.metrics if metric is not selection],
    )


def tables_of(
    machine: str, tables: ResultTables, metrics: list[Metric], of_tables: list[SeriesResult]
) -> MachineResults:
    """The tables of these results, with the numbers of these metrics."""
    return MachineResults(
        machine,
        count=len(tables.results),
        moved=int(tables.results.differs.sum()),
        benchmarks=tables.benchmarks,
        span=tables.span,
        groups=[tables.group_of(metric, of_tables) for metric in metrics],
        columns=tables.columns,
        rows=tables.rows_of(of_tables),
    )


def largest_notable(results: CommitResults) -> Array:
    """The indices of at most FEW_RESULTS results that differ or have a change: the largest, by name and series."""
    indices = np.flatnonzero(results.is_notable)
    sizes = np.zeros(len(results))
    sizes[results.neighbours.index] = results.neighbours.judgements.sizes
    return in_order(results, indices[np.argsort(-sizes[indices], kind="stable")[:FEW_RESULTS]])
