"""The board of a project: a small plot per benchmark, for a wall or a glance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import QueryDict

from speedtrack.alerts.lines.linecolumns import LineColumns, newest_line
from speedtrack.benchmarks.metrics import Metric
from speedtrack.benchmarks.storing import suite_of
from speedtrack.judging.verdicts import SETTLED, SIGNS, direction_of, words_of
from speedtrack.runs.scheduling import states
from speedtrack.web.addresses import timeline_path
from speedtrack.web.pages.paging import PageSpan, page_of, span_of
from speedtrack.web.pages.project import grid
from speedtrack.web.pages.project.columns import GridColumn, Mark, columns_before
from speedtrack.web.pages.project.filters import GridFilters
from speedtrack.web.pages.project.page import WITH_SUITE
from speedtrack.web.pages.project.pagerows import ShownSeries, shown_series
from speedtrack.web.pages.project.state import marks_by_benchmark
from speedtrack.web.pages.running.live import stream_of_queue
from speedtrack.web.scope import PageScope, scope_of


@dataclass(frozen=True)
class PlottedChange:
    """A change point within a plot. ``at``: the index of its commit; ``look``: worse, better or settled."""

    at: int
    look: str
    sign: str
    words: str
    status: str
    size: str

    @classmethod
    def of(cls, at: int, mark: Mark, metric: Metric) -> "PlottedChange":
        verdict, is_settled = direction_of(metric, mark.ratio), mark.alert_status in SETTLED
        look, status = ("settled", mark.alert_status) if is_settled else (str(verdict), mark.status)
        return cls(
            at, look, SIGNS.get(verdict, ""), words_of(verdict, metric), str(status), mark.change_in_words(metric)
        )


@dataclass(frozen=True)
class SmallPlot:
    """The newest line of a benchmark.

    ``values``: the reliable ones by commit, None is a gap; ``newest``: its newest value, unreliable if it has
    ``flags``. ``changes``: of the shown commits, oldest first.
    """

    benchmark: str
    url: str
    newest: float
    flags: list[str]
    values: list[float | None]
    changes: list[PlottedChange]

    @property
    def last_change(self) -> PlottedChange | None:
        return self.changes[-1] if self.changes else None


@dataclass(frozen=True)
class Board:
    """``commits``: how many the plots span. ``span``: which of all benchmarks are on this page."""

    scope: PageScope
    filters: GridFilters
    plots: list[SmallPlot]
    commits: int
    span: PageSpan
    stream: str
    version: str


def load(slug: str, query: QueryDict) -> Board:
    """The board. Raises Http404 for a name that does not exist."""
    version = states.version_now()  # first: what changes meanwhile makes the page load it again
    scope = scope_of(slug, query, prepared=WITH_SUITE)
    filters, all_series = GridFilters(GridFilters.of(query).text), shown_series(scope)
    names = [name for name in ordered_names(scope, all_series) if filters.admits(name, "")]
    span = span_of(page_of(query), len(names))
    of_page = span.among(names)
    path = columns_before(scope, "", grid.WINDOW)
    plots = plots_of(scope, {pk: one for pk, one in all_series.items() if one.benchmark in of_page}, path)
    shown = [plots[name] for name in of_page if name in plots]
    return Board(scope, filters, shown, len(path), span, stream_of_queue(), version)


def ordered_names(scope: PageScope, all_series: Mapping[int, ShownSeries]) -> list[str]:
    """The names of the benchmarks: first those of the newest suite, in its order, then former ones."""
    suite_id = getattr(scope.branch, "suite_id", None)
    groups, _ = grid.suite_settings(scope, suite_of(suite_id) if suite_id else None)
    names = {series.benchmark: None for series in all_series.values()}
    return [*(name for name in groups if name in names), *(name for name in names if name not in groups)]


def plots_of(
    scope: PageScope, all_series: Mapping[int, ShownSeries], path: Sequence[GridColumn]
) -> dict[str, SmallPlot]:
    """By benchmark, its plot; those without a point along the path have none."""
    marks = marks_by_benchmark(path)
    lines = grid.lines_by_benchmark(scope, all_series, path)
    return {name: plot_of(scope, name, newest_line(own), marks.get(name, {}), path) for name, own in lines.items()}


def plot_of(
    scope: PageScope, name: str, line: LineColumns, marks: Mapping[int, Mark], path: Sequence[GridColumn]
) -> SmallPlot:
    url = timeline_path(scope.project.slug, name, scope.metric.name)
    changes = [
        PlottedChange.of(at, marks[column.pk], scope.metric) for at, column in enumerate(path) if column.pk in marks
    ]
    flags = line.flags.get(int(line.at[-1]), [])
    return SmallPlot(name, url, float(line.value[-1]), flags, grid.clean_values(line, len(path)), changes)
