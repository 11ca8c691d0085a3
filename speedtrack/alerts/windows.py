"""The windows of a series' lines that new measurements can change: what detection reads, bounded at any length.

A point is judged by up to BEFORE points before it, and takes part in the judgement of up to AHEAD points after it. So
the news of a line are read with no more than these around them; news that lie far apart are read by themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Max

from speedtrack.projects.models import Branch, Position
from speedtrack.runs.models import Series
from speedtrack.stats.changepoint import DEFAULT, REFINE
from speedtrack.stats.windows import AFTER

BEFORE = 240  # measured commits before the oldest new one: 200 for the yardsticks, and the level before them
AHEAD = DEFAULT.before + int(AFTER[-1]) + REFINE  # after the newest new one: those whose shifts may rest on it

# The clean new points of a series, by branch. Begins with the attempts, as few are new. Arrays rather than joins: each
# step is then a lookup per row, whatever PostgreSQL believes of the tables' sizes. Joined, by statistics of tables that
# were empty when they were taken, 5,000 new measurements were read 5,000 times over.
NEWS = """
    SELECT p.branch_id, p.number, p.commit_id
      FROM projects_position p
      JOIN projects_branch b ON b.id = p.branch_id AND b.deleted_at IS NULL
     WHERE p.commit_id = ANY (ARRAY(
               SELECT m.commit_id FROM runs_measurement m
                WHERE m.series_id = %(series)s AND m.accepted AND NOT m.paired
                  AND m.attempt_id = ANY (ARRAY(SELECT a.id FROM runs_attempt a WHERE a.ended_at >= %(since)s))))
  ORDER BY p.branch_id, p.number
"""
MEASURED = """
    EXISTS (SELECT FROM runs_measurement m WHERE m.series_id = %(series)s AND m.commit_id = p.commit_id
                    AND m.accepted AND NOT m.paired AND m.flags = '{}')
"""
# One row per commit: the clean samples of all its clean measurements. Scalar subqueries, so that PostgreSQL looks each
# commit up rather than read the whole series.
POINTS = """
    WITH near AS (
        (SELECT p.number, p.commit_id FROM projects_position p
          WHERE p.branch_id = %(branch)s AND p.number < %(first)s AND MEASURED
       ORDER BY p.number DESC LIMIT %(before)s)
        UNION ALL
        (SELECT p.number, p.commit_id FROM projects_position p
          WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s)
        UNION ALL
        (SELECT p.number, p.commit_id FROM projects_position p
          WHERE p.branch_id = %(branch)s AND p.number > %(last)s AND MEASURED
       ORDER BY p.number LIMIT %(ahead)s)
    )
    SELECT near.number, near.commit_id, ARRAY(
               SELECT s.value FROM runs_sample s
                WHERE s.measurement_id = ANY (ARRAY(
                          SELECT m.id FROM runs_measurement m
                           WHERE m.series_id = %(series)s AND m.commit_id = near.commit_id
                             AND m.accepted AND NOT m.paired AND m.flags = '{}'))
                  AND NOT s.flagged AND s.value > '-Infinity' AND s.value < 'Infinity'
             ORDER BY s.measurement_id, s.trial)
      FROM near
  ORDER BY near.number
""".replace("MEASURED", MEASURED)
# Which of these branches have measured commits after a position of theirs.
GOES_ON = """
    SELECT after.branch_id
      FROM unnest(%(branches)s::bigint[], %(numbers)s::int[]) AS after (branch_id, number)
     WHERE EXISTS (SELECT FROM projects_position p
                    WHERE p.branch_id = after.branch_id AND p.number > after.number AND MEASURED)
""".replace("MEASURED", MEASURED)


class Measured(NamedTuple):
    """A point of a line: the clean, finite samples of a commit from all its runs, in the metric's unit."""

    position: int
    commit_id: int
    trials: tuple[float, ...]

    @property
    def value(self) -> float:
        """The median of the trials."""
        return median(self.trials)


@dataclass(frozen=True)
class News:
    """New points of a line that lie near each other, on one branch, in commit order."""

    branch: Branch
    numbers: tuple[int, ...]
    commits: tuple[int, ...]


@dataclass(frozen=True)
class Line:
    """Clean points of a series along a branch, in commit order, and the commits with new measurements among them."""

    branch: Branch
    points: Sequence[Measured]
    news: frozenset[int]

    @property
    def new(self) -> list[int]:
        return [i for i, point in enumerate(self.points) if point.commit_id in self.news]


def lines(series: Series, since: datetime) -> list[Line]:
    """The windows around what was accepted since then: each line once, on the default branch if it is there."""
    groups: dict[tuple[int, ...], list[News]] = {}
    for one in news(series, since):
        groups.setdefault(one.commits, []).append(one)
    return [line for group in groups.values() for line in distinct(series, group)]


def news(series: Series, since: datetime) -> list[News]:
    """The new points of each live branch, those of the default branch first, in groups that lie near each other."""
    with connection.cursor() as cursor:
        cursor.execute(NEWS, {"series": series.pk, "since": since})
        rows = cursor.fetchall()
    branches = series.project.branches.in_bulk({row[0] for row in rows})
    default = series.project.default_branch
    rows.sort(key=lambda row: (branches[row[0]].name != default, row))
    groups: list[list[tuple[int, int, int]]] = []
    for row in rows:
        if groups and groups[-1][-1][0] == row[0] and row[1] - groups[-1][-1][1] <= BEFORE:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [
        News(branches[group[0][0]], tuple(row[1] for row in group), tuple(row[2] for row in group)) for group in groups
    ]


def distinct(series: Series, group: list[News]) -> list[Line]:
    """The different lines through the same new points. A commit has one first-parent history: they may part after it.

    A line that only ends earlier than another one says nothing of its own.
    """
    found = []
    while group:
        line = load(series, group[0])
        found.append(line)
        within = branches_within(series, line, group[1:]) if line.points else set()
        group = [one for one in group[1:] if one.branch.pk not in within]
    return found


def load(series: Series, one: News) -> Line:
    with connection.cursor() as cursor:
        cursor.execute(
            POINTS,
            {
                "series": series.pk,
                "branch": one.branch.pk,
                "first": one.numbers[0],
                "last": one.numbers[-1],
                "before": BEFORE,
                "ahead": AHEAD,
            },
        )
        points = [Measured(number, commit, tuple(trials)) for number, commit, trials in cursor if trials]
    return Line(one.branch, points, frozenset(one.commits))


def branches_within(series: Series, line: Line, others: Sequence[News]) -> set[int]:
    """The branches among these that read like the line up to where they, or the window, end."""
    if not others:
        return set()
    shared = [point for point in line.points if point.position >= others[0].numbers[-1]]
    places = Position.objects.filter(
        branch__in=[one.branch for one in others], commit__in=[p.commit_id for p in shared]
    )
    ends = dict(places.values_list("branch_id").annotate(Max("number")))
    whole = {branch for branch, end in ends.items() if len(shared) > AHEAD and end == shared[-1].position}
    with connection.cursor() as cursor:
        asked: dict[str, Any] = {"series": series.pk, "branches": list(ends), "numbers": list(ends.values())}
        cursor.execute(GOES_ON, asked)
        return whole | (set(ends) - {row[0] for row in cursor})
