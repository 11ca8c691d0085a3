"""A project: a grid of benchmarks by recent commits, its alerts, and what changed."""

from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from django.conf import settings
from django.db.models import Exists
from django.urls import reverse

from speedtrack.alerts import lines
from speedtrack.alerts.lines import LineColumns, LinePoint
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.models import Suite
from speedtrack.projects.models import Project
from speedtrack.runs.models import Run, Series
from speedtrack.web.addresses import timeline_path
from speedtrack.web.drawing.gaps import UNMEASURED, Gap, gaps_of
from speedtrack.web.drawing.grades import Grade, grade, noise_of_values
from speedtrack.web.pages import changes
from speedtrack.web.pages.changes import ChangeGroup
from speedtrack.web.scope import PlacedCommit, Scope, recent_commits

COLUMNS = 30  # commits of the grid
WINDOW = 90  # commits that noise and sparklines are computed from
LISTED_COMMITS = 12
LISTED_CHANGES = 12
LISTED_ALERTS = 8


@dataclass(frozen=True)
class Cell:
    """One benchmark at one commit. ``look``: the CSS classes of its colour and shape; ``title``: the same in words."""

    look: str
    mark: str
    title: str


@dataclass(frozen=True)
class BenchmarkRow:
    benchmark: str
    why: str
    url: str
    newest: float
    spark: list[float | None]
    cells: list[Cell]


@dataclass(frozen=True)
class Grid:
    commits: list[PlacedCommit]
    rows: list[BenchmarkRow]
    states: dict[int, Gap]


@dataclass(frozen=True)
class CommitRow:
    """A commit of the list: measured, or why not, and the changes that it made."""

    placed: PlacedCommit
    state: str
    reason: str
    run_id: int | None
    changes: list[ChangeGroup]


@dataclass(frozen=True)
class ProjectPage:
    scope: Scope
    grid: Grid
    changes: list[ChangeGroup]
    commits: list[CommitRow]
    alerts: list[Alert]  #: the open ones
    has_ladders: bool


@dataclass(frozen=True)
class RowContext:
    """What the cells of one row have in common. ``path``: the newest WINDOW commits."""

    scope: Scope
    path: list[PlacedCommit]
    gaps: dict[int, Gap]
    smallest_effect: float
    marks: dict[int, ChangePoint]


def load(scope: Scope) -> ProjectPage:
    suite = newest_suite(scope.project)
    grid = load_grid(scope, suite)
    newest = changes.newest_groups(changes.on_branch(scope.branch), LISTED_CHANGES)
    ladders = suite is not None and getattr(suite, "has_ladders")  # noqa: B009 (an annotation)
    return ProjectPage(scope, grid, newest, commit_rows(grid, newest), open_alerts(scope.project), ladders)


def newest_suite(project: Project) -> Suite | None:
    """The suite of the newest run, with ``has_ladders``: was a ladder of the project measured?"""
    runs = Run.objects.own().filter(project=project).order_by("-id").values("suite")
    ladders = Series.objects.filter(project=project).exclude(benchmark__ladder="")
    return Suite.objects.filter(pk__in=runs[:1]).annotate(has_ladders=Exists(ladders)).first()


def load_grid(scope: Scope, suite: Suite | None) -> Grid:
    """The grid of a scope, without ladders; it has no rows where nothing was measured yet."""
    path = recent_commits(scope.branch, WINDOW)
    if not path or scope.machine is None or scope.branch is None:
        return Grid(path[-COLUMNS:], [], {})
    found = Series.objects.filter(project=scope.project, machine=scope.machine, metric=scope.metric.name)
    rows = found.filter(benchmark__ladder="").order_by("pk").values_list("pk", "benchmark__name", "benchmark__why")
    names = {pk: name for pk, name, _ in rows}
    whys = {name: why for _, name, why in rows}
    gaps = gaps_of(scope.machine, [p.commit.pk for p in path[-COLUMNS:]])
    smallest, order = suite_settings(scope, suite)
    marks = marks_by_benchmark(scope, path)
    found_lines: dict[str, list[LineColumns]] = defaultdict(list)
    for line in lines.columns(names, scope.branch, path[0].number, path[-1].number):
        found_lines[names[line.series_id]].append(line)
    ordered = [n for n in order if n in found_lines] + sorted(found_lines.keys() - set(order))
    made = []
    for name in ordered:
        context = RowContext(scope, path, gaps, smallest, marks.get(name, {}))
        made.append(benchmark_row(context, name, whys[name], found_lines[name]))
    return Grid(path[-COLUMNS:], made, gaps)


def suite_settings(scope: Scope, suite: Suite | None) -> tuple[float, list[str]]:
    """The metric's smallest relevant effect and the order of the benchmarks, as the suite has them."""
    if suite is None:
        return scope.metric.smallest_effect, []
    names = [section["name"] for section in suite.definition["benchmark"]]
    return suite.smallest_effect(scope.metric.name, scope.metric.smallest_effect), names


def marks_by_benchmark(scope: Scope, path: list[PlacedCommit]) -> dict[str, dict[int, ChangePoint]]:
    """The change points of these commits: benchmark -> commit -> change point."""
    found = changes.change_points().filter(
        commit__in=[p.commit.pk for p in path[-COLUMNS:]],
        series__machine=scope.machine,
        series__metric=scope.metric.name,
        status__in=changes.VISIBLE,
    )
    marks: dict[str, dict[int, ChangePoint]] = defaultdict(dict)
    for cp in found:
        marks[cp.series.benchmark.name][cp.commit_id] = cp
    return marks


def benchmark_row(context: RowContext, name: str, why: str, found: list[LineColumns]) -> BenchmarkRow:
    """The row of a benchmark with these lines, one per environment; its trend is that of the newest line."""
    newest = max(found, key=lambda line: (line.at[-1], line.series_id))
    by_place = dict(zip(newest.at.tolist(), newest.value.tolist(), strict=True))
    clean = {at: value for at, value in by_place.items() if at not in newest.flags}
    url = timeline_path(context.scope.project.slug, name, context.scope.metric.name)
    cells = cells_of(
        context, noise_of_values([*clean.values()]), [point for line in found for point in grid_points(context, line)]
    )
    return BenchmarkRow(
        name, why, url, float(newest.value[-1]), [clean.get(at) for at in range(len(context.path))], cells
    )


def grid_points(context: RowContext, line: LineColumns) -> list[LinePoint]:
    """The points of a line in the grid, and the last clean one before them, with which its first one is compared."""
    begin = int(np.searchsorted(line.at, len(context.path) - COLUMNS))
    before = [i for i in range(begin) if int(line.at[i]) not in line.flags][-1:]
    shown = line.chosen([*before, *range(begin, len(line.at))])
    columns = (column.tolist() for column in (shown.at, shown.value, shown.low, shown.high, shown.n))
    return [
        LinePoint(line.series_id, at, context.path[at].commit.pk, 0, value, low, high, n, line.flags.get(at, []))
        for at, value, low, high, n in zip(*columns, strict=True)
    ]


def cells_of(context: RowContext, noise: float, points: list[LinePoint]) -> list[Cell]:
    points.sort(key=attrgetter("position", "series_id"))
    by_commit = {p.commit_id: p for p in points}
    grades = grades_of(context, noise, points)
    cells = []
    for placed in context.path[-COLUMNS:]:
        key = placed.commit.pk
        if point := by_commit.get(key):
            cells.append(measured_cell(context, placed, point, grades.get(key), context.marks.get(key)))
        else:
            cells.append(gap_cell(placed, context.gaps.get(key, UNMEASURED)))
    return cells


def grades_of(context: RowContext, noise: float, points: list[LinePoint]) -> dict[int, Grade]:
    """By commit: its point compared with the clean point before it in the same series."""
    found: dict[int, Grade] = {}
    before: dict[int, LinePoint] = {}
    for point in points:
        last = before.get(point.series_id)
        if last and (g := grade(last, point, noise, context.scope.metric, context.smallest_effect)):
            found[point.commit_id] = g
        if not point.flags:
            before[point.series_id] = point
    return found


def measured_cell(
    context: RowContext, placed: PlacedCommit, point: LinePoint, graded: Grade | None, mark: ChangePoint | None
) -> Cell:
    metric = context.scope.metric
    title = f"{placed.commit.short}: {numbers.quantity(metric, point.value)}"
    if graded:
        title += f", {numbers.change(graded.ratio)} to the commit before ({graded.errors:.1f} standard errors)"
    if point.flags:
        return Cell("flagged", "", f"{title}; unreliable: {', '.join(point.flags)}")
    look = "same"
    if graded and graded.level:
        look = f"{'worse' if graded.worse else 'better'}-{graded.level}"
    if mark is None:
        return Cell(look, "", title)
    side = "worse" if mark.is_slowdown else "better"
    look = f"{side}-{2 if mark.status == ChangePoint.Status.CONFIRMED else 1} change-{mark.status}"
    title += f"; {mark.status}: {numbers.effect(metric, mark.is_slowdown)} {numbers.change(mark.ratio)}"
    if (width := changes.width_of(mark)) > 1:
        title += f", by one of {width} commits up to this one"
    return Cell(look, "▼" if mark.is_slowdown else "▲", title)


def gap_cell(placed: PlacedCommit, gap: Gap) -> Cell:
    mark = {"failed": "×", "waiting": "·", "running": "…", "cancelled": "–", "linked": "="}.get(gap.state, "")
    return Cell(gap.state, mark, f"{placed.commit.short}: {gap.reason}")


def commit_rows(grid: Grid, found: list[ChangeGroup]) -> list[CommitRow]:
    """The newest commits of the grid, newest first."""
    rows = []
    for placed in reversed(grid.commits[-LISTED_COMMITS:]):
        place = grid.commits.index(placed)
        measured = any(
            row.cells[place].look.split("-")[0] in ("same", "worse", "better", "flagged") for row in grid.rows
        )
        gap = grid.states.get(placed.commit.pk, UNMEASURED)
        state, reason = ("measured", "") if measured else (gap.state, gap.reason)
        own_changes = [c for c in found if c.commit.pk == placed.commit.pk]
        rows.append(CommitRow(placed, state, reason, gap.run_id, own_changes))
    return rows


def open_alerts(project: Project) -> list[Alert]:
    """The newest of the project's open alerts, newest first."""
    found = Alert.objects.work().filter(project=project)
    return list(found.select_related("commit", "branch").order_by("-id")[:LISTED_ALERTS])


def hook_url(project: Project) -> str:
    """The URL that the repository's host sends its webhooks to."""
    return f"{settings.URL}{reverse('hook', args=[project.hook_id])}"
