"""What was measured of the newest commits of projects: how far, and the trends of their benchmarks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array, array_of
from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.ground.postgres.pgvalues import all_rows
from speedtrack.judging.repeated import NewestValues, digest
from speedtrack.projects import positions
from speedtrack.web.drawing.small.sparkline import ROW, Sparkline

WINDOW = 60  # commits of the default branch that a trend shows
# A row for each branch of which one of the newest WINDOW commits was measured: the newest measured commit; the machine
# that measured the most of them; and, of its series of the headline metric, the clean points of those commits. The
# metric of a machine without a runner is the one that most of its series have.
HEADLINES = sql(f"""
      WITH branch AS MATERIALIZED (
        SELECT b.project_id, b.id, max(p.number) AS head, array_agg(p.number ORDER BY p.number) AS numbers,
               array_agg(p.commit_id ORDER BY p.number) AS commits
          FROM projects_branch b
    CROSS JOIN LATERAL ({positions.newest("b.id", str(WINDOW))}) p
         WHERE b.id = ANY(%(branches)s::bigint[])
      GROUP BY b.project_id, b.id),
    coverage AS MATERIALIZED (
        SELECT branch.id AS branch_id, r.machine_id, count(*) AS commits,
               max(array_position(branch.commits, r.commit_id)) AS newest
          FROM branch
    CROSS JOIN LATERAL (
                SELECT machine_id, commit_id FROM runs_run
                 WHERE commit_id = ANY (branch.commits) AND base_id IS NULL AND canary_id IS NULL
                   AND status = 'succeeded' OFFSET 0) r
      GROUP BY branch.id, r.machine_id)
    SELECT branch.id, branch.head, branch.numbers[newest.place], c.sha, c.subject, c.committed_at, best.name,
           headline.metric, own.names, array_send(branch.numbers::bigint[]), array_send(branch.commits::bigint[]),
           array_send(own.ids), found.*
      FROM branch
      JOIN (SELECT DISTINCT ON (branch_id) coverage.*, name, outside
              FROM coverage JOIN runs_machine machine ON machine.id = machine_id
          ORDER BY branch_id, commits DESC, name COLLATE "C") best ON best.branch_id = branch.id
      JOIN (SELECT branch_id, max(newest) AS place FROM coverage
          GROUP BY branch_id) newest ON newest.branch_id = branch.id
CROSS JOIN LATERAL (
        SELECT sha, subject, committed_at FROM projects_commit WHERE id = branch.commits[newest.place] OFFSET 0) c
CROSS JOIN LATERAL (
        SELECT CASE WHEN best.outside
               THEN (SELECT s.metric FROM runs_series s
                      WHERE s.project_id = branch.project_id AND s.machine_id = best.machine_id
                   GROUP BY s.metric ORDER BY count(*) DESC, s.metric LIMIT 1)
               ELSE '{HEADLINE}' END AS metric OFFSET 0) headline
CROSS JOIN LATERAL (
        SELECT array_agg(benchmark.name::text ORDER BY s.id) AS names, array_agg(s.id::bigint ORDER BY s.id) AS ids
          FROM runs_series s
    CROSS JOIN LATERAL (
                SELECT name FROM benchmarks_benchmark WHERE id = s.benchmark_id AND ladder = '' OFFSET 0) benchmark
         WHERE s.project_id = branch.project_id AND s.machine_id = best.machine_id AND s.metric = headline.metric
        OFFSET 0) own
CROSS JOIN LATERAL (
        SELECT array_send(array_agg(m.series_id::bigint)), array_send(array_agg(m.commit_id::bigint)),
               array_send(array_agg(m.attempt_id::bigint)), array_send(array_agg(m.value))
          FROM unnest(own.ids) AS s (id)
    CROSS JOIN LATERAL (
                SELECT m.* FROM runs_measurement m
                 WHERE m.series_id = s.id AND m.commit_id = ANY (branch.commits) AND IS_CLEAN_POINT OFFSET 0) m) found
""")  # noqa: S608 - constants


class NewestMeasured(NamedTuple):
    sha: str
    subject: str
    committed_at: datetime


@dataclass(frozen=True)
class Trend:
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

    @cached_property
    def drawing(self) -> Sparkline:
        """The sparkline for a row of a table, drawn once for all pages that show the trend."""
        return Sparkline.of(self.values, ROW)


class ProjectTrends(NamedTuple):
    """The trends of a project, and ``points``: bytes that differ when any of their points does.

    ``line``: the geometric mean of the trends; ``newest``: its newest value.
    """

    trends: Sequence[Trend] = ()
    points: bytes = b""
    line: Sequence[float | None] = ()
    newest: float | None = None


class Coverage(NamedTuple):
    """What was measured of the newest commits of a branch.

    ``head``, ``newest``: positions, of the newest commit and of the newest measured one. ``machine``: the one that
    measured the most of them, and whose trends these are.
    """

    head: int
    newest: int
    newest_measured: NewestMeasured
    machine: str
    metric: Metric
    of_project: ProjectTrends


#: By digest of what they are made of; at most 5,000 trends, of about 2 kB each.
TRENDS: NewestValues[ProjectTrends] = NewestValues(5000, lambda of_project: len(of_project.trends))


def coverages_of(branches: list[int]) -> dict[int, Coverage]:
    """By branch: what was measured of its newest commits. A branch of which nothing was measured is missing."""
    coverages = {}
    rows = all_rows(HEADLINES, {"branches": branches})
    for branch, head, newest, sha, subject, at, machine, metric, names, *columns in rows:
        is_measured = columns[3] is not None
        of_project = trends_again(head, names, columns) if is_measured else ProjectTrends()
        newest_commit = NewestMeasured(sha, subject, at)
        coverages[branch] = Coverage(head, newest, newest_commit, machine, METRICS[metric or HEADLINE], of_project)
    return coverages


def trends_again(head: int, names: list[str], columns: Sequence[bytes]) -> ProjectTrends:
    """What ``trends_of`` makes of a row of HEADLINES; each process makes it once."""
    key = digest(head.to_bytes(8), "\0".join(names).encode(), *columns)
    of_project = TRENDS.get(key)
    if of_project is None:
        trends = trends_of(head, names, *map(array_of, columns))
        of_project = ProjectTrends(trends, digest(*columns[3:]), *mean_line([trend.line for trend in trends]))
        TRENDS.put(key, of_project)
    return of_project


def trends_of(
    head: int, names: list[str], numbers: Array, commits: Array, series: Array, *points: Array
) -> list[Trend]:
    """A trend for each benchmark of a project, of its newest series, from the columns of HEADLINES.

    ``head``: the position of the newest commit. Of several measurements of a commit the newest counts.
    """
    first, columns = max(0, head - WINDOW + 1), np.argsort(commits)
    of_series, of_commit, attempt, value = points
    columns_of_values = numbers[columns[np.searchsorted(commits, of_commit, sorter=columns)]] - first
    order = np.argsort(attempt, kind="stable")
    lines = np.full((len(series), head - first + 1), np.nan)
    lines[np.searchsorted(series, of_series)[order], columns_of_values[order]] = value[order]
    commit_at = dict(zip((numbers - first).tolist(), commits.tolist(), strict=True))
    is_measured = ~np.isnan(lines)
    newest = lines.shape[1] - 1 - is_measured[:, ::-1].argmax(axis=1)
    trends: dict[str, Trend] = {}
    for row in is_measured.any(axis=1).nonzero()[0].tolist():
        at = int(newest[row])
        trends[names[row]] = Trend(int(series[row]), names[row], lines[row], commit_at[at], float(lines[row, at]))
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
