"""A timeline as rows: the table that its page loads when it is opened, and CSV."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from speedtrack.alerts import lines
from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.runs.models import Series
from speedtrack.text import csv_cell
from speedtrack.web.drawing.gaps import UNMEASURED, Gap
from speedtrack.web.pages.timeline.breaks import Break, find_breaks
from speedtrack.web.pages.timeline.document import short_digest
from speedtrack.web.pages.timeline.points import (
    COMMITS,
    Timeline,
    TimelineCommit,
    gaps_in,
    load_timeline,
    shown_changes,
)
from speedtrack.web.pages.timeline.view import View

MOST_COMMITS = 200  # of the table: the newest


@dataclass(frozen=True)
class TableRow:
    commit: TimelineCommit
    point: LinePoint | None
    series: Series | None
    gap: Gap
    change: ChangePoint | None
    new_environment: str = ""  #: what changed on the machine just before this commit


@dataclass(frozen=True)
class TimelineTable:
    view: View
    rows: list[TableRow]
    most: int  #: commits that it shows


def load(view: View) -> TimelineTable:
    """The newest commits of a view, newest first."""
    timeline = load_timeline(view.newest(MOST_COMMITS))
    series = {s.pk: s for s in view.series}
    places: dict[int, list[int]] = defaultdict(list)
    for point in timeline.points:
        places[point.series_id].append(point.position)
    breaks = find_breaks((series[pk], numbers) for pk, numbers in places.items())
    return TimelineTable(view, list(table_rows(timeline, breaks)), MOST_COMMITS)


def table_rows(timeline: Timeline, breaks: Sequence[Break] = ()) -> Iterator[TableRow]:
    """The commits, newest first: a row for each point, or one that says why there is none."""
    changed = {(one.position, one.machine): one.what for one in breaks}
    points: dict[int, list[LinePoint]] = defaultdict(list)
    for point in timeline.points:
        points[point.commit_id].append(point)
    marks = {(cp.commit_id, cp.series_id): cp for cp in timeline.change_points}
    series = {s.pk: s for s in timeline.view.series}
    for commit in reversed(timeline.commits):
        for p in points.get(commit.id, []):
            one = series[p.series_id]
            what = changed.get((commit.number, one.machine.name), "")
            yield TableRow(commit, p, one, UNMEASURED, marks.get((commit.id, p.series_id)), what)
        if commit.id not in points:
            yield TableRow(commit, None, None, timeline.gaps.get(commit.number, UNMEASURED), None)


HEADER = [
    "position",
    "sha",
    "committed_at",
    "author",
    "subject",
    "machine",
    "environment",
    "value",
    "low",
    "high",
    "n",
    "unit",
    "flags",
    "state",
    "change",
]


def csv_rows(view: View) -> Iterator[list[Any]]:
    """A header and one row per point or gap, oldest first. Everything is read before the first row."""
    commits = [TimelineCommit._make(row) for row in view.fetch(COMMITS)]
    points, gaps, unit = csv_points(view), gaps_in(view), view.scope.metric.unit
    found = (
        [*commit_cells(commit), *cells]
        for commit in commits
        for cells in points.get(commit.number) or [gap_cells(gaps.get(commit.number, UNMEASURED), unit)]
    )
    return chain([HEADER], found)


def commit_cells(commit: TimelineCommit) -> list[Any]:
    return [commit.number, commit.sha, commit.time.isoformat(), csv_cell(commit.author), csv_cell(commit.subject)]


def gap_cells(gap: Gap, unit: str) -> list[Any]:
    return [*[""] * 6, unit, "", gap.state, ""]


def csv_points(view: View) -> dict[int, list[list[Any]]]:
    """By position: of each point the columns behind those of its commit."""
    series, unit = {s.pk: s for s in view.series}, view.scope.metric.unit
    marks = {(one.place, one.series): one.status for one in shown_changes(view, every=True)}
    found: dict[int, list[list[Any]]] = defaultdict(list)
    for line in lines.columns(series, view.branch, view.first, view.last):
        of = series[line.series_id]
        names = [of.machine.name, short_digest(of.environment.digest)]
        columns = (column.tolist() for column in (line.at, line.value, line.low, line.high, line.n))
        for at, *summary in zip(*columns, strict=True):
            number = view.first + at
            flags = " ".join(line.flags.get(at, ()))
            change = marks.get((number, line.series_id), "")
            found[number].append([*names, *summary, unit, flags, "measured", change])
    return found
