"""The one query that loads a series along a branch, and the points that charts read. Detection: see windows.py."""

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
