"""How small a change each series of a project shows, and which series are too noisy."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Max, QuerySet

from speedtrack.alerts.lines import sensitivity
from speedtrack.alerts.models import SeriesSensitivity
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Branch, Project
from speedtrack.reports.evidence import SensitivityDocument, SensitivityList
from speedtrack.runs.models import Series
from speedtrack.web.requests.formats import rows_of


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

    @property
    def sharpest(self) -> ShownSensitivity | None:
        """The series that shows the smallest change."""
        return next((row for row in (*self.others[::-1], *self.noisy[::-1]) if row.found.smallest), None)


def load(project: Project) -> SensitivityPage:
    branch = sensitivity.default_branch(project.pk)
    rows = shown_rows(branch, current_series(project)) if branch else []
    rows.sort(key=lambda row: (-(row.found.smallest or 0), row.benchmark, row.metric.name))
    noisy = [row for row in rows if row.found.too_noisy]
    return SensitivityPage(project, branch, noisy, [row for row in rows if not row.found.too_noisy])


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
    rows = series.order_by("benchmark", "metric", "machine", "-pk")
    return rows.distinct("benchmark", "metric", "machine")


def sensitivity_document(page: SensitivityPage) -> SensitivityList:
    rows = [
        SensitivityDocument.of(row.found, benchmark=row.benchmark, metric=row.metric.name, machine=row.machine)
        for row in (*page.noisy, *page.others)
    ]
    return SensitivityList(project=page.project.slug, branch=page.branch and page.branch.name, series=rows)


COLUMNS = ("benchmark", "metric", "machine", "points", "smallest", "smallest_effect", "visible_within", "is_too_noisy")


def csv_rows(document: SensitivityList) -> Iterator[list[Any]]:
    return rows_of(COLUMNS, document.series)
