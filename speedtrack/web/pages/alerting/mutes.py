"""The mutes of a project: those in force, those that have ended, and what can be muted."""

from dataclasses import dataclass

from django.http import QueryDict

from speedtrack.alerts.models import Mute
from speedtrack.alerts.triage import muting
from speedtrack.benchmarks.metrics import Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Project
from speedtrack.reports.readings.choices import machines_of
from speedtrack.runs.models import Machine
from speedtrack.web.addresses import metric_given
from speedtrack.web.scope import watched_metrics

DAYS = 14  # the default duration of a mute
ENDED = 20  # the newest mutes that have ended


@dataclass(frozen=True)
class MutesPage:
    """``preset``: benchmark, metric and machine that the form begins with."""

    project: Project
    now: list[Mute]
    ended: list[Mute]
    benchmarks: list[str]
    metrics: list[Metric]
    machines: list[Machine]
    preset: tuple[str, str, str]
    days: int = DAYS


def load(project: Project, query: QueryDict) -> MutesPage:
    now = list(muting.mutes_in_force(project))
    ended_mutes = project.mutes.exclude(pk__in=[mute.pk for mute in now]).select_related("machine", "who", "ended_by")
    return MutesPage(
        project,
        now,
        list(ended_mutes.order_by("-id")[:ENDED]),
        sorted(set(Benchmark.objects.filter(project=project).values_list("name", flat=True))),
        watched_metrics(project),
        machines_of(project),
        (query.get("benchmark", ""), metric_given(query), query.get("machine", "")),
    )
