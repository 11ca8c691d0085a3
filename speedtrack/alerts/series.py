"""The one query that loads a series along a branch, and the points that charts and detection read from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from django.db import connection

from speedtrack.projects.models import Branch
from speedtrack.runs.models import Measurement, Run, Sample, Series, Side
from speedtrack.stats.summary import summarize

QUERY = """
    SELECT p.number, c.id, c.sha, c.subject, c.author_name, c.committed_at,
           a.run_id, m.id, m.value, m.low, m.high, m.n, m.flags
      FROM runs_measurement m
      JOIN projects_position p ON p.commit_id = m.commit_id AND p.branch_id = %(branch)s
      JOIN projects_commit c ON c.id = m.commit_id
      JOIN runs_attempt a ON a.id = m.attempt_id
     WHERE m.series_id = ANY(%(series)s) AND m.accepted AND NOT m.paired AND p.number >= %(first)s
  ORDER BY p.number, m.id
"""
# Per branch, what was measured from the oldest new point on: branches that agree in it have the same line, as a commit
# has one first-parent history.
LINES = """
    SELECT found.branch_id, found.first, found.news,
           array_agg(p.commit_id ORDER BY p.number) AS rest
      FROM (SELECT p.branch_id, min(p.number) AS first, array_agg(DISTINCT p.commit_id) AS news
              FROM runs_measurement m
              JOIN runs_attempt a ON a.id = m.attempt_id
              JOIN projects_position p ON p.commit_id = m.commit_id
              JOIN projects_branch b ON b.id = p.branch_id AND b.deleted_at IS NULL
             WHERE m.series_id = %(series)s AND m.accepted AND NOT m.paired AND a.ended_at >= %(since)s
          GROUP BY p.branch_id) found
      JOIN projects_position p ON p.branch_id = found.branch_id AND p.number >= found.first
      JOIN runs_measurement m ON m.commit_id = p.commit_id AND m.series_id = %(series)s AND m.accepted AND NOT m.paired
  GROUP BY found.branch_id, found.first, found.news
"""
# The position of the measured commit so many before another one.
BACK = """
    SELECT min(number) FROM (
        SELECT DISTINCT p.number
          FROM projects_position p
          JOIN runs_measurement m ON m.commit_id = p.commit_id
         WHERE p.branch_id = %(branch)s AND p.number <= %(number)s
           AND m.series_id = %(series)s AND m.accepted AND NOT m.paired
      ORDER BY p.number DESC LIMIT %(count)s) back
"""


@dataclass(frozen=True)
class MeasuredCommit:
    """A point of a line: one commit, and all accepted, unpaired samples of it pooled. Values in the metric's unit."""

    position: int
    commit_id: int
    sha: str
    subject: str
    author: str
    committed_at: datetime
    run_id: int
    measurement_ids: tuple[int, ...]
    value: float
    low: float
    high: float
    n: int
    flags: tuple[str, ...]


def load(series: Iterable[Series], branch: Branch, first: int = 0) -> list[MeasuredCommit]:
    """The measured commits of a series on a branch from position ``first`` on, in commit order.

    A commit that was not measured is absent. Several series (of one benchmark, metric and machine) may be read as one,
    as where the environment does not matter.
    """
    with connection.cursor() as cursor:
        cursor.execute(QUERY, {"branch": branch.pk, "series": [s.pk for s in series], "first": first})
        rows = [MeasuredCommit(*[*row[:7], (row[7],), *row[8:12], tuple(row[12])]) for row in cursor]
    return pooled(rows)


@dataclass(frozen=True)
class NewsOfBranch:
    """The commits of a branch with new measurements of a series, and the position of the oldest of them."""

    branch: Branch
    first: int
    commits: frozenset[int]


def news(series: Series, since: datetime) -> list[NewsOfBranch]:
    """Where a series has measurements accepted since a moment: each line once, on the default branch if it is there."""
    with connection.cursor() as cursor:
        cursor.execute(LINES, {"series": series.pk, "since": since})
        rows = cursor.fetchall()
    branches = series.project.branches.select_related("project").in_bulk([row[0] for row in rows])
    default = series.project.default_branch
    rows.sort(key=lambda row: (branches[row[0]].name != default, row[0]))
    lines: dict[tuple[int, ...], NewsOfBranch] = {}
    for branch_id, first, commits, rest in rows:
        lines.setdefault(tuple(rest), NewsOfBranch(branches[branch_id], first, frozenset(commits)))
    return list(lines.values())


def position_back(series: Series, branch: Branch, number: int, count: int) -> int:
    """Where the last ``count`` measured commits up to a position begin; where the line begins if there are fewer."""
    with connection.cursor() as cursor:
        cursor.execute(BACK, {"series": series.pk, "branch": branch.pk, "number": number, "count": count})
        return cursor.fetchone()[0] or 0


def pooled(rows: list[MeasuredCommit]) -> list[MeasuredCommit]:
    """One point per commit: where it was measured more than once, the samples of all runs together."""
    groups: dict[int, list[MeasuredCommit]] = {}
    for row in rows:
        groups.setdefault(row.commit_id, []).append(row)
    several = [row.measurement_ids[0] for group in groups.values() if len(group) > 1 for row in group]
    samples = samples_of(several) if several else {}
    return [group[0] if len(group) == 1 else pool(group, samples) for group in groups.values()]


def pool(group: list[MeasuredCommit], samples: dict[int, list[float]]) -> MeasuredCommit:
    clean = [row for row in group if not row.flags] or group
    ids = tuple(row.measurement_ids[0] for row in clean)
    estimate = summarize([value for id in ids for value in samples[id]])
    last = clean[-1]
    return MeasuredCommit(**{**vars(last), **vars(estimate), "measurement_ids": ids})


def samples_of(measurement_ids: Iterable[int]) -> dict[int, list[float]]:
    """The clean samples of measurements by id; all of them where none is clean."""
    clean: dict[int, list[float]] = {}
    every: dict[int, list[float]] = {}
    rows = Sample.objects.filter(measurement_id__in=list(measurement_ids)).order_by("measurement_id", "trial")
    for measurement_id, value, flagged in rows.values_list("measurement_id", "value", "flagged"):
        every.setdefault(measurement_id, []).append(value)
        if not flagged:
            clean.setdefault(measurement_id, []).append(value)
    return {**every, **clean}


def sample_pairs(runs: Iterable[Run], series: Series) -> list[tuple[float, float]]:
    """The (base, head) samples of a series' benchmark and metric in paired runs, in the order they were measured.

    Trial i of one side was measured back to back with trial i of the other. A pair with a flagged side is left out.
    The environment may be a newer one than the series': both sides of a pair share it.
    """
    pairs = []
    for run in runs:
        samples = Sample.objects.filter(
            flagged=False,
            measurement__attempt__run=run,
            measurement__accepted=True,
            measurement__series__benchmark=series.benchmark,
            measurement__series__metric=series.metric,
        )
        sides: dict[str, dict[int, float]] = {Side.BASE: {}, Side.HEAD: {}}
        for side, trial, value in samples.values_list("measurement__side", "trial", "value"):
            sides[side][trial] = value
        base, head = sides[Side.BASE], sides[Side.HEAD]
        pairs += [(base[trial], head[trial]) for trial in sorted(base.keys() & head.keys())]
    return pairs


class Drawn(NamedTuple):
    """A point of one series as a chart draws it. Values in the metric's unit."""

    series_id: int
    position: int
    commit_id: int
    attempt_id: int
    value: float
    low: float
    high: float
    n: int
    flags: list[str]


DRAWN = """
    SELECT m.series_id, p.number, m.commit_id, m.attempt_id, m.value, m.low, m.high, m.n, m.flags
      FROM projects_position p
      JOIN runs_measurement m ON m.commit_id = p.commit_id
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
       AND m.series_id = ANY(%(series)s) AND m.accepted AND NOT m.paired
  ORDER BY p.number, m.series_id, m.attempt_id
"""


def drawn(series_ids: Iterable[int], branch: Branch, first: int, last: int) -> list[Drawn]:
    """The points of these series between two positions of a branch, in commit order, each series by itself.

    Reads the index alone. Samples are loaded only for commits that a series measured more than once: they are pooled.
    """
    with connection.cursor() as cursor:
        cursor.execute(DRAWN, {"branch": branch.pk, "first": first, "last": last, "series": list(series_ids)})
        rows = [Drawn._make(row) for row in cursor]
    if len({(row.series_id, row.commit_id) for row in rows}) == len(rows):
        return rows
    groups = [list(group) for _, group in groupby(rows, key=itemgetter(1, 0))]
    samples = samples_of_attempts(row for group in groups if len(group) > 1 for row in group)
    return [group[0] if len(group) == 1 else together(group, samples) for group in groups]


def samples_of_attempts(rows: Iterable[Drawn]) -> dict[tuple[int, int, int], list[float]]:
    """The clean samples (all, where none is clean) by series, commit and attempt."""
    keys = [(row.series_id, row.commit_id, row.attempt_id) for row in rows]
    measurements = Measurement.objects.filter(
        series__in={k[0] for k in keys}, commit__in={k[1] for k in keys}, attempt__in={k[2] for k in keys}, paired=False
    ).values_list("pk", "series_id", "commit_id", "attempt_id")
    names = {pk: (series, commit, attempt) for pk, series, commit, attempt in measurements}
    return {names[pk]: values for pk, values in samples_of(names).items()}


def together(group: list[Drawn], samples: dict[tuple[int, int, int], list[float]]) -> Drawn:
    """Several measurements of one commit by one series as one point; clean ones alone, if there are any."""
    clean = [row for row in group if not row.flags] or group
    estimate = summarize([v for row in clean for v in samples[row.series_id, row.commit_id, row.attempt_id]])
    return clean[-1]._replace(value=estimate.value, low=estimate.low, high=estimate.high, n=estimate.n)
