"""The cost of detection per new point, with the database, on lines of several lengths."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from research.detection_eval.lines import noise
from research.detection_eval.lines.lines import Line

if TYPE_CHECKING:
    from research.detection_eval.detectors.tracker import TrackedLine

NEW_POINTS = 15  # measured one by one at the end of each line; the median is told
MANY = 200  # series with a new point each, in one pass
TRIALS, SPREAD = 5, 0.005  # of each point, and how much they differ
TICK = os.sysconf("SC_CLK_TCK")
COPY = """
    WITH copied AS (
        INSERT INTO runs_measurement
               (attempt_id, series_id, commit_id, side, value, low, high, n, flags, paired, accepted)
        SELECT m.attempt_id, other.id, m.commit_id, m.side, m.value, m.low, m.high, m.n, m.flags, m.paired, m.accepted
          FROM runs_measurement m, unnest(%(others)s::bigint[]) AS other (id)
         WHERE m.series_id = %(series)s AND m.commit_id = ANY (%(commits)s)
     RETURNING id, attempt_id)
    INSERT INTO runs_samples (measurement_id, values, flagged)
    SELECT copied.id, t.values, t.flagged
      FROM copied
      JOIN runs_measurement m ON m.attempt_id = copied.attempt_id AND m.series_id = %(series)s
      JOIN runs_samples t ON t.measurement_id = m.id
"""


@dataclass(frozen=True)
class CostCase:
    """The history in which a new point is looked at: measured commits, branches that have them, series with them."""

    points: int
    branches: int = 1
    series: int = 1


@dataclass(frozen=True)
class DetectionCost:
    """CPU milliseconds per new point, of the worker and of its PostgreSQL process; ``elapsed`` by the clock."""

    case: CostCase
    worker_ms: float
    database_ms: float
    elapsed_ms: float


def of_a_point(case: CostCase, seed: int) -> DetectionCost:
    """Called in a process of the pool. Each pass looks at one new point of every series."""
    from research.detection_eval.detectors import tracker
    from speedtrack.alerts.detection import detection
    from speedtrack.runs.models import Series

    points = case.points
    tracked = tracker.TrackedLine(quiet_line(points + NEW_POINTS, seed), seed)
    try:
        add_branches(tracked, case.branches - 1)
        further_series = add_series(tracked, case.series - 1)
        measure(tracked, further_series, 0, points - 1)
        Series.objects.update(undetected_since=None)
        analyze()
        backend = backend_pid()
        spent = []
        for i in range(points, points + NEW_POINTS):
            measure(tracked, further_series, i, i)
            began_at = (time.process_time(), cpu_of(backend), time.perf_counter())
            series_count = detection.detect()
            spent.append(
                (np.array([time.process_time(), cpu_of(backend), time.perf_counter()]) - began_at) / series_count
            )
        # The kernel counts another process's CPU in ticks of 10 ms: their mean is more exact than their median.
        worker, elapsed = np.median([row[[0, 2]] for row in spent], axis=0)
        database = np.mean([row[1] for row in spent])
        return DetectionCost(case, *(1000 * float(s) for s in (worker, database, elapsed)))
    finally:
        tracker.clear()


def add_branches(tracked: TrackedLine, count: int) -> None:
    """Create more branches, each with all commits of the line."""
    from speedtrack.projects import chains
    from speedtrack.projects.models import Branch

    for k in range(count):
        branch = Branch.objects.create(project=tracked.project, name=f"branch-{k}")
        chains.append_commits(branch, tracked.commits)


def add_series(tracked: TrackedLine, count: int) -> list[int]:
    """Further series, of benchmarks of their own; their ids."""
    from speedtrack.benchmarks.models import Benchmark
    from speedtrack.runs.models import Series

    first = tracked.series
    benchmarks = Benchmark.objects.bulk_create(
        Benchmark(project=tracked.project, name=f"get-{k}", digest=f"get-{k}", definition={}) for k in range(count)
    )
    series = Series.objects.bulk_create(
        Series(
            project=tracked.project,
            benchmark=benchmark,
            metric=first.metric,
            machine=first.machine,
            environment=first.environment,
        )
        for benchmark in benchmarks
    )
    return [row.pk for row in series]


def measure(tracked: TrackedLine, further_series: list[int], first: int, last: int) -> None:
    """Measure these commits of the line, and of the other series, which show the same."""
    from django.db import connection

    from speedtrack.runs.models import Series

    tracked.measure(first, last)
    commits = [commit.pk for commit in tracked.commits[first : last + 1]]
    with connection.cursor() as cursor:
        cursor.execute(COPY, {"series": tracked.series.pk, "others": further_series, "commits": commits})
    tracked.series.refresh_from_db(fields=["undetected_since"])
    Series.objects.filter(pk__in=further_series).update(undetected_since=tracked.series.undetected_since)


def quiet_line(count: int, seed: int) -> Line:
    rng = np.random.default_rng(seed)
    level = noise.LEVEL * np.exp(noise.draw(rng, count, noise.KINDS["Gaussian"]))
    trials = level[:, None] * np.exp(SPREAD * rng.normal(size=(count, TRIALS)))
    return Line("quiet", trials.tolist(), [], (), [noise.LEVEL] * count)


def analyze() -> None:
    """Do what autovacuum would have done while so long a line was measured."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def backend_pid() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process of this machine has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK
