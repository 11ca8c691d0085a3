"""The grid of a project: benchmarks by commits, with their trends and their change since the last release."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from speedtrack.alerts.lines import linecolumns
from speedtrack.alerts.lines.effects import SmallestEffects
from speedtrack.alerts.lines.linecolumns import LineColumns, newest_line
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.groups import group_by_name, groups_of
from speedtrack.benchmarks.metrics import Metric, is_outside
from speedtrack.benchmarks.models import Suite
from speedtrack.benchmarks.numbers import UnitScale
from speedtrack.judging.evidence import TwoSides
from speedtrack.judging.judge import judge
from speedtrack.judging.verdicts import DIFFERING, SETTLED, SIGNS, Judgement, Ruling, direction_of, words_of
from speedtrack.runs.models import Series
from speedtrack.web.addresses import timeline_path
from speedtrack.web.drawing.charts.gaps import UNMEASURED, Gap, gaps_of
from speedtrack.web.pages import releasepoints
from speedtrack.web.pages.project.columns import GridColumn, Mark, columns_before, end_on
from speedtrack.web.pages.project.filters import GridFilters, TagChoices, pages_for
from speedtrack.web.pages.project.pagerows import PageRows, outline_of, read_outline, rows_of_page
from speedtrack.web.pages.releasepoints import MeasuredRelease
from speedtrack.web.scope import PageScope

SHOWN = 30  # columns of the grid: releases, then commits
RELEASES = 5  # of them at most
STRONG = 2  # times the smallest detectable difference, from which on a cell has the strong colour
WINDOW = 90  # commits that sparklines are drawn from


class Cell(NamedTuple):
    """One benchmark at one commit.

    ``look``: the CSS classes of its colour and shape; ``words``: makes its title, which documents do not have.
    """

    look: str
    mark: str
    words: Callable[[], str]

    @property
    def title(self) -> str:
        """Its meaning in words."""
        return self.words()


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

    commits: list[GridColumn]
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
    rows: PageRows = field(default_factory=lambda: PageRows([], [], 0))

    @property
    def columns(self) -> int:
        """How many columns its table has."""
        return len(self.releases) + len(self.commits) + 3 + (self.release is not None)


class ShownSeries(NamedTuple):
    """What the grid needs to know about a series.

    ``smallest``: the smallest change that it shows; 0 if that is not known.
    """

    pk: int
    benchmark: str
    why: str
    environment_id: int
    smallest: float


@dataclass(frozen=True)
class RowContext:
    """What the cells of one row share.

    ``path``: the commits of the grid and before it, the newest WINDOW. ``commits``: those of the grid, its end.
    ``releases``: the measured ones, the newest first. ``detectable``: the smallest change that matters and that the
    row's lines show; ``scale``: the unit of its values.
    """

    scope: PageScope
    path: Sequence[GridColumn]
    commits: Sequence[GridColumn]
    releases: Sequence[MeasuredRelease]
    judgements: Mapping[TwoSides, Judgement]
    gaps: dict[int, Gap]
    detectable: float
    marks: dict[int, Mark]
    scale: UnitScale


def load(scope: PageScope, suite: Suite | None, filters: GridFilters, before: str, page: int | None = None) -> Grid:
    """The grid of a scope, without ladders; it has no rows where nothing was measured yet.

    ``page``: which of its pages; None for all rows at once, without cells.
    """
    before = end_on(scope.branch, before)
    path = columns_before(scope, before, WINDOW)
    all_series = shown_series(scope)
    names = dict.fromkeys(series.benchmark for series in all_series.values())  # a set in order
    groups, smallest = suite_settings(scope, suite)
    groups |= {name: group_by_name(name) for name in names if name not in groups}
    choices = TagChoices.of(groups, [name for name in groups if name in names])
    admitted = {
        pk: series for pk, series in all_series.items() if filters.admits(series.benchmark, groups[series.benchmark])
    }
    benchmarks = {pk: series.benchmark for pk, series in admitted.items()}
    admitted_names = set(benchmarks.values())
    outline = read_outline(benchmarks, path) if page and pages_for(admitted_names) > 1 else None
    rows = rows_of_page(groups, outline.names if outline else admitted_names, page)
    series_by_id = {pk: series for pk, series in admitted.items() if series.benchmark in rows.names}
    by_name = lines_by_benchmark(scope, series_by_id, path)
    if outline is None:
        outline = outline_of(by_name, path)
        rows = rows_of_page(groups, outline.names, None)
    newest = {name: newest_line(lines) for name, lines in by_name.items()}
    releases = [] if before else measured_releases(scope, outline.series)
    release = release_of(outline.newest.values(), releases)
    commits = path[len(releases[:RELEASES]) - SHOWN :]
    gaps = gaps_of(scope.machine, [p.pk for p in commits]) if scope.machine and commits else {}
    marks = marks_by_benchmark(commits)
    since = {name: since_of(line, path, release) for name, line in newest.items()}
    sides = {
        name: sides_of_row(lines, path, releases, since[name]) if page else RowSides({}, {}, since[name])
        for name, lines in by_name.items()
    }
    with_cells = (commits, releases) if page else ([], [])
    judgements = judge(
        [side for row in sides.values() for side in row.of_releases],
        [side for row in sides.values() for side in row.of_commits.values()],
    )
    headed: dict[str, list[BenchmarkRow]] = defaultdict(list)
    for name in [name for name in rows.names if name in by_name]:
        detectable = max(smallest, *(series_by_id[line.series_id].smallest for line in by_name[name]))
        scale = numbers.unit_scale(scope.metric.unit, float(newest[name].value[-1]))
        context = RowContext(scope, path, *with_cells, judgements, gaps, detectable, marks.get(name, {}), scale)
        why = series_by_id[newest[name].series_id].why
        headed[groups[name]].append(benchmark_row(context, name, why, by_name[name], sides[name]))
    return Grid(
        commits,
        list(headed.items()),
        gaps,
        measured=outline.measured,
        breaks=breaks_of(series_by_id, path, by_name),
        release=release,
        releases=releases[:RELEASES][::-1],
        filters=filters,
        choices=choices,
        hidden=len(names) - len(admitted_names),
        before=before,
        older=commits[0].commit.sha[:12] if commits and len(path) > len(commits) else "",
        rows=rows,
    )


def shown_series(scope: PageScope) -> dict[int, ShownSeries]:
    series = Series.objects.filter(project=scope.project, machine=scope.machine, metric=scope.metric.name)
    rows = series.filter(benchmark__ladder="").order_by("pk")
    columns = ("benchmark__name", "benchmark__why", "environment_id", "sensitivity__visible", "sensitivity__paired")
    return {
        pk: ShownSeries(pk, name, why, environment, max(visible or 0, paired or 0))
        for pk, name, why, environment, visible, paired in rows.values_list("pk", *columns)
    }


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


def measured_releases(scope: PageScope, series: list[int]) -> list[MeasuredRelease]:
    """The releases that these series measured, the newest first."""
    if not series:
        return []
    branch = releasepoints.branch_of_releases(scope.branch, scope.project.default_branch)
    project = scope.project.pk
    return releasepoints.newest_releases({project: series}, {project: branch})[project]


def release_of(series: Iterable[int], releases: Iterable[MeasuredRelease]) -> MeasuredRelease | None:
    """The newest release that one of these series measured."""
    newest = set(series)
    return next((release for release in releases if not newest.isdisjoint(release.values)), None)


def breaks_of(
    series_by_id: Mapping[int, ShownSeries], path: Sequence[GridColumn], by_name: Mapping[str, list[LineColumns]]
) -> frozenset[int]:
    """The commits at which the machine's environment differs from that at the measured commit before."""
    newest = np.zeros(len(path), dtype=int)  # of each commit, the newest environment; 0 where nothing was measured
    for line in (line for lines in by_name.values() for line in lines):
        newest[line.at] = np.maximum(newest[line.at], series_by_id[line.series_id].environment_id)
    positions = newest.nonzero()[0].tolist()
    return frozenset(path[at].pk for last, at in pairwise(positions) if newest[at] != newest[last])


def marks_by_benchmark(commits: Iterable[GridColumn]) -> dict[str, dict[int, Mark]]:
    """The change points of the shown commits: benchmark name -> commit id -> mark."""
    marks: dict[str, dict[int, Mark]] = defaultdict(dict)
    for column in commits:
        for benchmark, mark in column.marks:
            marks[benchmark][column.pk] = mark
    return marks


@dataclass(frozen=True)
class RowSides:
    """What a row compares.

    ``of_commits``: by series and position, a clean or flagged point with the clean point before it. ``chain``: by
    shown release and series, its point with that of the release before. ``since``: the newest clean point with the
    release.
    """

    of_commits: dict[tuple[int, int], TwoSides]
    chain: dict[tuple[int, int], TwoSides]
    since: TwoSides | None

    @property
    def of_releases(self) -> list[TwoSides]:
        return [*self.chain.values(), *([self.since] if self.since else [])]


def sides_of_row(
    lines: Sequence[LineColumns],
    path: Sequence[GridColumn],
    releases: Sequence[MeasuredRelease],
    since: TwoSides | None,
) -> RowSides:
    of_commits = {(line.series_id, at): side for line in lines for at, side in neighbours_on(line, path)}
    chain = {}
    for series in (line.series_id for line in lines):
        measured = [at for at, candidate in enumerate(releases) if series in candidate.values]
        for at, before in pairwise(measured):  # the newest release comes first
            if at < RELEASES:
                chain[at, series] = TwoSides(series, releases[before].commit_id, releases[at].commit_id)
    return RowSides(of_commits, chain, since)


def since_of(newest: LineColumns, path: Sequence[GridColumn], release: MeasuredRelease | None) -> TwoSides | None:
    """The newest clean point of a row's newest line with the release, if that has one of this line."""
    clean = next((at for at in reversed(newest.at.tolist()) if at not in newest.flags), None)
    if release is None or clean is None or newest.series_id not in release.values:
        return None
    return TwoSides(newest.series_id, release.commit_id, path[clean].pk)


def neighbours_on(line: LineColumns, path: Sequence[GridColumn]) -> Iterator[tuple[int, TwoSides]]:
    """The points among the commits of the grid, each with the clean point before it."""
    positions: list[int] = line.at.tolist()
    shown = bisect_left(positions, len(path) - SHOWN)
    before = next((at for at in reversed(positions[:shown]) if at not in line.flags), None)
    for at in positions[shown:]:
        if before is not None:
            yield at, TwoSides(line.series_id, path[before].pk, path[at].pk)
        if at not in line.flags:
            before = at


def benchmark_row(context: RowContext, name: str, why: str, lines: list[LineColumns], sides: RowSides) -> BenchmarkRow:
    """The row of a benchmark with these lines; its trend is that of the newest line."""
    newest = newest_line(lines)
    url = timeline_path(context.scope.project.slug, name, context.scope.metric.name)
    since = context.judgements.get(sides.since) if sides.since else None
    cells = release_cells(context, lines, sides), cells_of(context, lines, sides)
    return BenchmarkRow(name, why, url, newest, len(context.path), *cells, since)


def clean_values(line: LineColumns, count: int) -> list[float | None]:
    """The reliable values of a line by commit; None is a gap."""
    clean = {at: v for at, v in zip(line.at.tolist(), line.value.tolist(), strict=True) if at not in line.flags}
    return [clean.get(at) for at in range(count)]


def release_cells(context: RowContext, lines: list[LineColumns], sides: RowSides) -> list[Cell]:
    """The cells of the releases, the oldest first; the first is compared with the release before it."""
    cells = []
    for at, release in enumerate(context.releases[:RELEASES]):
        series = max((line.series_id for line in lines if line.series_id in release.values), default=None)
        if series is None:
            cells.append(Cell("unmeasured", "", f"{release.tag}: no reliable value".__str__))
        else:
            side = sides.chain.get((at, series))
            point = CellPoint(release.tag, release.values[series], [])
            cells.append(measured_cell(context, point, context.judgements.get(side) if side else None, None))
    return cells[::-1]


def cells_of(context: RowContext, lines: list[LineColumns], sides: RowSides) -> list[Cell]:
    """The cells of the commits; where several lines have a point, that of the newest line."""
    points, first = {}, len(context.path) - len(context.commits)
    for line in sorted(lines, key=lambda line: line.series_id):
        shown = slice(int(line.at.searchsorted(first)), None)
        for at, value in zip(line.at[shown].tolist(), line.value[shown].tolist(), strict=True):
            points[at] = line.series_id, value, line.flags.get(at, [])
    cells = []
    for at, placed in enumerate(context.commits, start=first):
        if at in points:
            series, value, flags = points[at]
            side = sides.of_commits.get((series, at))
            judgement = context.judgements.get(side) if side else None
            point = CellPoint(placed.short, value, flags)
            cells.append(measured_cell(context, point, judgement, context.marks.get(placed.pk)))
        else:
            cells.append(gap_cell(placed, context.gaps.get(placed.pk, UNMEASURED)))
    return cells


class CellPoint(NamedTuple):
    """The point of a cell, and the name of its commit or release."""

    name: str
    value: float
    flags: list[str]


def measured_cell(context: RowContext, point: CellPoint, judgement: Judgement | None, mark: Mark | None) -> Cell:
    words = partial(title_of, context, point, judgement, mark)
    if point.flags:
        return Cell("flagged", "", words)
    if mark is None:
        return Cell(shade_of(judgement, context.detectable), "", words)
    verdict = direction_of(context.scope.metric, mark.ratio)
    state = state_of(mark)
    strength = "same" if state in SETTLED else f"{verdict}-{2 if state == ChangePoint.Status.CONFIRMED else 1}"
    return Cell(f"{strength} change-{state}", SIGNS[verdict].strip(), words)


def state_of(mark: Mark) -> str:
    """That of its alert once this is no work any more."""
    return str(mark.alert_status) if mark.alert_status in SETTLED else mark.status


def shade_of(judgement: Judgement | None, detectable: float) -> str:
    """The CSS class of a judgement: its direction, and how large it is."""
    if judgement is None or judgement.verdict not in DIFFERING:
        return "same"
    return f"{judgement.look}-{2 if units_of(judgement.ratio, detectable) >= STRONG else 1}"


def title_of(context: RowContext, point: CellPoint, judgement: Judgement | None, mark: Mark | None) -> str:
    """A measured cell in words."""
    title = f"{point.name}: {context.scale.text(point.value)}"
    if judgement:
        title += f", {numbers.change(judgement.ratio)} to the one before"
        if judgement.verdict in DIFFERING:
            title += f" ({units_of(judgement.ratio, context.detectable):.1f} × detectable)"
        elif judgement.verdict != Ruling.SAME:
            title += f" ({judgement.words})"
    if point.flags:
        return f"{title}; unreliable: {', '.join(point.flags)}"
    return f"{title}; {words_of_mark(mark, context.scope.metric)}" if mark else title


def words_of_mark(mark: Mark, metric: Metric) -> str:
    words = f"{state_of(mark)}: {words_of(direction_of(metric, mark.ratio), metric)} {mark.change_in_words(metric)}"
    is_range = mark.width and mark.width > 1
    return f"{words}, by one of {mark.width} commits up to this one" if is_range else words


def units_of(ratio: float, detectable: float) -> float:
    """The size of a difference as a multiple of the smallest that is detectable."""
    return abs(math.log(ratio)) / math.log1p(detectable) if ratio > 0 and detectable > 0 else math.inf


def gap_cell(placed: GridColumn, gap: Gap) -> Cell:
    mark = {"failed": "×", "waiting": "·", "running": "…", "cancelled": "–", "linked": "="}.get(gap.state, "")
    return Cell(gap.state, mark, f"{placed.short}: {gap.reason}".__str__)
