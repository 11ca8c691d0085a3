"""The grid of a project: benchmarks by commits, with their trends and their change since the last release."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from speedtrack.alerts.lines import linecolumns
from speedtrack.alerts.lines.effects import SmallestEffects
from speedtrack.alerts.lines.linecolumns import LineColumns, newest_line
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.groups import group_by_name, groups_of
from speedtrack.benchmarks.metrics import is_outside
from speedtrack.benchmarks.models import Suite
from speedtrack.judging.verdicts import Judgement
from speedtrack.web.addresses import timeline_path
from speedtrack.web.drawing.charts.gaps import Gap
from speedtrack.web.pages import releasepoints
from speedtrack.web.pages.paging import one_page
from speedtrack.web.pages.project.cells import Cell, RowContext, commit_cells, release_cells
from speedtrack.web.pages.project.columns import GridColumn, columns_before, end_on
from speedtrack.web.pages.project.filters import GridFilters, TagChoices
from speedtrack.web.pages.project.pagerows import Outline, PageRows, ShownSeries, outline_of, rows_of_page, shown_series
from speedtrack.web.pages.project.state import GridState
from speedtrack.web.pages.releasepoints import MeasuredRelease
from speedtrack.web.scope import PageScope

WINDOW = 90  # commits that sparklines are drawn from


@dataclass(frozen=True)
class BenchmarkRow:
    """The row of a benchmark.

    ``line``: its newest one, along ``commits`` commits. ``since``: its newest reliable value against the last release;
    None if the release did not measure the same series. ``release_cells``, ``cells``: those of the releases and of the
    commits of the grid.
    """

    benchmark: str
    why: str
    url: str
    line: LineColumns
    commits: int
    release_cells: list[Cell]
    cells: list[Cell]
    since: Judgement | None

    @property
    def newest(self) -> float:
        return float(self.line.value[-1])

    @property
    def flags(self) -> list[str]:
        """Those of the newest value."""
        return self.line.flags.get(int(self.line.at[-1]), [])

    @property
    def spark(self) -> list[float | None]:
        """The reliable values by commit; None is a gap."""
        return clean_values(self.line, self.commits)


@dataclass(frozen=True)
class Grid:
    """The grid of a project, or a page of its rows.

    ``groups``: the rows under their headings; ``measured``: commits that at least one row has a value for, if the rows
    are of several pages only the newest of these. ``breaks``:
    commits from which on the machine measured in another environment. ``older`` and ``newer``: where the previous and
    the next grid end (the parameter ``before``), empty if there is none. ``hidden``: the number of rows that the
    filters leave out. ``release``: the one that newest values are compared with; ``releases``: those that have a
    column, the lowest version first.
    """

    commits: Sequence[GridColumn]
    groups: list[tuple[str, list[BenchmarkRow]]] = field(default_factory=list)
    states: dict[int, Gap] = field(default_factory=dict)
    measured: frozenset[int] = frozenset()
    breaks: frozenset[int] = frozenset()
    release: MeasuredRelease | None = None
    releases: list[MeasuredRelease] = field(default_factory=list)
    filters: GridFilters = field(default_factory=GridFilters)
    choices: TagChoices = field(default_factory=lambda: TagChoices([], []))
    hidden: int = 0
    before: str = ""
    older: str = ""
    rows: PageRows = field(default_factory=lambda: PageRows([], [], one_page(0)))

    @property
    def columns(self) -> int:
        """How many columns its table has."""
        return len(self.releases) + len(self.commits) + 3 + (self.release is not None)


def load(scope: PageScope, suite: Suite | None, filters: GridFilters, before: str, page: int | None = None) -> Grid:
    """The grid of a scope, without ladders; it has no rows where nothing was measured yet.

    ``page``: which of its pages; None for all rows at once, without cells.
    """
    before = end_on(scope.branch, before)
    path = columns_before(scope, before, WINDOW)
    every_series = shown_series(scope, [column.pk for column in path])
    names = dict.fromkeys(series.benchmark for series in every_series.values())  # a set in order
    groups, smallest = suite_settings(scope, suite)
    groups |= {name: group_by_name(name) for name in names if name not in groups}
    admitted = [
        row_series
        for row_series in every_series.values()
        if filters.admits(row_series.benchmark, groups[row_series.benchmark])
    ]
    outline = outline_of(admitted)
    rows = rows_of_page(groups, outline.names, page)
    of_page = {series.pk: series for series in admitted if series.benchmark in rows.names}
    lines = lines_by_benchmark(scope, of_page, path)
    releases = [] if before else measured_releases(scope, outline, lines)
    state = GridState(scope, path, of_page, lines, releases, smallest, has_cells=page is not None)
    return Grid(
        state.commits,
        headed_rows(state, rows.names, groups),
        state.gaps,
        measured=outline.measured,
        breaks=state.breaks,
        release=state.release,
        releases=[*reversed(state.shown_releases)],
        filters=filters,
        choices=TagChoices.of(groups, [name for name in groups if name in names]),
        hidden=len(names) - len({series.benchmark for series in admitted}),
        before=before,
        older=state.commits[0].commit.sha[:12] if state.commits and len(path) > len(state.commits) else "",
        rows=rows,
    )


def suite_settings(scope: PageScope, suite: Suite | None) -> tuple[dict[str, str], float]:
    """The groups of the benchmarks, in the order of the suite, and the smallest effect of the metric."""
    if is_outside(scope.metric.name):
        return {}, SmallestEffects(scope.project.pk).of(scope.metric.name)
    if suite is None:
        return {}, scope.metric.smallest_effect
    return groups_of(suite.definition), suite.smallest_effect(scope.metric.name, scope.metric.smallest_effect)


def lines_by_benchmark(
    scope: PageScope, series_by_id: Mapping[int, ShownSeries], path: Sequence[GridColumn]
) -> dict[str, list[LineColumns]]:
    """The lines of each benchmark, one per environment and definition."""
    lines_by_name: dict[str, list[LineColumns]] = defaultdict(list)
    if path and scope.branch and series_by_id:
        for line in linecolumns.columns(series_by_id, scope.branch, path[0].number, path[-1].number):
            lines_by_name[series_by_id[line.series_id].benchmark].append(line)
    return lines_by_name


def measured_releases(
    scope: PageScope, outline: Outline, lines: Mapping[str, list[LineColumns]]
) -> list[MeasuredRelease]:
    """The releases that rows of any page measured, the newest first, with the values of these lines."""
    of_page = [line.series_id for own in lines.values() for line in own]
    if not of_page:
        return []
    newest = outline.newest | {name: newest_line(own).series_id for name, own in lines.items()}
    of_rows = releasepoints.SeriesOfRows(
        newest=[*(newest[name] for name in lines), *(pk for name, pk in newest.items() if name not in lines)],
        every=[*of_page, *outline.series],
    )
    branch = releasepoints.branch_of_releases(scope.branch, scope.project.default_branch)
    return releasepoints.releases_of_rows(scope.project.pk, of_page, of_rows, branch)


def headed_rows(
    state: GridState, names: Iterable[str], groups: Mapping[str, str]
) -> list[tuple[str, list[BenchmarkRow]]]:
    """The rows of these benchmarks under their headings."""
    headed: dict[str, list[BenchmarkRow]] = defaultdict(list)
    for name in names:
        headed[groups[name]].append(benchmark_row(state, name))
    return list(headed.items())


def benchmark_row(state: GridState, name: str) -> BenchmarkRow:
    """The row of a benchmark; its trend is that of the newest line."""
    lines, sides = state.lines[name], state.sides[name]
    newest = newest_line(lines)
    detectable = max(state.smallest, *(state.series[line.series_id].smallest for line in lines))
    scale = numbers.unit_scale(state.scope.metric.unit, float(newest.value[-1]))
    context = RowContext(state, lines, sides, detectable, state.marks.get(name, {}), scale)
    return BenchmarkRow(
        name,
        state.series[newest.series_id].why,
        timeline_path(state.scope.project.slug, name, state.scope.metric.name),
        newest,
        len(state.path),
        release_cells(context) if state.has_cells else [],
        commit_cells(context) if state.has_cells else [],
        context.judgement(sides.since),
    )


def clean_values(line: LineColumns, count: int) -> list[float | None]:
    """The reliable values of a line by commit; None is a gap."""
    clean = {at: v for at, v in zip(line.at.tolist(), line.value.tolist(), strict=True) if at not in line.flags}
    return [clean.get(at) for at in range(count)]
