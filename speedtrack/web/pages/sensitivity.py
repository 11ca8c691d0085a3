"""How small a change each series of a project shows, and which series are too noisy."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Max

from speedtrack.alerts import sensitivity
from speedtrack.alerts.sensitivity import SeriesSensitivity
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import Series
from speedtrack.web.scope import named_or_default


@dataclass(frozen=True)
class SensitivityPage:
    """``noisy``: the series that are too noisy to be useful, worst first; ``others``: all other series."""

    project: Project
    branch: Branch | None
    noisy: list[SeriesSensitivity]
    others: list[SeriesSensitivity]


def load(project: Project) -> SensitivityPage:
    branch = named_or_default("branch", None, project.branches.filter(deleted_at=None), project.default_branch)
    found = sensitivity.sensitivities(branch, current_series(project)) if branch else []
    found.sort(key=lambda one: (-((one.smallest or 0) / one.limit), one.series.benchmark.name, one.series.metric))
    return SensitivityPage(
        project, branch, [one for one in found if one.too_noisy], [one for one in found if not one.too_noisy]
    )


def current_series(project: Project) -> list[Series]:
    """The series of the newest environment, for each current benchmark, metric and machine."""
    newest = Benchmark.objects.filter(project=project).values("name").annotate(newest=Max("pk")).values("newest")
    series = Series.objects.filter(project=project, benchmark__in=newest)
    rows = series.select_related("benchmark", "machine").order_by("benchmark", "metric", "machine", "-pk")
    return list(rows.distinct("benchmark", "metric", "machine"))


def sensitivity_document(page: SensitivityPage) -> dict[str, Any]:
    return {
        "schema": "speedtrack.sensitivity/1",
        "project": page.project.slug,
        "branch": page.branch.name if page.branch else None,
        "series": [series_document(one) for one in (*page.noisy, *page.others)],
    }


def series_document(one: SeriesSensitivity) -> dict[str, Any]:
    return {
        "benchmark": one.series.benchmark.name,
        "metric": one.series.metric,
        "machine": one.series.machine.name,
        "points": one.points,
        "noise": one.noise and {"between": one.noise.between, "within": one.noise.within, "modes": one.noise.modes},
        "smallest": one.smallest,
        "smallest_effect": one.smallest_effect,
        "within_commits": one.sight.after if one.sight else None,
        "aa": {"runs": one.aa_runs, "different": one.aa_different},
        "too_noisy": one.too_noisy,
        "causes": [cause._asdict() for cause in one.causes],
    }
