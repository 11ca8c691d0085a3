"""A timeline in words: how much of it is measured, its newest value, its last change, where environments begin."""

from dataclasses import dataclass

from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.series import Drawn
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Series
from speedtrack.web.breaks import Break
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline.points import Rows, Step
from speedtrack.web.pages.timeline.view import View

PLACES = """
    SELECT m.series_id, array_agg(DISTINCT p.number ORDER BY p.number)
      FROM projects_position p
      JOIN runs_measurement m ON m.commit_id = p.commit_id
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
       AND m.series_id = ANY(%(series)s) AND m.accepted AND NOT m.paired
  GROUP BY m.series_id
"""


@dataclass(frozen=True)
class Extent:
    """How many commits of a view are measured, and which series has points where."""

    measured: int
    places: list[tuple[Series, list[int]]]


def extent(view: View) -> Extent:
    known = {s.pk: s for s in view.series}
    places = [(known[series_id], numbers) for series_id, numbers in view.ask(PLACES)]
    return Extent(len({number for _, numbers in places for number in numbers}), places)


@dataclass(frozen=True)
class NamedBreak:
    """A break with its commit."""

    at: Break
    commit: Commit


def named(view: View, found: list[Break]) -> list[NamedBreak]:
    """The breaks with their commits, newest first."""
    positions = view.branch.positions.filter(number__in=[b.position for b in found]).select_related("commit")
    commits = {p.number: p.commit for p in positions}
    return [NamedBreak(b, commits[b.position]) for b in reversed(found)]


@dataclass(frozen=True)
class Summary:
    """A timeline in words: for people who do not see the chart, and for those in a hurry."""

    commits: int
    measured: int
    newest: Drawn | None
    newest_step: Step | None
    newest_machine: str
    last_change: ChangePoint | None


def summary(timeline: Rows, measured: int) -> Summary:
    clean = [p for p in timeline.points if not p.flags]
    newest = clean[-1] if clean else None
    step = next((s for s in reversed(timeline.path) if newest and s.id == newest.commit_id), None)
    shown = [cp for cp in timeline.change_points if cp.status in changes.VISIBLE]
    machines = {s.pk: s.machine.name for s in timeline.view.series}
    machine = machines[newest.series_id] if newest else ""
    return Summary(timeline.view.commits, measured, newest, step, machine, shown[-1] if shown else None)
