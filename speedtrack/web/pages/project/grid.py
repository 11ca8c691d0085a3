"""The grid of a project: benchmarks by commits, with their trends and their change since the last release."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from speedtrack.alerts.lines import linecolumns
from speedtrack.alerts.lines.effects import SmallestEffects
from speedtrack.alerts.lines.linecolumns import LineColumns
from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.groups import group_by_name, groups_of
from speedtrack.benchmarks.metrics import Direction, is_outside
from speedtrack.benchmarks.models import Suite
from speedtrack.benchmarks.numbers import UnitScale
from speedtrack.runs.models import Series
from speedtrack.web.addresses import timeline_path
from speedtrack.web.drawing.gaps import UNMEASURED, Gap, gaps_of
from speedtrack.web.drawing.grades import Grade, Level, grade, level_of, noise_of_values
from speedtrack.web.pages import changes, releasepoints
from speedtrack.web.pages.project.columns import GridColumn, columns_before, end_on
from speedtrack.web.pages.project.filters import GridFilters, TagChoices
from speedtrack.web.pages.releasepoints import MeasuredRelease, Ratio, ReleaseEstimate
from speedtrack.web.scope import PageScope

SHOWN = 30  # columns of the grid: releases, then commits
RELEASES = 5  # of them at most
WINDOW = 90  # commits that noise and sparklines are computed from


class Cell(NamedTuple):
    """One benchmark at one commit.

    ``look``: the CSS classes of its colour and shape; ``title``: its meaning in words.
    """

    look: str
    mark: str
    title: str


@dataclass(frozen=True)
class BenchmarkRow:
    """The row of a benchmark.

    ``flags``: of its newest value. ``since``: its newest reliable value against the last release; None if the release
    did not measure the same series. ``release_cells``, ``cells``: those of the releases and of the commits of the grid.
    """

    benchmark: str
    why: str
    url: str
    newest: float
    flags: list[str]
    spark: list[float | None]
    release_cells: list[Cell]
    cells: list[Cell]
    since: Ratio | None


@dataclass(frozen=True)
class Grid:
    """The grid of a project.

    ``groups``: the rows under their headings; ``measured``: commits that at least one row has a value for. ``breaks``:
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


class Mark(NamedTuple):
    """A change point at a cell. ``width``: how many commits may be the cause."""

    status: str
    ratio: float
    width: int | None


@dataclass(frozen=True)
class RowContext:
    """What the cells of one row share.

    ``path``: the commits of the grid and before it, the newest WINDOW. ``commits``: those of the grid, its end.
    ``releases``: the measured ones, the newest first; ``release``: the one that the newest value is compared with.
    ``detectable``: the smallest change that matters and that the row's lines show; ``scale``: the unit of its values.
    """

    scope: PageScope
    path: Sequence[GridColumn]
    commits: Sequence[GridColumn]
    releases: Sequence[MeasuredRelease]
    release: MeasuredRelease | None
    gaps: dict[int, Gap]
    detectable: float
    marks: dict[int, Mark]
    scale: UnitScale


def load(scope: PageScope, suite: Suite | None, filters: GridFilters, before: str) -> Grid:
    """The grid of a scope, without ladders; it has no rows where nothing was measured yet."""
    before = end_on(scope.branch, before)
    path = columns_before(scope.branch, before, WINDOW)
    all_series = shown_series(scope)
    names = list(dict.fromkeys(series.benchmark for series in all_series.values()))
    groups, smallest = suite_settings(scope, suite)
    groups |= {name: group_by_name(name) for name in names if name not in groups}
    choices = TagChoices.of(groups, [name for name in groups if name in names])
    series_by_id = {
        pk: series for pk, series in all_series.items() if filters.admits(series.benchmark, groups[series.benchmark])
    }
    by_name = lines_by_benchmark(scope, series_by_id, path)
    newest = {name: newest_line(lines) for name, lines in by_name.items()}
    releases = [] if before else measured_releases(scope, by_name)
    release = release_of(newest.values(), releases)
    commits = path[len(releases[:RELEASES]) - SHOWN :]
    gaps = gaps_of(scope.machine, [p.pk for p in commits]) if scope.machine and commits else {}
    marks = marks_by_benchmark(scope, commits) if by_name else {}
    headed: dict[str, list[BenchmarkRow]] = defaultdict(list)
    for name in [name for name in groups if name in by_name]:
        detectable = max(smallest, *(series_by_id[line.series_id].smallest for line in by_name[name]))
        scale = numbers.unit_scale(scope.metric.unit, float(newest[name].value[-1]))
        context = RowContext(scope, path, commits, releases, release, gaps, detectable, marks.get(name, {}), scale)
        why = series_by_id[newest[name].series_id].why
        headed[groups[name]].append(benchmark_row(context, name, why, by_name[name]))
    return Grid(
        commits,
        list(headed.items()),
        gaps,
        measured=measured_commits(path, by_name),
        breaks=breaks_of(series_by_id, path, by_name),
        release=release,
        releases=releases[:RELEASES][::-1],
        filters=filters,
        choices=choices,
        hidden=len(names) - len({series.benchmark for series in series_by_id.values()}),
        before=before,
        older=commits[0].commit.sha[:12] if commits and len(path) > len(commits) else "",
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


def newest_line(lines: Sequence[LineColumns]) -> LineColumns:
    return max(lines, key=lambda line: (line.at[-1], line.series_id))


def measured_releases(scope: PageScope, by_name: Mapping[str, list[LineColumns]]) -> list[MeasuredRelease]:
    """The releases that were measured with these lines, the newest first."""
    if not by_name:
        return []
    branch = releasepoints.branch_of_releases(scope.branch, scope.project.default_branch)
    project = scope.project.pk
    series = {project: [line.series_id for lines in by_name.values() for line in lines]}
    return releasepoints.newest_releases(series, {project: branch})[project]


def release_of(lines: Iterable[LineColumns], releases: Iterable[MeasuredRelease]) -> MeasuredRelease | None:
    """The newest release that was measured with one of these lines."""
    series = {line.series_id for line in lines}
    return next((release for release in releases if not series.isdisjoint(release.points)), None)


def measured_commits(path: Sequence[GridColumn], by_name: Mapping[str, list[LineColumns]]) -> frozenset[int]:
    positions = {at for lines in by_name.values() for line in lines for at in line.at.tolist()}
    return frozenset(path[at].pk for at in positions)


def breaks_of(
    series_by_id: Mapping[int, ShownSeries], path: Sequence[GridColumn], by_name: Mapping[str, list[LineColumns]]
) -> frozenset[int]:
    """The commits at which the machine's environment differs from that at the measured commit before."""
    newest: dict[int, int] = {}
    for line in (line for lines in by_name.values() for line in lines):
        environment = series_by_id[line.series_id].environment_id
        for at in line.at.tolist():
            newest[at] = max(environment, newest.get(at, 0))
    positions = sorted(newest)
    return frozenset(path[at].pk for last, at in pairwise(positions) if newest[at] != newest[last])


def marks_by_benchmark(scope: PageScope, commits: Sequence[GridColumn]) -> dict[str, dict[int, Mark]]:
    """The change points of the shown commits: benchmark name -> commit id -> mark."""
    points = changes.change_points().filter(
        commit__in=[p.pk for p in commits],
        series__machine=scope.machine,
        series__metric=scope.metric.name,
        status__in=changes.VISIBLE,
    )
    marks: dict[str, dict[int, Mark]] = defaultdict(dict)
    for benchmark, commit, *columns in points.values_list("series__benchmark__name", "commit", *Mark._fields):
        marks[benchmark][commit] = Mark._make(columns)
    return marks


def benchmark_row(context: RowContext, name: str, why: str, lines: list[LineColumns]) -> BenchmarkRow:
    """The row of a benchmark with these lines; its trend is that of the newest line."""
    newest = newest_line(lines)
    by_place = dict(zip(newest.at.tolist(), newest.value.tolist(), strict=True))
    clean = {at: value for at, value in by_place.items() if at not in newest.flags}
    url = timeline_path(context.scope.project.slug, name, context.scope.metric.name)
    points = [point for line in lines for point in grid_points(context, line)]
    noise = noise_of_values([*clean.values()])
    cells = release_cells(context, noise, lines), cells_of(context, noise, points)
    spark = [clean.get(at) for at in range(len(context.path))]
    since = since_release(context, newest)
    flags = newest.flags.get(int(newest.at[-1]), [])
    return BenchmarkRow(name, why, url, float(newest.value[-1]), flags, spark, *cells, since)


def since_release(context: RowContext, newest: LineColumns) -> Ratio | None:
    """The newest clean value of a line against that of the release; None if the release has none."""
    clean = [index for index, at in enumerate(newest.at.tolist()) if at not in newest.flags]
    release = context.release
    if release is None or not clean or newest.series_id not in release.points:
        return None
    now = ReleaseEstimate(*(float(column[clean[-1]]) for column in (newest.value, newest.low, newest.high)))
    smallest = context.detectable
    return releasepoints.ratio_of(release.points[newest.series_id], now, context.scope.metric, smallest)


def grid_points(context: RowContext, line: LineColumns) -> list[LinePoint]:
    """The points of a line in the grid, and the last clean point before them, which the first one is compared with."""
    begin = int(np.searchsorted(line.at, len(context.path) - len(context.commits)))
    before = [i for i in range(begin) if int(line.at[i]) not in line.flags][-1:]
    stretch = line.chosen([*before, *range(begin, len(line.at))])
    columns = (column.tolist() for column in (stretch.at, stretch.value, stretch.low, stretch.high, stretch.n))
    return [
        LinePoint(line.series_id, at, context.path[at].pk, 0, value, low, high, n, line.flags.get(at, []))
        for at, value, low, high, n in zip(*columns, strict=True)
    ]


def release_cells(context: RowContext, noise: float, lines: list[LineColumns]) -> list[Cell]:
    """The cells of the releases; the first is compared with the release before it, which has no column."""
    releases = context.releases[: RELEASES + 1][::-1]
    series = sorted(line.series_id for line in lines)
    points = [
        LinePoint(pk, at, at, 0, *release.points[pk], 0, [])
        for at, release in enumerate(releases)
        for pk in series
        if pk in release.points
    ]
    by_place = {point.commit_id: point for point in points}
    grades = grades_of(context, noise, points)
    cells = [
        measured_cell(context, release.tag, by_place[at], grades.get(at), None)
        if at in by_place
        else Cell("unmeasured", "", f"{release.tag}: no reliable value")
        for at, release in enumerate(releases)
    ]
    return cells[-RELEASES:]


def cells_of(context: RowContext, noise: float, points: list[LinePoint]) -> list[Cell]:
    points.sort(key=attrgetter("position", "series_id"))
    by_commit = {p.commit_id: p for p in points}
    grades = grades_of(context, noise, points)
    cells = []
    for placed in context.commits:
        key = placed.pk
        if point := by_commit.get(key):
            cells.append(measured_cell(context, placed.short, point, grades.get(key), context.marks.get(key)))
        else:
            cells.append(gap_cell(placed, context.gaps.get(key, UNMEASURED)))
    return cells


def grades_of(context: RowContext, noise: float, points: list[LinePoint]) -> dict[int, Grade]:
    """By commit id: its point compared with the clean point before it in the same series."""
    grades: dict[int, Grade] = {}
    before: dict[int, Level | None] = {}
    for point in points:
        level = level_of(point)
        last = before.get(point.series_id)
        if last and (g := grade(last, level, noise, context.scope.metric, context.detectable)):
            grades[point.commit_id] = g
        if not point.flags:
            before[point.series_id] = level
    return grades


def measured_cell(context: RowContext, name: str, point: LinePoint, graded: Grade | None, mark: Mark | None) -> Cell:
    metric = context.scope.metric
    title = f"{name}: {context.scale.text(point.value)}"
    look = "same"
    if graded:
        title += f", {numbers.change(graded.ratio)} to the one before"
        if level := graded.level:
            look = f"{'worse' if graded.worse else 'better'}-{level}"
            title += f" ({graded.units:.1f} × detectable)"
    if point.flags:
        return Cell("flagged", "", f"{title}; unreliable: {', '.join(point.flags)}")
    if mark is None:
        return Cell(look, "", title)
    is_slowdown = (mark.ratio > 1) == (metric.better == Direction.LOWER)
    side = "worse" if is_slowdown else "better"
    look = f"{side}-{2 if mark.status == ChangePoint.Status.CONFIRMED else 1} change-{mark.status}"
    title += f"; {mark.status}: {numbers.effect(metric, is_slowdown)} {numbers.change(mark.ratio)}"
    if mark.width and mark.width > 1:
        title += f", by one of {mark.width} commits up to this one"
    return Cell(look, "▼" if is_slowdown else "▲", title)


def gap_cell(placed: GridColumn, gap: Gap) -> Cell:
    mark = {"failed": "×", "waiting": "·", "running": "…", "cancelled": "–", "linked": "="}.get(gap.state, "")
    return Cell(gap.state, mark, f"{placed.short}: {gap.reason}")
