"""What the page of a timeline shows besides its chart and its table of values, which are loaded separately."""

from dataclasses import dataclass

from django.contrib.postgres.expressions import ArraySubquery

from speedtrack.alerts.models import ChangePoint, Mute, NoiseFloor, SeriesSensitivity
from speedtrack.benchmarks.models import Benchmark
from speedtrack.runs.models import ReferenceRate
from speedtrack.web.pages.timeline import insight, workload
from speedtrack.web.pages.timeline.insight import WhyAtCommit
from speedtrack.web.pages.timeline.points import newest_changes
from speedtrack.web.pages.timeline.summary import Newest, last_change, newest_of
from speedtrack.web.pages.timeline.view import View, definitions_of


@dataclass(frozen=True)
class TimelinePage:
    view: View
    benchmark: Benchmark  #: its newest definition
    newest: Newest | None
    last_change: ChangePoint | None
    change_points: list[ChangePoint]  #: the newest of the view, newest first
    benchmarks: list[str]
    workload: str
    references: list[tuple[str, str, ReferenceRate]]
    floors: list[NoiseFloor]
    sensitivity: list[SeriesSensitivity]
    mutes: list[tuple[str, Mute]]
    why: list[WhyAtCommit]


def load(view: View, why_sha: str) -> TimelinePage:
    """The page. ``why_sha``: the commit for which it explains why it was suspected or not; empty for none."""
    change_points = newest_changes(view)
    names = Benchmark.objects.filter(project=view.scope.project).order_by("name").values("name").distinct()
    benchmark = definitions_of(view.scope, view.benchmark).annotate(names=ArraySubquery(names)).latest("pk")
    return TimelinePage(
        view=view,
        benchmark=benchmark,
        newest=newest_of(view),
        last_change=last_change(change_points),
        change_points=change_points,
        benchmarks=benchmark.names,
        workload=workload.workload_text(benchmark),
        references=workload.reference_rates(benchmark, view.machine_names),
        floors=insight.floors_of(view),
        sensitivity=insight.sensitivity_of(view),
        mutes=insight.mutes_in(view),
        why=insight.why_of(view, why_sha),
    )
