"""What the page of a timeline shows besides its chart and its table of values, which are loaded separately."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.contrib.postgres.expressions import ArraySubquery

from speedtrack.alerts.lines import lines, spreads
from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.alerts.models import ChangePoint, Mute, NoiseFloor, SeriesSensitivity
from speedtrack.alerts.triage import muting, reasons
from speedtrack.alerts.triage.reasons import Why
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects import positions
from speedtrack.runs.models import ReferenceRate
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline import workload
from speedtrack.web.pages.timeline.overlay import rows_of
from speedtrack.web.pages.timeline.points import newest_changes
from speedtrack.web.pages.timeline.view import View, definitions_of, position_of

LATELY = 200  # commits in which the newest value is looked for
# From the end of the branch, each commit by each series, until one was measured.
NEWEST = lines.sql(f"""
    SELECT s.id, p.number, c.sha, c.committed_at
      FROM {positions.in_blocks("%(branch)s", "%(first)s", "%(last)s", "DESC")} p
CROSS JOIN unnest(%(series)s::bigint[]) AS s (id)
CROSS JOIN LATERAL (
        SELECT FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = p.commit_id AND IS_CLEAN_POINT LIMIT 1) measured
      JOIN projects_commit c ON c.id = p.commit_id
  ORDER BY p.block DESC, p.number DESC, s.id DESC LIMIT 1
""")  # noqa: S608 - constants


@dataclass(frozen=True)
class Newest:
    """The newest reliable point of a view."""

    point: LinePoint
    sha: str
    committed_at: datetime
    machine: str


@dataclass(frozen=True)
class WhyAtCommit:
    """Why a machine's newest series was suspected, or not, at a commit that somebody asked about."""

    machine: str
    sha: str
    why: Why | None


class Sight(NamedTuple):
    """How small a change a line shows, and the noise floor of its machine."""

    sensitivity: SeriesSensitivity
    floor: NoiseFloor | None


@dataclass(frozen=True)
class TimelinePage:
    view: View
    benchmark: Benchmark  #: its newest definition
    newest: Newest | None
    last_change: ChangePoint | None  #: the newest visible one
    change_points: list[ChangePoint]  #: the newest of the view, newest first
    benchmarks: list[str]
    workload: str
    references: list[tuple[str, str, ReferenceRate]]
    sight: list[Sight]
    floors: list[NoiseFloor]  #: of the other machines
    mutes: list[tuple[str, Mute]]
    why: list[WhyAtCommit]


def load(view: View, why_sha: str) -> TimelinePage:
    """The page. ``why_sha``: the commit for which it explains why it was suspected or not; empty for none."""
    change_points, floors = newest_changes(view), floors_of(view)
    sight = sight_of(view, floors)
    names = Benchmark.objects.filter(project=view.scope.project).order_by("name").values("name").distinct()
    benchmark = definitions_of(view.scope, view.benchmark).annotate(names=ArraySubquery(names)).latest("pk")
    return TimelinePage(
        view=view,
        benchmark=benchmark,
        newest=newest_of(view),
        last_change=next((cp for cp in change_points if cp.status in changes.VISIBLE), None),
        change_points=change_points,
        benchmarks=benchmark.names,
        workload=workload.workload_text(benchmark),
        references=workload.reference_rates(benchmark, view.machine_names),
        sight=sight,
        floors=[
            floor for floor in floors if floor.pk not in {seen_line.floor.pk for seen_line in sight if seen_line.floor}
        ],
        mutes=mutes_in(view),
        why=why_of(view, why_sha),
    )


def newest_of(view: View) -> Newest | None:
    """The newest reliable point; if several series measured its commit, that of the last series."""
    lately, ids = view.newest(LATELY), [s.pk for s in view.series]
    rows = rows_of(NEWEST, series=ids, branch=view.branch.pk, first=lately.first, last=lately.last)
    if not rows:
        return None
    ((series, number, sha, committed_at),) = rows
    (point,) = lines.points([series], view.branch, number, number)
    return Newest(point, sha, committed_at, next(s.machine.name for s in view.series if s.pk == series))


def sight_of(view: View, floors: Sequence[NoiseFloor]) -> list[Sight]:
    """What the line on each machine shows, the sharpest first."""
    by_machine = {floor.series.machine_id: floor for floor in floors}
    rows = sorted((row for row in sensitivity_of(view) if row.smallest), key=lambda row: row.smallest or 0.0)
    return [Sight(row, by_machine.get(row.series.machine_id)) for row in rows]


def floors_of(view: View) -> list[NoiseFloor]:
    """The noise floor of each machine of the view, from the newest A/A run of this benchmark and metric."""
    floors = sorted(spreads.newest_floors(s.pk for s in view.series).values(), key=lambda floor: floor.pk)
    return list({floor.series.machine_id: floor for floor in floors}.values())


def sensitivity_of(view: View) -> list[SeriesSensitivity]:
    """How small a change the newest series of each machine shows."""
    newest = {s.machine_id: s for s in view.series}
    by_series = SeriesSensitivity.objects.in_bulk([s.pk for s in newest.values()])
    for series in newest.values():
        if series.pk in by_series:
            by_series[series.pk].series = series
    return list(by_series.values())


def why_of(view: View, sha: str) -> list[WhyAtCommit]:
    if not sha:
        return []
    number = position_of(view.branch, sha)
    newest = {s.machine_id: s for s in view.series}
    return [WhyAtCommit(s.machine.name, sha, reasons.why(s, view.branch, number)) for s in newest.values()]


def mutes_in(view: View) -> list[tuple[str, Mute]]:
    """(machine, mute) for each machine of the view whose series is muted now."""
    mutes = list(muting.mutes_in_force(view.scope.project))
    by_machine = {s.machine.name: mute for s in view.series for mute in mutes if mute.covers(s)}
    return sorted(by_machine.items())
