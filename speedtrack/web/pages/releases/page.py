"""The page of releases: tables, totals, a metric over the versions, and what failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import QueryDict

from speedtrack.benchmarks.metrics import Metric
from speedtrack.projects.models import Project
from speedtrack.reports.readings.choices import machines_of, named_or_default
from speedtrack.runs.models import Machine
from speedtrack.web.addresses import metric_given
from speedtrack.web.drawing.charts.linecharts import MOST_LINES, LineChart, chart_over_names, measured_value
from speedtrack.web.pages.releases.points import (
    DrawnValue,
    MeasuredSeries,
    SeriesOfPage,
    measured_series,
    points_of_page,
)
from speedtrack.web.pages.releases.tables import (
    BenchmarkTable,
    ReleasesToCompare,
    ReleaseTotal,
    tables_and_totals,
    tables_of,
)
from speedtrack.web.pages.releases.versions import (
    MOST_COUNTED,
    Release,
    Stretch,
    stretch_of,
    tagged_commits,
    whole_of,
    with_outcomes,
)
from speedtrack.web.scope import metrics_of, project_or_404, usual_metric


@dataclass(frozen=True)
class BenchmarkChoice:
    """``counted``: the totals include it."""

    name: str
    chosen: bool
    counted: bool


@dataclass(frozen=True)
class ReleasesPage:
    """``chart``: of all releases; ``tables``, ``totals``: of those of the ``stretch``.

    ``has_totals``: else they are of so many benchmarks that they are made only where the address asks for them.
    """

    project: Project
    machines: list[Machine]
    machine: Machine | None
    metrics: list[Metric]
    metric: Metric
    choices: list[BenchmarkChoice]
    stretch: Stretch
    tables: list[BenchmarkTable]
    totals: list[ReleaseTotal]
    has_totals: bool
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

    ``everything``: the chosen benchmarks with all releases at once, without totals and chart.
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
    chosen_names, counted_names = (
        [choice.name for choice in choices if getattr(choice, kind)] for kind in ("chosen", "counted")
    )
    has_totals = not everything and (len(counted_names) <= MOST_COUNTED or "totals" in query)
    compared_names = sorted({*chosen_names, *counted_names}) if has_totals else chosen_names
    used_names = {*chosen_names, *counted_names}
    own = {entry.pk: entry for entry in series if entry.benchmark in used_names}
    releases = with_outcomes(tags, machine, list(own))
    stretch = whole_of(releases) if everything else stretch_of(releases, query.get("before", ""), len(compared_names))
    names, drawn_names = set(compared_names), set(chosen_names)
    compared_series = {pk: entry for pk, entry in own.items() if entry.benchmark in names}
    drawn_series = {pk: entry.benchmark for pk, entry in own.items() if entry.benchmark in drawn_names}
    of_page = SeriesOfPage(machine.pk if machine else 0, metric, compared_series, drawn_series)
    points = points_of_page(of_page, stretch)
    to_compare = ReleasesToCompare(compared_names, stretch, compared_series, points.compared_points)
    tables, totals = (
        tables_and_totals(project, metric, chosen_names, counted_names, to_compare)
        if has_totals
        else (tables_of(to_compare), [])
    )
    return ReleasesPage(
        project,
        machines,
        machine,
        metrics,
        metric,
        choices,
        stretch,
        tables,
        totals,
        has_totals,
        None if everything else chart_of(metric, releases, chosen_names, points.all_points.drawn(drawn_series)),
    )


def choices_of(series: Sequence[MeasuredSeries], requested_names: list[str]) -> list[BenchmarkChoice]:
    """The measured benchmarks, rungs of ladders last, in the order of their values.

    By default the first few benchmarks are shown. The rungs of ladders are shown and counted only if there are no other
    benchmarks.
    """
    benchmarks = {entry.benchmark: entry for entry in series}
    ordered = sorted(benchmarks, key=lambda name: (benchmarks[name].ladder, benchmarks[name].rung or 0, name))
    usual = [name for name in ordered if not benchmarks[name].ladder] or ordered
    requested, counted_names = set(requested_names), set(usual)
    visible_names = [name for name in ordered if name in requested] or usual[: MOST_LINES // 2]
    chosen_names = set(visible_names[:MOST_LINES])
    return [BenchmarkChoice(name, name in chosen_names, name in counted_names) for name in ordered]


def chart_of(
    metric: Metric, releases: Sequence[Release], names: Sequence[str], values: Mapping[tuple[str, int], DrawnValue]
) -> LineChart | None:
    """The values of all releases under each of these benchmarks. ``values``: by benchmark and commit."""
    chart_lines = [
        (
            name,
            [
                measured_value(metric, f"{release.tag}, {name}", at, value) if value else None
                for at, release in enumerate(releases)
                for value in (values.get((name, release.commit.pk)),)
            ],
        )
        for name in names
    ]
    missing = [(i, f"{release.tag}: {release.failure}") for i, release in enumerate(releases) if release.failure]
    return chart_over_names(chart_lines, metric, [release.tag for release in releases], missing)
