"""Releases of a project: each against the one before it and the first, a metric over the versions, and what failed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from django.db import connection
from django.http import Http404, QueryDict

from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import Metric
from speedtrack.judging.points import Place, SidePoint, points_at, points_to_compare
from speedtrack.judging.sides import ComparedRow, compared_rows, total_of_rows
from speedtrack.judging.totals import Total
from speedtrack.projects.models import Commit, Project
from speedtrack.projects.releases import Version, version_of
from speedtrack.reports.readings.choices import machines_of, named_or_default
from speedtrack.runs.models import Machine
from speedtrack.web.addresses import metric_given
from speedtrack.web.drawing.charts.linecharts import MOST_LINES, LineChart, chart_over_names, measured_value
from speedtrack.web.scope import metrics_of, project_or_404, usual_metric

MOST_RELEASES = 200
MOST_COMPARED = 1200  # comparisons of a page: with many benchmarks it has fewer releases

Points = dict[str, dict[int, SidePoint]]  # of a release: by benchmark and by series
# The series with a point of any of these commits. The order makes each a single search in the index of points, which
# ends at the first one; EXISTS would read all points of the commits, those of other metrics and machines as well.
MEASURED = sql("""
    SELECT s.id, b.name, b.ladder, b.rung
      FROM runs_series s JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
     WHERE s.project_id = %(project)s AND s.machine_id = %(machine)s AND s.metric = %(metric)s
       AND (SELECT m.commit_id FROM runs_measurement m
             WHERE m.series_id = s.id AND m.commit_id = ANY (%(commits)s::int[]) AND IS_POINT
          ORDER BY m.commit_id LIMIT 1) IS NOT NULL
""")
# Of each commit: was it measured, and if not, which run of it failed last? "+ 0": by the index of the commit, in which
# one of the first rows answers; by series, those that have ended would all be looked into.
OUTCOMES = sql("""
    SELECT c.id,
           EXISTS (SELECT FROM runs_measurement m
                    WHERE m.commit_id = c.id AND m.series_id + 0 = ANY (%(series)s::int[]) AND IS_POINT OFFSET 0),
           failed.id, failed.error
      FROM unnest(%(commits)s::int[]) AS c (id)
 LEFT JOIN LATERAL (
        SELECT r.id, r.error FROM runs_run r
         WHERE r.commit_id = c.id AND r.machine_id = %(machine)s AND r.status = 'failed'
      ORDER BY r.id DESC LIMIT 1) failed ON true
""")
# Of each benchmark, the first of these commits that one of its series measured. They are in the order of the array, so
# that the search ends there.
FIRST_MEASURED = """(
    SELECT c.id FROM unnest(%({commits})s::int[]) WITH ORDINALITY AS c (id, place)
     WHERE EXISTS (SELECT FROM unnest(b.series) AS s (id)
                    WHERE EXISTS (SELECT FROM runs_measurement m
                                   WHERE m.series_id = s.id AND m.commit_id = c.id AND IS_POINT OFFSET 0) OFFSET 0)
  ORDER BY c.place LIMIT 1)"""
REFERENCES = sql(f"""
    SELECT b.series, {FIRST_MEASURED.format(commits="forwards")}, {FIRST_MEASURED.format(commits="backwards")}
      FROM (SELECT array_agg(id ORDER BY id DESC) AS series
              FROM unnest(%(series)s::int[], %(benchmarks)s::int[]) AS s (id, benchmark) GROUP BY benchmark) b
""")  # noqa: S608 - constants


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
    """The shown releases under one benchmark, oldest first."""

    name: str
    cells: list[ReleaseCell]

    @property
    def newest_first(self) -> list[ReleaseCell]:
        return self.cells[::-1]

    @property
    def newest(self) -> ReleaseCell | None:
        """The newest measured release."""
        return next((cell for cell in reversed(self.cells) if cell.point), None)


@dataclass(frozen=True)
class ReleaseTotal:
    """A release under all counted benchmarks."""

    release: Release
    before: str
    since_before: Total
    since_first: Total


@dataclass(frozen=True)
class Stretch:
    """The releases that tables show, of all ``releases``: those from place ``begin`` up to ``end``."""

    releases: Sequence[Release]
    begin: int
    end: int

    @property
    def shown(self) -> Sequence[Release]:
        return self.releases[self.begin : self.end]

    @property
    def is_whole(self) -> bool:
        return len(self.shown) == len(self.releases)

    @property
    def older(self) -> str:
        """The release before which the next older ones end; empty without older ones."""
        return self.releases[self.begin].tag if self.begin else ""

    @property
    def has_newer(self) -> bool:
        return self.end < len(self.releases)


@dataclass(frozen=True)
class ReleasesPage:
    """``chart``: of all releases; ``tables``, ``totals``: of those of the ``stretch``."""

    project: Project
    machines: list[Machine]
    machine: Machine | None
    metrics: list[Metric]
    metric: Metric
    choices: list[BenchmarkChoice]
    stretch: Stretch
    tables: list[BenchmarkTable]
    totals: list[ReleaseTotal]
    chart: LineChart | None

    @property
    def releases(self) -> Sequence[Release]:
        return self.stretch.releases

    @property
    def benchmarks(self) -> list[str]:
        return [choice.name for choice in self.choices if choice.chosen]

    @property
    def counted(self) -> list[str]:
        return [choice.name for choice in self.choices if choice.counted]


def load(slug: str, query: QueryDict, everything: bool = False) -> ReleasesPage:
    """The page that an address names. Raises Http404 for a name that does not exist.

    ``everything``: the chosen benchmarks with all releases at once, without totals.
    """
    project = project_or_404(slug)
    machines = machines_of(project)
    machine = named_or_default("machine", query.get("machine"), machines, "")
    metrics = metrics_of(machines)
    metric = named_or_default("metric", metric_given(query), metrics, usual_metric(machine))
    assert metric
    tags = tagged_commits(project)
    series = measured_series(project, machine, metric, [commit.pk for *_, commit in tags])
    choices = choices_of(series, query.getlist("benchmark"))
    chosen, counted = ([choice.name for choice in choices if getattr(choice, kind)] for kind in ("chosen", "counted"))
    compared = chosen if everything else sorted({*chosen, *counted})
    used = {*chosen, *counted}
    own = {entry.pk: entry.benchmark for entry in series if entry.benchmark in used}
    releases = with_outcomes(tags, machine, list(own))
    stretch = whole_of(releases) if everything else stretch_of(releases, query.get("before", ""), len(counted))
    names = {name: number for number, name in enumerate(compared)}
    points = points_by_release({pk: names[name] for pk, name in own.items() if name in names}, stretch)
    tables = {table.name: table for table in tables_of(compared, stretch, points)}
    drawn = points if stretch.is_whole else values_by_release([pk for pk in own if own[pk] in chosen], releases)
    return ReleasesPage(
        project,
        machines,
        machine,
        metrics,
        metric,
        choices,
        stretch,
        [tables[name] for name in chosen],
        [] if everything else totals_of(metric, [tables[name] for name in counted]),
        chart_of(metric, releases, chosen, drawn),
    )


def whole_of(releases: Sequence[Release]) -> Stretch:
    return Stretch(releases, 0, len(releases))


def stretch_of(releases: Sequence[Release], before: str, benchmarks: int) -> Stretch:
    """The newest releases, or those before one, as many as a page may compare. Raises Http404 if there are none."""
    tags = [release.tag for release in releases]
    if before and before not in tags[1:]:
        raise Http404(f"There is no release before {before!r} here.")
    end = tags.index(before) if before else len(tags)
    return Stretch(releases, max(0, end - max(1, MOST_COMPARED // 2 // max(1, benchmarks))), end)


def tagged_commits(project: Project) -> list[tuple[Version, str, Commit]]:
    """The newest releases, lowest version first, one per commit."""
    shas = {sha: name for name, sha in project.tags.values_list("name", "sha") if version_of(name)}
    commits = Commit.objects.filter(project=project, sha__in=shas)
    releases = [(version_of(shas[commit.sha]) or (), shas[commit.sha], commit) for commit in commits]
    return sorted(releases, key=lambda row: row[:2])[-MOST_RELEASES:]


class MeasuredSeries(NamedTuple):
    pk: int
    benchmark: str
    ladder: str
    rung: float | None


def measured_series(
    project: Project, machine: Machine | None, metric: Metric, commits: Sequence[int]
) -> list[MeasuredSeries]:
    """The series with a point of any of these commits."""
    machine_id = machine.pk if machine else None
    parameters = {"project": project.pk, "machine": machine_id, "metric": metric.name, "commits": list(commits)}
    with connection.cursor() as cursor:
        cursor.execute(MEASURED, parameters)
        return [MeasuredSeries(*row) for row in cursor]


def points_by_release(series: Mapping[int, int], stretch: Stretch) -> dict[int, Points]:
    """By commit id, the points of the shown releases and of those that they are compared with.

    ``series``: by id, a number that the series of its benchmark share.
    """
    shown = [Place(*place) for place in product(series, (release.commit.pk for release in stretch.shown))]
    return grouped(points_at([*shown, *references(series, stretch)]))


def references(series: Mapping[int, int], stretch: Stretch) -> list[Place]:
    """Two releases of each benchmark: the first that has it, and the newest that is older than those shown."""
    earlier = [release.commit.pk for release in stretch.releases[: stretch.begin]]
    if not earlier:
        return []
    columns = {"series": list(series), "benchmarks": list(series.values())}
    with connection.cursor() as cursor:
        cursor.execute(REFERENCES, {**columns, "forwards": earlier, "backwards": earlier[::-1]})
        return [Place(pk, commit) for own, *commits in cursor for pk in own for commit in {*commits} - {None}]


def values_by_release(series: Sequence[int], releases: Sequence[Release]) -> dict[int, Points]:
    """By commit id, the points of all releases."""
    places = product(series, (release.commit.pk for release in releases))
    return grouped(points_at([Place(*place) for place in places]))


def grouped(points_by_place: Mapping[Place, SidePoint]) -> dict[int, Points]:
    """By commit id: its points, by benchmark and then by series."""
    points: dict[int, Points] = defaultdict(lambda: defaultdict(dict))
    for place, point in points_by_place.items():
        points[place.commit_id][point.benchmark][place.series_id] = point
    return points


def choices_of(series: Sequence[MeasuredSeries], requested_names: list[str]) -> list[BenchmarkChoice]:
    """The measured benchmarks, rungs of ladders last, in the order of their values.

    By default the first few benchmarks are shown. The rungs of ladders are shown and counted only if there are no other
    benchmarks.
    """
    benchmarks = {entry.benchmark: entry for entry in series}
    ordered = sorted(benchmarks, key=lambda name: (benchmarks[name].ladder, benchmarks[name].rung or 0, name))
    usual = [name for name in ordered if not benchmarks[name].ladder] or ordered
    visible_names = [name for name in ordered if name in requested_names] or usual[: MOST_LINES // 2]
    return [BenchmarkChoice(name, name in visible_names[:MOST_LINES], name in usual) for name in ordered]


def with_outcomes(
    tags: list[tuple[Version, str, Commit]], machine: Machine | None, series: Sequence[int]
) -> list[Release]:
    """The releases that these series measured, and those whose last run failed.

    Releases without runs are left out.
    """
    commits = [commit.pk for *_, commit in tags]
    parameters = {"series": list(series), "commits": commits, "machine": machine.pk if machine else None}
    with connection.cursor() as cursor:
        cursor.execute(OUTCOMES, parameters)
        outcomes = {pk: outcome for pk, *outcome in cursor}
    releases = []
    for version, tag, commit in tags:
        is_measured, run_id, error = outcomes[commit.pk]
        if is_measured:
            releases.append(Release(tag, version, commit))
        elif run_id:
            releases.append(Release(tag, version, commit, error.partition("\n")[0] or "failed", run_id))
    return releases


def tables_of(names: Sequence[str], stretch: Stretch, points: Mapping[int, Points]) -> list[BenchmarkTable]:
    """The shown releases under each benchmark; each is compared with two others, all at once."""
    with_points = [release for release in stretch.releases if release.commit.pk in points]
    pairs = {
        (name, release.tag): references_of(own, place)
        for name in names
        if (own := [release for release in with_points if name in points[release.commit.pk]])
        for place, release in enumerate(own)
    }
    shown = {release.tag: points[release.commit.pk] for release in stretch.shown if release.commit.pk in points}
    matched = {
        (name, tag, reference.tag): points_to_compare(points[reference.commit.pk][name], shown[tag][name])
        for (name, tag), both in pairs.items()
        if both and tag in shown
        for reference in both
    }
    rows = dict(zip(matched, compared_rows([*matched.values()]), strict=True))
    return [
        BenchmarkTable(
            name,
            [
                cell_of(name, release, shown.get(release.tag, {}).get(name), pairs.get((name, release.tag)), rows)
                for release in stretch.shown
            ],
        )
        for name in names
    ]


def references_of(measured: Sequence[Release], place: int) -> tuple[Release, Release] | None:
    """The release before the one at this place, and the first; None for the first."""
    return (measured[place - 1], measured[0]) if place else None


def cell_of(
    name: str,
    release: Release,
    points: Mapping[int, SidePoint] | None,
    references: tuple[Release, Release] | None,
    rows: Mapping[tuple[str, str, str], ComparedRow],
) -> ReleaseCell:
    if not points:
        return ReleaseCell(release)
    newest = points[max(points)]
    if references is None:
        return ReleaseCell(release, newest)
    before, first = (reference.tag for reference in references)
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


def chart_of(
    metric: Metric, releases: Sequence[Release], names: Sequence[str], points: Mapping[int, Points]
) -> LineChart | None:
    """The values of all releases under each of these benchmarks; of several series, those of the newest."""
    chart_lines = [
        (
            name,
            [
                measured_value(metric, f"{release.tag}, {name}", at, own[max(own)]) if own else None
                for at, release in enumerate(releases)
                for own in (points[release.commit.pk].get(name) if release.commit.pk in points else None,)
            ],
        )
        for name in names
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
