"""Releases of a project: each against the one before it and the first, a metric over the versions, and what failed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from django.db.models import Exists, OuterRef
from django.http import QueryDict

from speedtrack.alerts.lines import lines
from speedtrack.benchmarks.metrics import Metric
from speedtrack.judging.points import Place, SidePoint, points_at, points_to_compare
from speedtrack.judging.sides import ComparedRow, compared_rows, total_of_rows
from speedtrack.judging.totals import Total
from speedtrack.projects.models import Commit, Project
from speedtrack.projects.releases import Version, version_of
from speedtrack.reports.readings.choices import machines_of, named_or_default
from speedtrack.runs.models import Machine, Run, Series, Status
from speedtrack.web.addresses import metric_given
from speedtrack.web.drawing.charts.linecharts import MOST_LINES, LineChart, chart_over_names, measured_value
from speedtrack.web.scope import metrics_of, project_or_404, usual_metric

MOST_RELEASES = 200


Points = dict[str, dict[int, SidePoint]]  # of a release: by benchmark and by series


@dataclass(frozen=True)
class Release:
    """A release that was measured or failed. ``failure``: why it has no numbers; ``run_id``: the run that failed."""

    tag: str
    version: Version
    commit: Commit
    failure: str = ""
    run_id: int | None = None


@dataclass(frozen=True)
class BenchmarkChoice:
    """``counted``: the totals include it."""

    name: str
    chosen: bool
    counted: bool


@dataclass(frozen=True)
class ReleaseCell:
    """A release under one benchmark, compared with the one before it, and with the first; those have been measured.

    ``before``, ``first``: their tags.
    """

    release: Release
    point: SidePoint | None = None
    before: str = ""
    since_before: ComparedRow | None = None
    first: str = ""
    since_first: ComparedRow | None = None


@dataclass(frozen=True)
class BenchmarkTable:
    """All releases under one benchmark, oldest first."""

    name: str
    cells: list[ReleaseCell]

    @property
    def newest_first(self) -> list[ReleaseCell]:
        return self.cells[::-1]

    @property
    def whole(self) -> ComparedRow | None:
        """The newest measured release compared with the first."""
        return next((cell.since_first for cell in reversed(self.cells) if cell.point), None)


@dataclass(frozen=True)
class ReleaseTotal:
    """A release under all counted benchmarks."""

    release: Release
    before: str
    since_before: Total
    since_first: Total


@dataclass(frozen=True)
class ReleasesPage:
    project: Project
    machines: list[Machine]
    machine: Machine | None
    metrics: list[Metric]
    metric: Metric
    choices: list[BenchmarkChoice]
    releases: list[Release]
    tables: list[BenchmarkTable]
    totals: list[ReleaseTotal]
    chart: LineChart | None

    @property
    def benchmarks(self) -> list[str]:
        return [choice.name for choice in self.choices if choice.chosen]

    @property
    def counted(self) -> list[str]:
        return [choice.name for choice in self.choices if choice.counted]


def load(slug: str, query: QueryDict) -> ReleasesPage:
    """The page that an address names. Raises Http404 for a name that does not exist."""
    project = project_or_404(slug)
    machines = machines_of(project)
    machine = named_or_default("machine", query.get("machine"), machines, "")
    metrics = metrics_of(machines)
    metric = named_or_default("metric", metric_given(query), metrics, usual_metric(machine))
    assert metric
    tags = tagged_commits(project)
    series = measured_series(project, machine, metric, [commit.pk for *_, commit in tags])
    choices = choices_of(series, query.getlist("benchmark"))
    names = {choice.name for choice in choices if choice.chosen or choice.counted}
    own = [entry.pk for entry in series if entry.benchmark.name in names]
    points = points_by_release(own, [commit.pk for *_, commit in tags])
    releases = with_outcomes(tags, machine, points)
    tables = {table.name: table for table in tables_of(sorted(names), releases, points)}
    chart_tables = [tables[choice.name] for choice in choices if choice.chosen]
    totals = totals_of(metric, [tables[choice.name] for choice in choices if choice.counted])
    chart = chart_of(metric, releases, chart_tables)
    return ReleasesPage(project, machines, machine, metrics, metric, choices, releases, chart_tables, totals, chart)


def tagged_commits(project: Project) -> list[tuple[Version, str, Commit]]:
    """The newest releases, lowest version first, one per commit."""
    shas = {sha: name for name, sha in project.tags.values_list("name", "sha") if version_of(name)}
    commits = Commit.objects.filter(project=project, sha__in=shas)
    releases = [(version_of(shas[commit.sha]) or (), shas[commit.sha], commit) for commit in commits]
    return sorted(releases, key=lambda row: row[:2])[-MOST_RELEASES:]


def measured_series(project: Project, machine: Machine | None, metric: Metric, commits: Sequence[int]) -> list[Series]:
    """The series with a point of any of these commits."""
    points = lines.point_measurements().filter(series=OuterRef("pk"), commit__in=list(commits))
    rows = Series.objects.filter(Exists(points), project=project, machine=machine, metric=metric.name)
    return list(rows.select_related("benchmark").defer("benchmark__definition"))


def points_by_release(series: Sequence[int], commits: Sequence[int]) -> dict[int, Points]:
    """By commit id: its points, by benchmark and then by series."""
    points: dict[int, Points] = defaultdict(lambda: defaultdict(dict))
    for place, point in points_at([Place(*place) for place in product(series, commits)]).items():
        points[place.commit_id][point.benchmark][place.series_id] = point
    return points


def choices_of(series: Sequence[Series], requested_names: list[str]) -> list[BenchmarkChoice]:
    """The measured benchmarks, rungs of ladders last, in the order of their values.

    By default the first few benchmarks are shown. The rungs of ladders are shown and counted only if there are no other
    benchmarks.
    """
    benchmarks = {entry.benchmark.name: entry.benchmark for entry in series}
    ordered = sorted(benchmarks, key=lambda name: (benchmarks[name].ladder, benchmarks[name].rung or 0, name))
    usual = [name for name in ordered if not benchmarks[name].ladder] or ordered
    visible_names = [name for name in ordered if name in requested_names] or usual[: MOST_LINES // 2]
    return [BenchmarkChoice(name, name in visible_names[:MOST_LINES], name in usual) for name in ordered]


def with_outcomes(
    tags: list[tuple[Version, str, Commit]], machine: Machine | None, points: Mapping[int, Points]
) -> list[Release]:
    """The releases that were measured, and those whose last run failed.

    Releases without runs are left out.
    """
    failed = Run.objects.filter(commit__in=[commit for _, _, commit in tags], machine=machine, status=Status.FAILED)
    failures = {run.commit_id: run for run in failed.order_by("pk")}
    releases = []
    for version, tag, commit in tags:
        run = failures.get(commit.pk)
        if points.get(commit.pk):
            releases.append(Release(tag, version, commit))
        elif run:
            releases.append(Release(tag, version, commit, run.error.partition("\n")[0] or "failed", run.pk))
    return releases


def tables_of(names: Sequence[str], releases: Sequence[Release], points: Mapping[int, Points]) -> list[BenchmarkTable]:
    """All releases under each benchmark; each is compared with two others, all at once."""
    measured = {
        name: [release for release in releases if points.get(release.commit.pk, {}).get(name)] for name in names
    }
    pairs = [
        (name, release, own[reference])
        for name, own in measured.items()
        for index, release in enumerate(own[1:], start=1)
        for reference in (index - 1, 0)
    ]
    matched = [
        points_to_compare(points[reference.commit.pk][name], points[release.commit.pk][name])
        for name, release, reference in pairs
    ]
    rows = {
        (name, release.tag, reference.tag): row
        for (name, release, reference), row in zip(pairs, compared_rows(matched), strict=True)
    }
    return [
        BenchmarkTable(name, [cell_of(name, release, measured[name], points, rows) for release in releases])
        for name in names
    ]


def cell_of(
    name: str,
    release: Release,
    measured: Sequence[Release],
    points: Mapping[int, Points],
    rows: Mapping[tuple[str, str, str], ComparedRow],
) -> ReleaseCell:
    if release not in measured:
        return ReleaseCell(release)
    here = points[release.commit.pk][name]
    index, newest = measured.index(release), here[max(here)]
    if not index:
        return ReleaseCell(release, newest)
    before, first = measured[index - 1].tag, measured[0].tag
    return ReleaseCell(release, newest, before, rows[name, release.tag, before], first, rows[name, release.tag, first])


def totals_of(metric: Metric, tables: Sequence[BenchmarkTable]) -> list[ReleaseTotal]:
    """The totals of each release, the newest first."""
    rows = zip(*(table.cells for table in tables), strict=True)
    return [total_of_cells(metric, list(cells)) for cells in rows][::-1]


def total_of_cells(metric: Metric, cells: Sequence[ReleaseCell]) -> ReleaseTotal:
    """The total of a release. Benchmarks that have no value of both sides count among those that there are."""
    before = [cell.since_before for cell in cells if cell.since_before]
    first = [cell.since_first for cell in cells if cell.since_first]
    return ReleaseTotal(
        release=cells[0].release,
        before=next((cell.before for cell in cells if cell.before), ""),
        since_before=total_of_rows(metric, before, len(cells) - len(before)),
        since_first=total_of_rows(metric, first, len(cells) - len(first)),
    )


def chart_of(metric: Metric, releases: Sequence[Release], tables: Sequence[BenchmarkTable]) -> LineChart | None:
    chart_lines = [
        (
            table.name,
            [
                measured_value(metric, f"{cell.release.tag}, {table.name}", at, cell.point) if cell.point else None
                for at, cell in enumerate(table.cells)
            ],
        )
        for table in tables
    ]
    missing = [(i, f"{release.tag}: {release.failure}") for i, release in enumerate(releases) if release.failure]
    return chart_over_names(chart_lines, metric, [release.tag for release in releases], missing)


def releases_document(page: ReleasesPage) -> dict[str, Any]:
    return {
        "schema": "speedtrack.releases/1",
        "project": page.project.slug,
        "machine": page.machine.name if page.machine else None,
        "metric": page.metric.name,
        "releases": [
            {"release": release.tag, "commit": release.commit.sha, "failure": release.failure or None}
            for release in page.releases
        ],
        "benchmarks": [
            {"name": table.name, "releases": [cell_document(cell) for cell in table.cells if cell.point]}
            for table in page.tables
        ],
    }


def cell_document(cell: ReleaseCell) -> dict[str, Any]:
    point = cell.point
    assert point
    return {
        "release": cell.release.tag,
        "median": point.value,
        "low": point.low,
        "high": point.high,
        "flags": point.flags,
        "against": [
            {"release": tag, "ratio": row.ratio, "low": row.low, "high": row.high, "verdict": row.verdict}
            for tag, row in ((cell.before, cell.since_before), (cell.first, cell.since_first))
            if row
        ],
    }


def csv_rows(page: ReleasesPage) -> Iterator[list[Any]]:
    """A header, then a row per benchmark and release, then one per release that was not measured, with its cause."""
    against = ["ratio", "low", "high", "verdict"]
    yield [
        *("project", "benchmark", "release", "commit", page.metric.name, "low", "high", "flags"),
        *(f"{name}_{column}" for name in ("before", "first") for column in ["release", *against]),
        "failure",
    ]
    for table in page.tables:
        for cell in table.cells:
            if point := cell.point:
                own = [page.project.slug, table.name, cell.release.tag, cell.release.commit.sha]
                yield [
                    *own,
                    *(point.value, point.low, point.high, " ".join(point.flags)),
                    *csv_cells(cell.before, cell.since_before),
                    *csv_cells(cell.first, cell.since_first),
                    "",
                ]
    for release in page.releases:
        if release.failure:
            yield [page.project.slug, "", release.tag, release.commit.sha, *[""] * 14, release.failure]


def csv_cells(tag: str, row: ComparedRow | None) -> list[Any]:
    return [tag, row.ratio, row.low, row.high, row.verdict] if row else [""] * 5
