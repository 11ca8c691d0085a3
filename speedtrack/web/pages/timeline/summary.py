"""A timeline in words: how many commits are measured, the newest value, the last change, new environments."""

from collections import Counter
from dataclasses import dataclass

from speedtrack.alerts import lines
from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Series
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline.breaks import Break, find_breaks
from speedtrack.web.pages.timeline.points import Timeline, TimelineCommit
from speedtrack.web.pages.timeline.view import View


@dataclass(frozen=True)
class Coverage:
    """How many commits of a view are measured, and the places of the points of machines with several series."""

    measured: int
    places: list[tuple[Series, list[int]]]


def coverage_of(view: View) -> Coverage:
    known = {s.pk: s for s in view.series}
    lines_of = Counter(s.machine_id for s in view.series)
    several = [pk for pk, s in known.items() if lines_of[s.machine_id] > 1]  # only there a line can end
    found = lines.positions(several, view.branch, view.first, view.last) if several else {}
    measured = lines.measured_commits(known, view.branch, view.first, view.last)
    return Coverage(measured, [(known[series_id], numbers) for series_id, numbers in found.items()])


@dataclass(frozen=True)
class PlacedBreak:
    """A break with its commit."""

    at: Break
    commit: Commit


def breaks_of(view: View, coverage: Coverage) -> list[PlacedBreak]:
    """The breaks with their commits, newest first."""
    found = find_breaks(coverage.places)
    positions = view.branch.positions.filter(number__in=[b.position for b in found]).select_related("commit")
    commits = {p.number: p.commit for p in positions}
    return [PlacedBreak(b, commits[b.position]) for b in reversed(found)]


@dataclass(frozen=True)
class Summary:
    """A timeline in words, for people who do not see the chart or do not study it."""

    commits: int
    measured: int
    newest: LinePoint | None
    newest_commit: TimelineCommit | None
    newest_machine: str
    last_change: ChangePoint | None


def summary_of(timeline: Timeline, measured: int) -> Summary:
    clean = [p for p in timeline.points if not p.flags]
    newest = clean[-1] if clean else None
    commit = next((c for c in reversed(timeline.commits) if newest and c.id == newest.commit_id), None)
    visible = [cp for cp in timeline.change_points if cp.status in changes.VISIBLE]
    machines = {s.pk: s.machine.name for s in timeline.view.series}
    machine = machines[newest.series_id] if newest else ""
    return Summary(timeline.view.commits, measured, newest, commit, machine, visible[-1] if visible else None)
