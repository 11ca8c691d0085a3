"""A timeline as rows: the table that its page loads when it is opened, and CSV."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np

from speedtrack.alerts.lines.linecolumns import LineColumns
from speedtrack.ground.texts.text import csv_cell, csv_cells
from speedtrack.web.drawing.charts.gaps import UNMEASURED, Gap
from speedtrack.web.pages.timeline.breaks import find_breaks
from speedtrack.web.pages.timeline.document import short_digest
from speedtrack.web.pages.timeline.overlay import Overlay, Path, ShownLine
from speedtrack.web.pages.timeline.points import (
    COMMITS,
    Gaps,
    ShownChange,
    TimelineCommit,
    changes_on,
    commits_of,
    gaps_in,
)
from speedtrack.web.requests.formats import cell, csv_text, csv_texts, number_texts

MOST_COMMITS = 200  # of the table, of each branch: the newest


class RowPoint(NamedTuple):
    """A point of a line, in the metric's unit."""

    value: float
    low: float
    high: float
    n: int
    flags: list[str]


@dataclass(frozen=True)
class TableRow:
    """A point at a commit, or the commit's gap; ``title``: what tells the point's line from the others."""

    path: Path
    commit: TimelineCommit
    line: ShownLine | None
    title: str
    point: RowPoint | None
    gap: Gap
    change: ShownChange | None
    new_environment: str = ""  #: what changed on the machine just before this commit


@dataclass(frozen=True)
class TimelineTable:
    """``most``: how many commits of a branch it shows; ``complete``: these are all."""

    overlay: Overlay
    rows: list[TableRow]
    most: int
    complete: bool


def load(overlay: Overlay) -> TimelineTable:
    """The newest commits, newest first; those of several branches by their time."""
    recent = overlay.newest(MOST_COMMITS)
    rows = sorted(table_rows(recent), key=lambda row: (row.commit.at, row.commit.number), reverse=True)
    if len(overlay.paths) == 1:
        rows.sort(
            key=lambda row: row.commit.number, reverse=True
        )  # in the order of the branch, whatever its clocks say
    complete = all(path.commits <= MOST_COMMITS for path in overlay.paths)
    return TimelineTable(overlay, rows, MOST_COMMITS, complete)


def table_rows(overlay: Overlay) -> Iterator[TableRow]:
    """A row for each point, and one for each commit without any that says why there is none."""
    columns = overlay.columns()
    each = [(path, line) for path, lines in enumerate(columns) for line in lines]
    entries = [
        (*overlay.along[path][line.series_id], (overlay.paths[path].first + line.at).tolist()) for path, line in each
    ]
    changes = {(boundary.line, boundary.position): boundary.what for boundary in find_breaks(entries)}
    marks = {(change.path, change.place, change.series): change for change in changes_on(overlay)}
    points: dict[tuple[int, int], list[tuple[int, int, RowPoint]]] = defaultdict(list)
    for path, line in each:
        line_number, _ = overlay.along[path][line.series_id]
        for at, point in points_of(line):
            points[path, overlay.paths[path].first + at].append((line_number, line.series_id, point))
    gaps, titles = gaps_in(overlay), overlay.titles
    for commit in commits_of(overlay):
        along, number = overlay.paths[commit.path], commit.number
        points_here = points.get((commit.path, number), [])
        for line_number, series, point in points_here:
            environment, mark = changes.get((line_number, number), ""), marks.get((commit.path, number, series))
            yield TableRow(
                along, commit, overlay.shown[line_number], titles[line_number], point, UNMEASURED, mark, environment
            )
        if not points_here:
            yield TableRow(along, commit, None, "", None, gaps[commit.path].get(number, UNMEASURED), None)


def points_of(line: LineColumns) -> Iterable[tuple[int, RowPoint]]:
    columns = (column.tolist() for column in (line.at, line.value, line.low, line.high, line.n))
    for at, value, low, high, n in zip(*columns, strict=True):
        yield at, RowPoint(value, low, high, n, line.flags.get(at, []))


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
    "project",
    "benchmark",
    "metric",
    "branch",
]


def csv_lines(overlay: Overlay, gaps: Gaps, changes: Iterable[ShownChange]) -> Iterator[str]:
    """A header, then one line per point or gap, by branch, oldest first. Queries run before the first is yielded.

    What many lines share is written once, and joined with the numbers.
    """
    paths, numbers, heads = csv_commits(overlay)
    points = csv_points(overlay, changes)
    gap_lines = [gap_names(overlay, path) for path in range(len(overlay.paths))]
    gap_text = cache(lambda path, state: csv_text(gap_cells(state, gap_lines[path])))
    lines = (
        head + point
        for path, number, head in zip(paths, numbers, heads, strict=True)
        for point in points[path].get(number) or [gap_text(path, gaps[path].get(number, UNMEASURED).state)]
    )
    return chain([csv_text(HEADER)], lines)


def csv_commits(overlay: Overlay) -> tuple[list[int], list[int], list[str]]:
    """Of each commit of each path: the path, the position, and the text of its columns.

    Column by column: an object for each of 20,000 commits takes longer than their lines.
    """
    columns: list[list[Any]] = [list(column) for column in zip(*overlay.fetch(COMMITS), strict=True)] or [[]] * 6
    paths, numbers, shas, subjects, authors, seconds = columns
    times = np.datetime_as_string(np.array(seconds, "M8[s]")).tolist()
    names = csv_texts(zip(csv_cells(authors), csv_cells(subjects), strict=True))
    heads = map("%d,%s,%s+00:00,%s,".__mod__, zip(numbers, shas, times, names, strict=True))
    return paths, numbers, list(heads)


def line_cells(line: ShownLine) -> list[str]:
    return [line.name.project, line.name.benchmark, line.name.metric, csv_cell(line.name.branch)]


def gap_names(overlay: Overlay, path: int) -> list[str]:
    """The columns that a gap shares with all lines of its path: the unit, and the names in the last columns."""
    own = [[line.metric.unit, *line_cells(line)] for line in overlay.shown if overlay.path_of(line) == path]
    return [values[0] if len(set(values)) == 1 else "" for values in zip(*own, strict=True)] or [""] * 5


def gap_cells(state: str, names: list[str]) -> list[str]:
    unit, *line = names
    return [*[""] * 6, unit, "", state, "", *line]


def csv_points(overlay: Overlay, changes: Iterable[ShownChange]) -> list[dict[int, list[str]]]:
    """For each path, by position: for each point, the columns that follow those of its commit."""
    statuses: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for change in changes:
        statuses[change.path, change.series][change.place - overlay.paths[change.path].first] = change.status
    texts: list[dict[int, list[str]]] = [defaultdict(list) for _ in overlay.paths]
    for path, columns in enumerate(overlay.columns()):
        for line in columns:
            positions = (overlay.paths[path].first + line.at).tolist()
            points = csv_line(overlay, path, line, statuses[path, line.series_id])
            for position, point in zip(positions, points, strict=True):
                texts[path][position].append(point)
    return texts


def csv_line(overlay: Overlay, path: int, line: LineColumns, statuses: Mapping[int, str]) -> list[str]:
    """The columns of each point of a line. ``statuses``: of its change points, by place."""
    number, series = overlay.along[path][line.series_id]
    shown_line = overlay.shown[number]
    start = csv_text([cell(series.machine.name), short_digest(series.environment.digest)])
    names = [cell(name) for name in (shown_line.metric.unit, *line_cells(shown_line))]
    ending = cache(partial(point_ending, names))
    endings = {at: ending(" ".join(line.flags.get(at, ())), statuses.get(at, "")) for at in {*line.flags, *statuses}}
    numbers = (*map(number_texts, (line.value, line.low, line.high)), line.n.tolist())
    usual, positions = ending("", ""), line.at.tolist()
    each = [endings.get(at, usual) for at in positions] if endings else repeat(usual, len(positions))
    return list(map(f"{start.replace('%', '%%')},%s,%s,%s,%s,%s".__mod__, zip(*numbers, each, strict=True)))


def point_ending(names: Sequence[str], flags: str, status: str) -> str:
    """The columns that follow a point's numbers. ``names``: the unit, and the names in the last columns."""
    unit, *line = names
    return csv_text([unit, flags, "measured", status, *line])
