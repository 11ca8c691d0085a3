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
from speedtrack.runs.models import Series


class ShownSensitivity(NamedTuple):
    """A series by its names, and how small a change it shows."""

    benchmark: str
    metric: Metric
    machine: str
    found: SeriesSensitivity


@dataclass(frozen=True)
class SensitivityPage:
    """``noisy``: the series that are too noisy to be useful, worst first; ``others``: all other series."""

    project: Project
    branch: Branch | None
    noisy: list[ShownSensitivity]
    others: list[ShownSensitivity]


def load(project: Project) -> SensitivityPage:
    branch = sensitivity.default_branch(project.pk)
    rows = shown_rows(branch, current_series(project)) if branch else []
    rows.sort(key=lambda one: (-((one.found.smallest or 0) / one.found.limit), one.benchmark, one.metric.name))
    noisy = [one for one in rows if one.found.too_noisy]
    return SensitivityPage(project, branch, noisy, [one for one in rows if not one.found.too_noisy])


def shown_rows(branch: Branch, series: QuerySet[Series]) -> list[ShownSensitivity]:
    columns = Series.objects.filter(pk__in=series.values("pk"))
    names = {pk: rest for pk, *rest in columns.values_list("pk", "benchmark__name", "metric", "machine__name")}
    found = []
    for one in sensitivity.newest(branch, series):
        benchmark, metric, machine = names[one.series_id]
        found.append(ShownSensitivity(benchmark, METRICS[metric], machine, one))
    return found


def current_series(project: Project) -> QuerySet[Series]:
    """The series of the newest environment, for each current benchmark, metric and machine."""
    newest = Benchmark.objects.filter(project=project).values("name").annotate(newest=Max("pk")).values("newest")
    series = Series.objects.filter(project=project, benchmark__in=newest)
    rows = series.order_by("benchmark", "metric", "machine", "-pk")
    return rows.distinct("benchmark", "metric", "machine")


def sensitivity_document(page: SensitivityPage) -> dict[str, Any]:
    return {
        "schema": "speedtrack.sensitivity/1",
        "project": page.project.slug,
        "branch": page.branch.name if page.branch else None,
        "series": [series_document(one) for one in (*page.noisy, *page.others)],
    }


def series_document(one: ShownSensitivity) -> dict[str, Any]:
    found = one.found
    known = found.between is not None
    return {
        "benchmark": one.benchmark,
        "metric": one.metric.name,
        "machine": one.machine,
        "points": found.points,
        "noise": {"between": found.between, "within": found.within, "modes": found.modes} if known else None,
        "smallest": found.smallest,
        "smallest_effect": found.smallest_effect,
        "within_commits": found.visible_within,
        "aa": {"runs": found.aa_runs, "different": found.aa_different},
        "too_noisy": found.too_noisy,
        "causes": [{"what": what, "remedy": remedy} for what, remedy in found.causes],
    }


def csv_rows(page: SensitivityPage) -> Iterator[list[Any]]:
    yield ["benchmark", "metric", "machine", "points", "smallest", "smallest_effect", "within_commits", "too_noisy"]
    for one in (*page.noisy, *page.others):
        found = one.found
        noise = (found.points, found.smallest, found.smallest_effect, found.visible_within, found.too_noisy)
        yield [one.benchmark, one.metric.name, one.machine, *noise]
