"""All that the page of a timeline shows."""

from dataclasses import dataclass

from speedtrack.alerts.models import ChangePoint, Mute, NoiseFloor
from speedtrack.alerts.sensitivity import SeriesSensitivity
from speedtrack.benchmarks.metrics import Metric
from speedtrack.runs.models import ReferenceRate
from speedtrack.web.pages.timeline import insight, workload
from speedtrack.web.pages.timeline.insight import WhyAtCommit
from speedtrack.web.pages.timeline.points import NEWEST_CHANGES, load_timeline
from speedtrack.web.pages.timeline.summary import PlacedBreak, Summary, breaks_of, coverage_of, summary_of
from speedtrack.web.pages.timeline.table import TableRow, table_rows
from speedtrack.web.pages.timeline.view import View, benchmark_names, metrics_of

TABLE_COMMITS = 200  # the newest of the view


@dataclass(frozen=True)
class TimelinePage:
    view: View
    summary: Summary
    rows: list[TableRow]
    row_limit: int
    change_points: list[ChangePoint]  #: the newest of the view, newest first
    breaks: list[PlacedBreak]
    benchmarks: list[str]
    metrics: list[Metric]
    workload: str
    references: list[tuple[str, str, ReferenceRate]]
    floors: list[NoiseFloor]
    sensitivity: list[SeriesSensitivity]
    mutes: list[tuple[str, Mute]]
    why: list[WhyAtCommit]


def load(view: View, why_sha: str) -> TimelinePage:
    """``why_sha``: the commit for which the page explains why it was suspected or not; empty: none."""
    newest = load_timeline(view, TABLE_COMMITS)
    coverage = coverage_of(view)
    breaks = breaks_of(view, coverage)
    return TimelinePage(
        view=view,
        summary=summary_of(newest, coverage.measured),
        rows=list(table_rows(newest, breaks)),
        row_limit=TABLE_COMMITS,
        change_points=list(reversed(newest.change_points))[:NEWEST_CHANGES],
        breaks=breaks,
        benchmarks=benchmark_names(view.scope),
        metrics=metrics_of(view),
        workload=workload.workload_text(view.benchmark),
        references=workload.reference_rates(view.benchmark, view.machine_names),
        floors=insight.floors_of(view),
        sensitivity=insight.sensitivity_of(view),
        mutes=insight.mutes_in(view),
        why=insight.why_of(view, why_sha),
    )
