"""What was measured: benchmarks, metrics, machines, series and their points, measurements with raw samples."""

from collections.abc import Iterable
from typing import Annotated, Any

from django.db import connection
from django.db.models import Min, Q, QuerySet
from django.http import Http404, HttpResponse
from ninja import Path, Query, Router, Schema
from pydantic import Field

from speedtrack.accounts import access
from speedtrack.accounts.access import Access
from speedtrack.alerts.lines import linecolumns, lines
from speedtrack.api.v1.serving.callers import ApiRequest, project_or_404
from speedtrack.api.v1.serving.paging import Page, Paging, key_of, next_page, page_of
from speedtrack.api.v1.serving.revisions import branch_given, commit_given, position_given
from speedtrack.benchmarks.metrics import LONGEST_KEY, METRICS
from speedtrack.benchmarks.models import LONGEST_NAME, Benchmark
from speedtrack.ground.postgres.plainrows import among
from speedtrack.projects.models import Branch, Position
from speedtrack.projects.positions import head_of
from speedtrack.reports.common import Id, read_columns
from speedtrack.reports.machines import MachineDetails, environments_seen, machine_details, machine_documents
from speedtrack.reports.measuring import (
    BenchmarkDocument,
    EnvironmentDocument,
    MachineDocument,
    MeasurementDetails,
    MeasurementDocument,
    MetricDocument,
    PointColumns,
    PointsDocument,
    SeriesDocument,
    TrialDocument,
)
from speedtrack.runs.models import Machine, Measurement, Series, Trial

router = Router(tags=["Measurements"])

MOST_POINTS = 10_000
# Of some commits of a branch, by position: their ids and dates.
NAMES = """
    SELECT array_agg(c.sha ORDER BY p.number),
           array_agg(to_char(c.committed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') ORDER BY p.number)
      FROM projects_position p
      JOIN projects_commit c ON c.id = p.commit_id
     WHERE p.branch_id = %s AND p.number = ANY (%s)
"""


@router.get("metrics", response=Page[MetricDocument], summary="List metrics")
def list_metrics(request: ApiRequest) -> Page[MetricDocument]:
    """All metrics, the most important first, with their units."""
    return Page(items=[MetricDocument.of(metric) for metric in METRICS.values()], next=None)


@router.get("machines", response=Page[MachineDocument], summary="List machines")
def list_machines(request: ApiRequest, paging: Query[Paging]) -> Page[MachineDocument]:
    """The machines that measure, also those out of service, by name."""
    rows = Machine.objects.defer("facts")
    reader = Access(request.auth)
    return page_of(request, rows, paging, lambda machines: machine_documents(machines, reader), by=["name"])


@router.get("machines/{name}", response=MachineDetails, summary="Read a machine")
def read_machine(request: ApiRequest, name: str) -> MachineDetails:
    return machine_details(machine_or_404(name), Access(request.auth))


@router.get("machines/{name}/environments", response=Page[EnvironmentDocument], summary="List environments")
def list_environments(request: ApiRequest, name: str, paging: Query[Paging]) -> Page[EnvironmentDocument]:
    """What was on a machine when it measured, the newest first."""
    rows = environments_seen(machine_or_404(name), Access(request.auth))
    return page_of(request, rows, paging, lambda environments: map(EnvironmentDocument.of, environments))


def machine_or_404(name: str) -> Machine:
    machine = Machine.objects.filter(name=name).first()
    if machine is None:
        raise Http404(f"There is no machine {name[:100]!r}.")
    return machine


@router.get("projects/{slug}/benchmarks", response=Page[BenchmarkDocument], summary="List benchmarks")
def list_benchmarks(
    request: ApiRequest,
    slug: str,
    paging: Query[Paging],
    name: Annotated[str | None, Field(max_length=LONGEST_NAME)] = None,
) -> Page[BenchmarkDocument]:
    """The benchmarks that a project was measured with, the newest first; each definition of a name is one."""
    rows = Benchmark.objects.filter(project=project_or_404(request, slug))
    if name:
        rows = rows.filter(name=name)
    return page_of(request, rows, paging, lambda benchmarks: map(BenchmarkDocument.of, benchmarks))


class SeriesFilters(Schema):
    """Filters of a list of series, or of a list whose rows belong to series."""

    benchmark: Annotated[str | None, Field(max_length=LONGEST_NAME, description="name of a benchmark")] = None
    metric: Annotated[str | None, Field(max_length=LONGEST_KEY, description="name of a metric")] = None
    machine: Annotated[str | None, Field(max_length=50, description="name of a machine")] = None
    environment: Annotated[str | None, Field(max_length=80, description="digest of an environment")] = None

    def of(self, before: str = "") -> Q:
        """The condition for rows. ``before``: the path from a row to its series, such as `series__`."""
        columns = {"benchmark__name": self.benchmark, "metric": self.metric, "machine__name": self.machine}
        columns["environment__digest"] = self.environment
        return Q(**{f"{before}{column}": value for column, value in columns.items() if value is not None})


def known_series() -> QuerySet[Series]:
    related = Series.objects.select_related("project", "benchmark", "machine", "environment")
    return related.defer("benchmark__definition", "benchmark__why", "machine__facts", "environment__facts")


@router.get("projects/{slug}/series", response=Page[SeriesDocument], summary="List series")
def list_series(
    request: ApiRequest, slug: str, paging: Query[Paging], filters: Query[SeriesFilters]
) -> Page[SeriesDocument]:
    """The lines of a project's charts, the newest first."""
    rows = Series.objects.filter(filters.of(), project=project_or_404(request, slug))
    columns = read_columns(SeriesDocument)
    return page_of(request, rows, paging, lambda series: map(SeriesDocument.of, series), columns=columns)


@router.get("series/{series_id}", response=SeriesDocument, summary="Read a series")
def read_series(request: ApiRequest, series_id: Path[Id]) -> SeriesDocument:
    return SeriesDocument.of(series_or_404(request, series_id))


def series_or_404(request: ApiRequest, series_id: int) -> Series:
    series = known_series().filter(pk=series_id, project__in=access.visible(request.auth)).first()
    if series is None:
        raise Http404(f"There is no series {series_id}, or its project is private.")
    return series


class PointsQuery(Schema):
    """Which points of a series."""

    branch: Annotated[str | None, Field(max_length=250, description="null: the default branch")] = None
    after: Annotated[str | None, Field(max_length=250, description="only those behind this commit, tag or branch")] = (
        None
    )
    until: Annotated[str | None, Field(max_length=250, description="only those up to this one")] = None
    last: Annotated[int | None, Field(ge=1, le=MOST_POINTS, description="only of so many newest commits")] = None
    limit: Annotated[int, Field(ge=1, le=MOST_POINTS, description="of how many commits at most, measured or not")] = (
        MOST_POINTS
    )
    cursor: Annotated[str, Field(max_length=1000, description="take it from `next`")] = ""


@router.get("series/{series_id}/points", response=PointsDocument, summary="Read the points of a series")
def read_points(request: ApiRequest, series_id: Path[Id], query: Query[PointsQuery]) -> HttpResponse:
    """The measured commits of a series along a branch, oldest first, in columns: 10,000 commits at once.

    It has an ETag: send it as If-None-Match, and the answer is 304 as long as nothing has changed.
    """
    series = series_or_404(request, series_id)
    branch = branch_given(series.project, query.branch)
    first, last = stretch_of(series, branch, query)
    end = min(last, first + query.limit - 1)
    columns, flags = points_between(series, branch, first, end)
    document = PointsDocument(
        series=series.pk,
        branch=branch.name,
        unit=METRICS[series.metric].unit,
        points=columns,
        flags=flags,
        next=next_page(request, end + 1) if end < last else None,
    )
    return HttpResponse(document.model_dump_json(), content_type="application/json")


def stretch_of(series: Series, branch: Branch, query: PointsQuery) -> tuple[int, int]:
    """The first and the last position that the query asks for."""
    last = position_given(branch, series.project, query.until, "until") if query.until else head_of(branch)
    if query.cursor:
        return max(key_of(query.cursor), 0), last
    first = last - query.last + 1 if query.last else first_measured(series, branch)
    if query.after:
        first = max(first, position_given(branch, series.project, query.after, "after") + 1)
    return max(first, 0), last


def first_measured(series: Series, branch: Branch) -> int:
    commits = lines.point_measurements().filter(series=series).values("commit")
    positions = Position.objects.filter(branch=branch, commit__in=commits)
    return int(positions.aggregate(first=Min("number"))["first"] or 0)


def points_between(series: Series, branch: Branch, first: int, last: int) -> tuple[PointColumns, dict[str, list[str]]]:
    lines_of_series = linecolumns.columns([series.pk], branch, first, last) if first <= last else []
    if not lines_of_series:
        return PointColumns(position=[], sha=[], committed_at=[], value=[], low=[], high=[], n=[]), {}
    (line,) = lines_of_series
    positions = (line.at + first).tolist()
    with connection.cursor() as cursor:
        cursor.execute(NAMES, [branch.pk, positions])
        shas, times = cursor.fetchone()
    columns = PointColumns(
        position=positions,
        sha=shas,
        committed_at=times,
        value=line.value.tolist(),
        low=line.low.tolist(),
        high=line.high.tolist(),
        n=line.n.tolist(),
    )
    return columns, {str(first + at): flags for at, flags in line.flags.items()}


class MeasurementFilters(SeriesFilters):
    """Which measurements."""

    series: Annotated[int | None, Field(ge=1, le=2**31 - 1, description="of this series only")] = None
    commit: Annotated[str | None, Field(max_length=250, description="of this commit, tag or branch only")] = None
    run: Annotated[int | None, Field(ge=1, le=2**63 - 1, description="of this run only")] = None
    paired: Annotated[bool | None, Field(description="only from paired runs, or from others")] = None


def known_measurements() -> QuerySet[Measurement]:
    return Measurement.objects.select_related(
        "samples", "attempt", "commit", "series__project", "series__benchmark", "series__machine"
    ).defer("series__benchmark__definition", "series__benchmark__why", "series__machine__facts")


@router.get("projects/{slug}/measurements", response=Page[MeasurementDocument], summary="List measurements")
def list_measurements(
    request: ApiRequest, slug: str, paging: Query[Paging], filters: Query[MeasurementFilters]
) -> Page[MeasurementDocument]:
    """Measurements with their raw samples: those of the newest run first, and of a run the newest first."""
    project = project_or_404(request, slug)
    own: dict[str, Any] = {"series": filters.series, "attempt__run": filters.run, "paired": filters.paired}
    if filters.commit:
        own["commit"] = commit_given(project, filters.commit, parameter="commit")
    rows = Measurement.objects.filter(**{column: value for column, value in own.items() if value is not None})
    if filters.benchmark or filters.machine or filters.environment or filters.series:
        # By the ids of the series, so that an index finds their measurements.
        series = Series.objects.filter(filters.of(), project=project).values_list("pk", flat=True)
        rows = rows.filter(among("series_id", series))
        within = []
    else:
        # A range, so that the index of a project's runs is read from its end on, until the page is full. Nobody claimed
        # runs without attempts.
        of_project = {"project__gte": project.pk, "project__lte": project.pk, "attempt__gt": 0}
        rows = rows.filter(filters.of("series__"), **{f"attempt__run__{key}": of_project[key] for key in of_project})
        within = ["attempt__run__project_id"]
    columns = read_columns(MeasurementDocument, "samples__values", "samples__flagged")
    return page_of(
        request,
        rows,
        paging,
        lambda page: map(MeasurementDocument.of, page),
        by=["-attempt__run_id", "-pk"],
        columns=columns,
        within=within,
    )


@router.get("measurements/{measurement_id}", response=MeasurementDetails, summary="Read a measurement with its trials")
def read_measurement(request: ApiRequest, measurement_id: Path[Id]) -> MeasurementDetails:
    visible = access.visible(request.auth)
    rows = known_measurements().select_related("origin", "attempt__run")
    measurement = rows.filter(pk=measurement_id, series__project__in=visible).first()
    if measurement is None:
        raise Http404(f"There is no measurement {measurement_id}, or its project is private.")
    return MeasurementDetails.of(measurement, trials=list(map(TrialDocument.of, trials_of(measurement))))


def trials_of(measurement: Measurement) -> Iterable[Trial]:
    result = {
        "result__attempt": measurement.attempt_id,
        "result__benchmark": measurement.series.benchmark_id,
        "result__side": measurement.side,
    }
    return Trial.objects.filter(**result).order_by("number")
