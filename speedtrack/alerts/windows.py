"""The parts of a series' lines that new measurements can change: what detection reads, bounded at any length.

A point is judged by up to BEFORE points before it, and helps to judge up to AHEAD points after it. So new points are
read with no more than these around them; new points that lie far apart are read separately.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Max

from speedtrack.alerts import lines
from speedtrack.alerts.lines import Around, TrialPoint
from speedtrack.projects.models import Branch, Position, Project
from speedtrack.runs.models import Series
from speedtrack.stats.changepoint import DEFAULT, REFINE
from speedtrack.stats.windows import AFTER

BEFORE = 240  # measured commits before the oldest new one: 200 for the thresholds, and the level before them
AHEAD = DEFAULT.before + int(AFTER[-1]) + REFINE  # after the newest new one: those whose shifts it may help to judge

# The new points of a series, by branch. Begins with the attempts, since few are new. Arrays rather than joins: each
# step is then a lookup per row, whatever PostgreSQL assumes about the sizes of the tables. With joins, and statistics
# taken while the tables were empty, 5,000 new measurements were read 5,000 times.
NEW_POINTS = lines.sql("""
    SELECT p.branch_id, p.number, p.commit_id
      FROM projects_position p
      JOIN projects_branch b ON b.id = p.branch_id AND b.deleted_at IS NULL
     WHERE p.commit_id = ANY (ARRAY(
               SELECT m.commit_id FROM runs_measurement m
                WHERE m.series_id = %(series)s AND IS_POINT
                  AND m.attempt_id = ANY (ARRAY(SELECT a.id FROM runs_attempt a WHERE a.ended_at >= %(since)s))))
  ORDER BY p.branch_id, p.number
""")
# The branches among these that have measured commits after the given position.
GOES_ON = lines.sql("""
    SELECT after.branch_id
      FROM unnest(%(branches)s::bigint[], %(numbers)s::int[]) AS after (branch_id, number)
     WHERE EXISTS (SELECT FROM projects_position p
                    WHERE p.branch_id = after.branch_id AND p.number > after.number AND IS_MEASURED)
""")


@dataclass(frozen=True)
class NewPoints:
    """New points of a line that lie near each other, on one branch, in commit order."""

    branch: Branch
    positions: tuple[int, ...]
    commits: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """Clean points of a series along a branch, in commit order, and which of their commits have new measurements."""

    branch: Branch
    points: Sequence[TrialPoint]
    commits: frozenset[int]

    @property
    def new(self) -> list[int]:
        """The indices of the new points."""
        return [i for i, point in enumerate(self.points) if point.commit_id in self.commits]


def windows_since(series: Series, since: datetime) -> list[Window]:
    """The windows around measurements accepted since then: each line once, on the default branch if that has it."""
    groups: dict[tuple[int, ...], list[NewPoints]] = {}
    for new in new_points(series, since):
        groups.setdefault(new.commits, []).append(new)
    return [window for group in groups.values() for window in distinct_windows(series, group)]


def new_points(series: Series, since: datetime) -> list[NewPoints]:
    """The new points of each live branch, those of the default branch first, in groups that lie near each other."""
    with connection.cursor() as cursor:
        cursor.execute(NEW_POINTS, {"series": series.pk, "since": since})
        rows = cursor.fetchall()
    branches = branches_by_id(series.project, {row[0] for row in rows})
    default = series.project.default_branch
    rows.sort(key=lambda row: (branches[row[0]].name != default, row))
    groups: list[list[tuple[int, int, int]]] = []
    for row in rows:
        if groups and groups[-1][-1][0] == row[0] and row[1] - groups[-1][-1][1] <= BEFORE:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [
        NewPoints(branches[group[0][0]], tuple(row[1] for row in group), tuple(row[2] for row in group))
        for group in groups
    ]


def branches_by_id(project: Project, ids: set[int]) -> dict[int, Branch]:
    """These branches of a project by id. Those that were loaded with the project may lack one made since then."""
    known = {branch.pk: branch for branch in project.branches.all()} if ids else {}
    return known if ids <= known.keys() else project.branches.in_bulk(ids)


def distinct_windows(series: Series, group: list[NewPoints]) -> list[Window]:
    """The different lines through the same new points. Branches share the history before a commit, not that after it.

    A line that only ends earlier than another one is left out.
    """
    found = []
    while group:
        window = read_window(series, group[0])
        found.append(window)
        within = branches_within(series, window, group[1:]) if window.points else set()
        group = [new for new in group[1:] if new.branch.pk not in within]
    return found


def read_window(series: Series, new: NewPoints) -> Window:
    around = Around(before=BEFORE, after=AHEAD)
    points = lines.trial_points(series, new.branch, new.positions[0], new.positions[-1], around)
    return Window(new.branch, points, frozenset(new.commits))


def points_around(series: Series, branch: Branch, position: int) -> Sequence[TrialPoint]:
    """The points that judge a change at a position of a branch."""
    return read_window(series, NewPoints(branch, (position,), ())).points


def branches_within(series: Series, window: Window, others: Sequence[NewPoints]) -> set[int]:
    """The branches among these whose line is the same up to where they, or the window, end."""
    if not others:
        return set()
    shared = [point for point in window.points if point.position >= others[0].positions[-1]]
    places = Position.objects.filter(
        branch__in=[new.branch for new in others], commit__in=[p.commit_id for p in shared]
    )
    ends = dict(places.values_list("branch_id").annotate(Max("number")))
    whole = {branch for branch, end in ends.items() if len(shared) > AHEAD and end == shared[-1].position}
    with connection.cursor() as cursor:
        cursor.execute(GOES_ON, {"series": series.pk, "branches": list(ends), "numbers": list(ends.values())})
        return whole | (set(ends) - {row[0] for row in cursor})
