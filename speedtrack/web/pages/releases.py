"""Releases of a project: a metric over the versions, with a line per benchmark, and what no longer builds."""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import QueryDict

from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Commit, Project
from speedtrack.projects.releases import Version, version_of
from speedtrack.runs.models import Machine, Measurement, Run, Status
from speedtrack.web.drawing.linecharts import MOST_LINES, LineChart, chart_over_names
from speedtrack.web.pages.ladders import USUAL_METRIC, line_value
from speedtrack.web.scope import machines_of, named_or_default, project_or_404

MOST_RELEASES = 200


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
    name: str
    shown: bool


@dataclass(frozen=True)
class ReleaseRow:
    release: Release
    cells: list[Measurement | None]


@dataclass(frozen=True)
class ReleasesPage:
    project: Project
    machines: list[Machine]
    machine: Machine | None
    metrics: list[Metric]
    metric: Metric
    choices: list[BenchmarkChoice]
    rows: list[ReleaseRow]
    chart: LineChart | None

    @property
    def benchmarks(self) -> list[str]:
        return [choice.name for choice in self.choices if choice.shown]


def load(slug: str, query: QueryDict) -> ReleasesPage:
    """The page that an address names. Raises Http404 for a name that does not exist."""
    project = project_or_404(slug)
    machines = machines_of(project)
    machine = named_or_default("machine", query.get("machine"), machines, "")
    metric = named_or_default("metric", query.get("metric"), METRICS.values(), USUAL_METRIC)
    assert metric
    tags = tagged_commits(project)
    points = Measurement.objects.filter(series__project=project, series__machine=machine, series__metric=metric.name)
    points = points.filter(commit__in=[commit for _, _, commit in tags], accepted=True, paired=False)
    measured = newest_measurements(points)
    releases = with_outcomes(tags, machine, {commit for commit, _ in measured})
    benchmarks = {name: one.series.benchmark for (_, name), one in measured.items()}
    choices = choices_of(benchmarks, query.getlist("benchmark"))
    shown = [choice.name for choice in choices if choice.shown]
    rows = [ReleaseRow(one, [measured.get((one.commit.pk, name)) for name in shown]) for one in releases]
    chart = chart_of(metric, rows, shown)
    return ReleasesPage(project, machines, machine, list(METRICS.values()), metric, choices, rows, chart)


def tagged_commits(project: Project) -> list[tuple[Version, str, Commit]]:
    """The newest releases, lowest version first, one per commit."""
    shas = {sha: name for name, sha in project.tags.values_list("name", "sha") if version_of(name)}
    commits = Commit.objects.filter(project=project, sha__in=shas)
    found = [(version_of(shas[commit.sha]) or (), shas[commit.sha], commit) for commit in commits]
    return sorted(found, key=lambda row: row[:2])[-MOST_RELEASES:]


def newest_measurements(points: QuerySet[Measurement]) -> dict[tuple[int, str], Measurement]:
    """The newest measurement of each commit and benchmark."""
    rows = points.select_related("series__benchmark").order_by("pk")
    return {(one.commit_id, one.series.benchmark.name): one for one in rows}


def with_outcomes(
    tags: list[tuple[Version, str, Commit]], machine: Machine | None, measured: set[int]
) -> list[Release]:
    """The releases that were measured, and those whose last run failed; others were never asked for."""
    failed = Run.objects.filter(commit__in=[commit for _, _, commit in tags], machine=machine, status=Status.FAILED)
    failures = {run.commit_id: run for run in failed.order_by("pk")}
    releases = []
    for version, tag, commit in tags:
        run = failures.get(commit.pk)
        if commit.pk in measured:
            releases.append(Release(tag, version, commit))
        elif run:
            releases.append(Release(tag, version, commit, run.error.partition("\n")[0] or "failed", run.pk))
    return releases


def choices_of(benchmarks: dict[str, Benchmark], asked: list[str]) -> list[BenchmarkChoice]:
    """The measured benchmarks, rungs of ladders last, in the order of their values.

    Unless some are asked for, the first few are shown, and rungs only where there is nothing else.
    """
    ordered = sorted(benchmarks, key=lambda name: (benchmarks[name].ladder, benchmarks[name].rung or 0, name))
    usual = [name for name in ordered if not benchmarks[name].ladder] or ordered
    shown = [name for name in ordered if name in asked] or usual[: MOST_LINES // 2]
    return [BenchmarkChoice(name, name in shown[:MOST_LINES]) for name in ordered]


def chart_of(metric: Metric, rows: list[ReleaseRow], names: list[str]) -> LineChart | None:
    lines = []
    for i, name in enumerate(names):
        cells = [(place, row.release.tag, row.cells[i]) for place, row in enumerate(rows)]
        lines.append((name, [line_value(metric, f"{tag}, {name}", at, one) if one else None for at, tag, one in cells]))
    missing = [(i, f"{row.release.tag}: {row.release.failure}") for i, row in enumerate(rows) if row.release.failure]
    return chart_over_names(lines, metric, [row.release.tag for row in rows], missing)
