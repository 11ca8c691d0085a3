"""How small a change each series of a project shows, and which series are too noisy."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Case, Count, F, Max, QuerySet, Value, When, Window
from django.db.models.functions import Coalesce, Collate, Greatest

from speedtrack.alerts.lines import sensitivity
from speedtrack.alerts.models import SeriesSensitivity
from speedtrack.alerts.models.sensitivity import TIMES, TOO_NOISY
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Branch, Project
from speedtrack.reports.evidence import SensitivityDocument, SensitivityList
from speedtrack.runs.models import Series
from speedtrack.web.pages.paging import PageSpan
from speedtrack.web.requests.formats import rows_of

SHOWN = 200  # series of a page
NO_SERIES = PageSpan(0, 0, SHOWN)


class ShownSensitivity(NamedTuple):
    """A series by its names, and how small a change it shows."""

    benchmark: str
    metric: Metric
    machine: str
    found: SeriesSensitivity


@dataclass(frozen=True)
class SensitivityPage:
    """``noisy``: the series that are too noisy to be useful; ``others``: all other series. The least sharp first."""

    project: Project
    branch: Branch | None
    noisy: list[ShownSensitivity]
    others: list[ShownSensitivity]


@dataclass(frozen=True)
class SensitivityPart(SensitivityPage):
    """The part of the series that one page shows. ``sharpest``: of all, the series that shows the smallest change."""

    sharpest: ShownSensitivity | None = None
    span: PageSpan = NO_SERIES


def load(project: Project) -> SensitivityPage:
    branch = sensitivity.default_branch(project.pk)
    rows = shown_rows(branch, current_series(project)) if branch else []
    rows.sort(key=lambda row: (-(row.found.smallest or 0), row.benchmark, row.metric.name, row.machine))
    noisy = [row for row in rows if row.found.too_noisy]
    return SensitivityPage(project, branch, noisy, [row for row in rows if not row.found.too_noisy])


def load_part(project: Project, page: int) -> SensitivityPart:
    """The series of a page, counted from 1, in the same order."""
    branch = sensitivity.default_branch(project.pk)
    if branch is None:
        return SensitivityPart(project, branch, [], [])
    ordered = in_order(sensitivity.newest(branch, current_series(project)))
    begin = (page - 1) * SHOWN
    rows = list(ordered.annotate(total=Window(Count("pk")))[begin : begin + SHOWN])
    if not rows and begin:
        return load_part(project, 1)
    sharpest = ordered.filter(size__gt=0).reverse().first()
    page_rows = [shown_row(row) for row in rows]
    return SensitivityPart(
        project,
        branch,
        [row for row in page_rows if row.found.too_noisy],
        [row for row in page_rows if not row.found.too_noisy],
        shown_row(sharpest) if sharpest else None,
        PageSpan(begin, rows[0].total if rows else 0, SHOWN),
    )


def in_order(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Those too noisy, then the others; each the least sharp first."""
    size = Coalesce(Greatest("visible", "paired"), 0.0)
    limit = Greatest(Value(TOO_NOISY), TIMES * F("smallest_effect"))
    names = (Collate(f"series__{name}", "C") for name in ("benchmark__name", "metric", "machine__name"))
    related = rows.select_related("series__benchmark", "series__machine")
    with_sizes = related.defer("series__benchmark__definition", "series__machine__facts").alias(size=size)
    ordered: QuerySet[Any] = with_sizes.order_by(
        Case(When(size__gt=limit, then=0), default=1), F("size").desc(), *names
    )
    return ordered


def shown_row(row: SeriesSensitivity) -> ShownSensitivity:
    series = row.series
    return ShownSensitivity(series.benchmark.name, row.metric, series.machine.name, row)


def shown_rows(branch: Branch, series: QuerySet[Series]) -> list[ShownSensitivity]:
    columns = Series.objects.filter(pk__in=series.values("pk"))
    names = {pk: values for pk, *values in columns.values_list("pk", "benchmark__name", "metric", "machine__name")}
    rows = []
    for estimate in sensitivity.newest(branch, series):
        benchmark, metric, machine = names[estimate.series_id]
        rows.append(ShownSensitivity(benchmark, METRICS[metric], machine, estimate))
    return rows


def current_series(project: Project) -> QuerySet[Series]:
    """The series of the newest environment, for each current benchmark, metric and machine."""
    newest = Benchmark.objects.filter(project=project).values("name").annotate(newest=Max("pk")).values("newest")
    series = Series.objects.filter(project=project, benchmark__in=newest)
    of_lines = series.order_by().values("benchmark", "metric", "machine").annotate(last=Max("pk"))
    return Series.objects.filter(pk__in=of_lines.values("last"))


def sensitivity_document(page: SensitivityPage) -> SensitivityList:
    rows = [
        SensitivityDocument.of(row.found, benchmark=row.benchmark, metric=row.metric.name, machine=row.machine)
        for row in (*page.noisy, *page.others)
    ]
    return SensitivityList(project=page.project.slug, branch=page.branch and page.branch.name, series=rows)


COLUMNS = ("benchmark", "metric", "machine", "points", "smallest", "smallest_effect", "visible_within", "is_too_noisy")


def csv_rows(document: SensitivityList) -> Iterator[list[Any]]:
    return rows_of(COLUMNS, document.series)
