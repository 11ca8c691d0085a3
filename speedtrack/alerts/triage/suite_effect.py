"""The effect of an alert's commits on the whole suite: the geometric mean over its benchmarks."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db import connection

from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric

BESIDE = 5  # measured commits to each side, at most, that give the level of a benchmark without a confirmed change

# Of each series of the metric on the machine with points there: the step, and whether a commit has several points. The
# commits are two arrays, so that the index of points finds those of a series by them.
STEPS = lines.sql("""
      WITH path AS MATERIALIZED (
        SELECT array_agg(commit_id) FILTER (WHERE number <= %(first)s) AS before,
               array_agg(commit_id) FILTER (WHERE number >= %(last)s) AS after
          FROM projects_position
         WHERE branch_id = %(branch)s AND number > %(first)s - %(beside)s AND number < %(last)s + %(beside)s)
    SELECT s.id, s.benchmark_id, clean.after - clean.before, clean.is_repeated
      FROM path
CROSS JOIN runs_series s
CROSS JOIN LATERAL (
        SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ln(m.value)) FILTER (WHERE m.commit_id = ANY (path.before))
               AS before,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY ln(m.value)) FILTER (WHERE m.commit_id = ANY (path.after))
               AS after,
               count(*) > count(DISTINCT m.commit_id) AS is_repeated
          FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = ANY (path.before || path.after) AND IS_CLEAN_POINT AND m.value > 0
        HAVING count(*) > 0) clean
     WHERE s.project_id = %(project)s AND s.machine_id = %(machine)s AND s.metric = %(metric)s
  ORDER BY s.id
""")


@dataclass(frozen=True)
class SuiteEffect:
    """The change of the headline metric over the suite on one machine.

    ``ratio``: after / before, as a geometric mean over the benchmarks.
    """

    ratio: float
    benchmarks: int
    moved: int
    machine: str

    @property
    def metric(self) -> Metric:
        return METRICS[HEADLINE]


def suite_effect(alert: Alert, points: Sequence[ChangePoint]) -> SuiteEffect | None:
    """Over the benchmarks measured on both sides of the alert's range, on the machine that saw the worst of it.

    ``points``: the alert's change points, the worst first. A benchmark with a confirmed change counts by its pairs, any
    other by its line: the medians of a few commits before and after. None if none was measured on both sides.
    """
    machine = points[0].series.machine
    if len(alert.ends) < 2:
        return None
    paired = {
        cp.series.benchmark_id: math.log(cp.ratio)
        for cp in points
        if cp.series.metric == HEADLINE and cp.series.machine_id == machine.pk and cp.ratio > 0
    }
    steps = steps_by_benchmark(alert, machine.pk) | paired
    if not steps:
        return None
    mean = math.exp(sum(steps.values()) / len(steps))
    return SuiteEffect(mean, len(steps), len(paired), machine.name)


def steps_by_benchmark(alert: Alert, machine: int) -> dict[int, float]:
    """Benchmark id -> logarithm of after / before, by clean points of one series on both sides; of several the newest.

    PostgreSQL takes the medians, but where a commit was measured more than once its samples are pooled.
    """
    first, last = alert.ends
    around: dict[str, Any] = {"branch": alert.branch_id, "first": first, "last": last, "beside": BESIDE}
    with connection.cursor() as cursor:
        cursor.execute(STEPS, {**around, "project": alert.project_id, "machine": machine, "metric": HEADLINE})
        rows = cursor.fetchall()
    repeated = [series for series, *_, is_repeated in rows if is_repeated]
    pooled = pooled_steps(alert, repeated) if repeated else {}
    steps = {series: (benchmark, pooled.get(series) if again else step) for series, benchmark, step, again in rows}
    return {benchmark: step for benchmark, step in steps.values() if step is not None}


def pooled_steps(alert: Alert, series: Iterable[int]) -> dict[int, float]:
    """Series id -> logarithm of after / before."""
    first, last = alert.ends
    before: dict[int, list[float]] = defaultdict(list)
    after: dict[int, list[float]] = defaultdict(list)
    for point in lines.points(series, alert.branch, first - BESIDE + 1, last + BESIDE - 1):
        if not point.flags and point.value > 0 and not first < point.position < last:
            (before if point.position <= first else after)[point.series_id].append(math.log(point.value))
    return {pk: median(after[pk]) - median(before[pk]) for pk in before if after[pk]}
