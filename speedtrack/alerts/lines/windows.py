"""The parts of a series' lines that new measurements can change: what detection reads, bounded for any length.

A point is judged by up to BEFORE points before it, and helps to judge up to AHEAD points after it. So new points are
read with no more than these around them; new points that lie far apart are read separately.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import connection

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.trials import Around, LineRange, TrialLine, trial_lines
from speedtrack.projects import positions
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Series
from speedtrack.stats.changes.changepoint import DEFAULT, REFINE
from speedtrack.stats.changes.windows import AFTER

BEFORE = 240  # measured commits before the oldest new one: 200 for the thresholds, and the level before them
AHEAD = DEFAULT.before + int(AFTER[-1]) + REFINE  # after the newest new one: those whose shifts it may help to judge

# The new points of each series, by branch. Begins with the attempts, since few are new. Arrays rather than joins: each
# step is then a lookup per row, whatever PostgreSQL assumes about the sizes of the tables. With joins, and statistics
# taken while the tables were empty, 5,000 new measurements were read 5,000 times.
NEW_POINTS = lines.sql("""
    SELECT s.at, p.branch_id, p.number, p.commit_id
      FROM unnest(%(series)s::bigint[], %(since)s::timestamptz[]) WITH ORDINALITY AS s (id, since, at)
CROSS JOIN LATERAL (
        SELECT DISTINCT m.commit_id AS id FROM runs_measurement m
         WHERE m.series_id = s.id AND IS_POINT
           AND m.attempt_id = ANY (ARRAY(SELECT a.id FROM runs_attempt a WHERE a.ended_at >= s.since)) OFFSET 0) c
CROSS JOIN LATERAL (SELECT * FROM projects_position WHERE commit_id = c.id OFFSET 0) p
      JOIN projects_branch b ON b.id = p.branch_id AND b.deleted_at IS NULL
  ORDER BY s.at, p.branch_id, p.number
""")
# How far each branch is the same as the one of a window, up to the window's last point; and whether the series has
# clean points on the branch after that place.
IS_SHARED = """EXISTS (SELECT FROM projects_position o
                        WHERE o.branch_id = s.other_id AND o.commit_id = p.commit_id OFFSET 0)"""
SHARED = lines.sql(f"""
    SELECT s.at, same.number = s.last,
           EXISTS (SELECT FROM projects_position p
                    WHERE p.branch_id = s.other_id AND p.number > same.number AND IS_MEASURED)
      FROM unnest(%(series)s::bigint[], %(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[],
                  %(others)s::bigint[]) WITH ORDINALITY AS s (id, branch_id, first, last, other_id, at)
CROSS JOIN LATERAL ({positions.last(IS_SHARED, "s.branch_id", "s.first", "s.last")}) same
""")  # noqa: S608 - constants


@dataclass(frozen=True)
class NewPoints:
    """New points of a line that lie near each other, on one branch, in commit order."""

    series: Series
    branch: Branch
    positions: tuple[int, ...]
    commits: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """Clean points of a series along a branch, in commit order, and which of their commits have new measurements."""

    series: Series
    branch: Branch
    points: TrialLine
    commits: frozenset[int]

    @cached_property
    def new(self) -> list[int]:
        """The indices of the new points."""
        return [i for i, commit in enumerate(self.points.commits) if commit in self.commits]

    @property
    def values(self) -> list[float]:
        return self.points.values


def windows_since(news: Sequence[tuple[Series, datetime]]) -> list[Window]:
    """The windows around measurements accepted since the given time of each series, in the order of the series.

    A line that several branches share is returned once, on the default branch if that has it. The number of queries
    does not grow with the number of series.
    """
    groups: dict[tuple[int, tuple[int, ...]], list[NewPoints]] = {}
    for new in new_points(news):
        groups.setdefault((new.series.pk, new.commits), []).append(new)
    windows = distinct_windows(list(groups.values()))
    order = {series.pk: i for i, (series, _) in enumerate(news)}
    return sorted(windows, key=lambda window: order[window.series.pk])


def new_points(news: Sequence[tuple[Series, datetime]]) -> list[NewPoints]:
    """The new points on each live branch, the default branch first, in groups of points that lie near each other."""
    parameters: dict[str, Any] = {"series": [series.pk for series, _ in news], "since": [since for _, since in news]}
    with connection.cursor() as cursor:
        cursor.execute(NEW_POINTS, parameters)
        rows = cursor.fetchall()
    branches = Branch.objects.in_bulk({row[1] for row in rows})
    default = [series.project.default_branch for series, _ in news]
    rows.sort(key=lambda row: (row[0], branches[row[1]].name != default[row[0] - 1], row))
    groups: list[list[tuple[int, int, int, int]]] = []
    for row in rows:
        if groups and groups[-1][-1][:2] == row[:2] and row[2] - groups[-1][-1][2] <= BEFORE:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [
        NewPoints(
            news[group[0][0] - 1][0],
            branches[group[0][1]],
            tuple(row[2] for row in group),
            tuple(row[3] for row in group),
        )
        for group in groups
    ]


def distinct_windows(groups: Sequence[list[NewPoints]]) -> list[Window]:
    """For each group of new points, the different lines through them.

    Branches share the history before a commit, not that after it. A line that only ends earlier than another one is
    left out. The first lines of all groups are read first, then those that differ from them, and so on.
    """
    distinct: list[Window] = []
    while groups:
        windows = read_windows([group[0] for group in groups])
        distinct += windows
        remaining = [(window, group[1:]) for window, group in zip(windows, groups, strict=True)]
        groups = [group for group in without_same_lines(remaining) if group]
    return distinct


def read_windows(news: Sequence[NewPoints]) -> list[Window]:
    ranges = [LineRange(new.series.pk, new.branch.pk, new.positions[0], new.positions[-1]) for new in news]
    points = trial_lines(ranges, Around(before=BEFORE, after=AHEAD))
    return [
        Window(new.series, new.branch, of_line, frozenset(new.commits))
        for new, of_line in zip(news, points, strict=True)
    ]


def points_around(series: Series, branch: Branch, position: int) -> TrialLine:
    """The points that judge a change at a position of a branch."""
    return points_of_each([series], branch, position)[0]


def points_of_each(series: Iterable[Series], branch: Branch, position: int) -> list[TrialLine]:
    """The same of several series, by few statements."""
    return [window.points for window in read_windows([NewPoints(pk, branch, (position,), ()) for pk in series])]


def without_same_lines(groups: Sequence[tuple[Window, list[NewPoints]]]) -> list[list[NewPoints]]:
    """Each group without the lines that equal its window's line, up to where they or the window end."""
    pairs = [(window, candidate) for window, candidates in groups for candidate in candidates if window.points]
    same = same_lines(pairs) if pairs else ()
    return [[candidate for candidate in candidates if candidate not in same] for _, candidates in groups]


def same_lines(pairs: Sequence[tuple[Window, NewPoints]]) -> set[NewPoints]:
    """The new points whose line is the same as that of the window beside them."""
    parameters = {
        "series": [window.series.pk for window, _ in pairs],
        "branches": [window.branch.pk for window, _ in pairs],
        "firsts": [candidate.positions[-1] for _, candidate in pairs],
        "lasts": [max(window.points.positions[-1], candidate.positions[-1]) for window, candidate in pairs],
        "others": [candidate.branch.pk for _, candidate in pairs],
    }
    with connection.cursor() as cursor:
        cursor.execute(SHARED, parameters)
        rows = cursor.fetchall()
    same = set()
    for at, is_complete, goes_on in rows:
        window, candidate = pairs[at - 1]
        after = sum(position >= candidate.positions[-1] for position in window.points.positions)
        if not goes_on or (is_complete and after > AHEAD):
            same.add(candidate)
    return same
