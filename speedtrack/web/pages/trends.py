"""What was measured of the newest commits of projects: how far, and the trends of their benchmarks."""

import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from django.db import connection

from speedtrack.alerts.lines.linecolumns import Array, array_of
from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.judging.repeated import digest
from speedtrack.projects import positions

WINDOW = 60  # commits of the default branch that a trend shows
# How far each machine measured the newest commits of each branch, and the newest one that it measured. Of a machine
# without a runner, the metric that most of its series have.
COVERAGE = f"""
    SELECT found.*, c.sha, c.subject, c.committed_at,
           CASE WHEN found.outside
                THEN (SELECT s.metric FROM runs_series s
                       WHERE s.project_id = found.project_id AND s.machine_id = found.machine_id
                    GROUP BY s.metric ORDER BY count(*) DESC, s.metric LIMIT 1) END
      FROM (SELECT b.project_id, b.id, r.machine_id, machine.name, machine.outside, count(*), max(p.number),
                   max(p.head), (array_agg(p.commit_id ORDER BY p.number DESC))[1] AS commit_id
              FROM projects_branch b
        CROSS JOIN LATERAL (
                    SELECT number, commit_id, max(number) OVER () AS head
                      FROM ({positions.newest("b.id", "%(window)s")}) newest) p
              JOIN runs_run r ON r.commit_id = p.commit_id AND r.base_id IS NULL AND r.canary_id IS NULL
               AND r.status = 'succeeded'
              JOIN runs_machine machine ON machine.id = r.machine_id
             WHERE b.id = ANY(%(branches)s)
          GROUP BY b.project_id, b.id, r.machine_id, machine.name, machine.outside) found
      JOIN projects_commit c ON c.id = found.commit_id
"""  # noqa: S608 - constants
# Of each project the newest commits, its series, and the clean points that these measured of those. Each path is read
# once, not for each series, and sorted where it is used.
HEADLINES = sql(f"""
      WITH path AS MATERIALIZED (
        SELECT a.project_id, a.machine_id, a.metric, array_agg(p.commit_id) AS commits, array_agg(p.number) AS numbers
          FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[], %(machines)s::bigint[], %(metrics)s::text[])
               AS a(project_id, branch_id, machine_id, metric)
    CROSS JOIN LATERAL ({positions.newest("a.branch_id", "%(window)s")}) p
      GROUP BY a.project_id, a.machine_id, a.metric)
    SELECT path.project_id, path.commits, path.numbers, own.ids, own.names, found.*
      FROM path
CROSS JOIN LATERAL (
        SELECT array_agg(s.id ORDER BY s.id) AS ids, array_agg(benchmark.name::text ORDER BY s.id) AS names
          FROM runs_series s
          JOIN benchmarks_benchmark benchmark ON benchmark.id = s.benchmark_id AND benchmark.ladder = ''
         WHERE s.project_id = path.project_id AND s.machine_id = path.machine_id AND s.metric = path.metric
        OFFSET 0) own
CROSS JOIN LATERAL (
        SELECT array_send(array_agg(m.series_id::bigint)), array_send(array_agg(m.commit_id::bigint)),
               array_send(array_agg(m.attempt_id::bigint)), array_send(array_agg(m.value))
          FROM unnest(own.ids) AS s (id)
    CROSS JOIN LATERAL (
                SELECT m.* FROM runs_measurement m
                 WHERE m.series_id = s.id AND m.commit_id = ANY (path.commits) AND IS_CLEAN_POINT OFFSET 0) m
        HAVING count(*) > 0) found
""")  # noqa: S608 - constants


class NewestMeasured(NamedTuple):
    sha: str
    subject: str
    committed_at: datetime


class Coverage(NamedTuple):
    """How much of the newest commits of a branch a machine measured, and up to which commit, at position ``newest``."""

    project_id: int
    branch_id: int
    machine_id: int
    machine: str
    is_outside: bool
    commits: int
    newest: int
    head: int
    commit_id: int
    sha: str
    subject: str
    committed_at: datetime
    outside_metric: str | None

    @property
    def metric(self) -> Metric:
        """The metric of a card with this machine."""
        return METRICS[self.outside_metric or HEADLINE]

    @property
    def measured(self) -> NewestMeasured:
        return NewestMeasured(self.sha, self.subject, self.committed_at)


class Trend(NamedTuple):
    """A benchmark's headline metric at the newest commits of a branch, oldest first.

    ``line``: NaN is a gap; ``commit_id``: the commit of its ``newest`` value.
    """

    series_id: int
    benchmark: str
    line: Array
    commit_id: int
    newest: float

    @property
    def values(self) -> list[float | None]:
        """The line; None is a gap."""
        return [None if math.isnan(value) else value for value in self.line.tolist()]


class ProjectTrends(NamedTuple):
    """The trends of a project, and ``points``: bytes that differ when any of their points does."""

    trends: Sequence[Trend] = ()
    points: bytes = b""


def fetch(query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def headline_trends(coverages: Sequence[Coverage]) -> dict[int, ProjectTrends]:
    """By branch: the clean values of each project's metric on its machine; of each benchmark, of its newest line."""
    rows = fetch(
        HEADLINES,
        metrics=[coverage.metric.name for coverage in coverages],
        window=WINDOW,
        projects=[coverage.project_id for coverage in coverages],
        branches=[coverage.branch_id for coverage in coverages],
        machines=[coverage.machine_id for coverage in coverages],
    )
    by_project = {coverage.project_id: coverage for coverage in coverages}
    trends: dict[int, ProjectTrends] = defaultdict(ProjectTrends)
    for project, *columns in rows:
        of_project = ProjectTrends(trends_of(by_project[project].head, *columns), digest(*columns[4:]))
        trends[by_project[project].branch_id] = of_project
    return trends


def trends_of(
    head: int, commits: list[int], numbers: list[int], series: list[int], names: list[str], *points: bytes
) -> list[Trend]:
    """The trends of a project from a row of HEADLINES. ``head``: the position of the newest commit.

    Of several measurements of a commit the newest counts.
    """
    first, columns = max(0, head - WINDOW + 1), np.argsort(commits)
    of_series, of_commit, attempt, value = map(array_of, points)
    columns_of_values = np.array(numbers)[columns[np.searchsorted(commits, of_commit, sorter=columns)]] - first
    order = np.argsort(attempt, kind="stable")
    lines = np.full((len(series), head - first + 1), np.nan)
    lines[np.searchsorted(series, of_series)[order], columns_of_values[order]] = value[order]
    commit_at = {number - first: commit for commit, number in zip(commits, numbers, strict=True)}
    is_measured = ~np.isnan(lines)
    newest = lines.shape[1] - 1 - is_measured[:, ::-1].argmax(axis=1)
    trends: dict[str, Trend] = {}
    for row in is_measured.any(axis=1).nonzero()[0].tolist():
        at = int(newest[row])
        trends[names[row]] = Trend(series[row], names[row], lines[row], commit_at[at], float(lines[row, at]))
    return list(trends.values())


def mean_line(lines: Sequence[Array | Sequence[float | None]]) -> tuple[list[float | None], float | None]:
    """The geometric mean of lines by index, and its newest value.

    Each line counts relative to its own median, so that a gap in one is no step; the mean has the level of the
    geometric mean of all medians. None where no line has a value.
    """
    if not lines:
        return [], None
    values = np.array(lines, dtype=float)  # None becomes NaN
    joint, height = joint_line(values)
    line = [None if value is None else value * height for value in joint]
    return line, next((value for value in reversed(line) if value is not None), None)


def joint_line(values: Array) -> tuple[list[float | None], float]:
    """The geometric mean of several lines, each divided by its own median, and that of the medians."""
    positive = np.where(values > 0, values, np.nan)
    positive = positive[np.isfinite(positive).any(axis=1)]
    if not len(positive):
        return [None] * values.shape[1], math.nan
    medians = medians_of(positive)[:, np.newaxis]
    scaled = np.log(positive / medians)
    mask = np.isfinite(scaled)
    sums, counts = np.where(mask, scaled, 0).sum(axis=0), mask.sum(axis=0)
    line = [math.exp(total / count) if count else None for total, count in zip(sums, counts.tolist(), strict=True)]
    return line, math.exp(np.log(medians).mean())


def medians_of(rows: Array) -> Array:
    """The median of each row without its NaNs; nanmedian takes ten times as long."""
    ordered, counts = np.sort(rows, axis=1), (~np.isnan(rows)).sum(axis=1)
    each = np.arange(len(rows))
    middle: Array = (ordered[each, (counts - 1) // 2] + ordered[each, counts // 2]) / 2
    return middle
