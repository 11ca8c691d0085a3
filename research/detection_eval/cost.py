"""The cost of detection per new point, with the database, on lines of several lengths."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from research.detection_eval import noise
from research.detection_eval.lines import Line

NEW_POINTS = 15  # measured one by one at the end of each line; the median is told
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class DetectionCost:
    """CPU milliseconds per new point, of the worker and of its PostgreSQL process; ``elapsed`` by the clock."""

    points: int
    branches: int
    worker_ms: float
    database_ms: float
    elapsed_ms: float


def of_a_point(points: int, branches: int, seed: int) -> DetectionCost:
    """Called in a process of the pool."""
    from research.detection_eval import tracker
    from speedtrack.alerts import detection
    from speedtrack.projects.models import Branch, Position
    from speedtrack.runs.models import Series

    line = quiet_line(points + NEW_POINTS, seed)
    tracked = tracker.TrackedLine(line, seed)
    try:
        for k in range(1, branches):
            branch = Branch.objects.create(project=tracked.project, name=f"branch-{k}")
            Position.objects.bulk_create(
                Position(branch=branch, commit=commit, number=i) for i, commit in enumerate(tracked.commits)
            )
        tracked.measure(0, points - 1)
        Series.objects.filter(pk=tracked.series.pk).update(undetected_since=None)
        analyze()
        backend = backend_pid()
        spent = []
        for i in range(points, points + NEW_POINTS):
            tracked.measure(i)
            begun = (time.process_time(), cpu_of(backend), time.perf_counter())
            detection.detect()
            spent.append(np.array([time.process_time(), cpu_of(backend), time.perf_counter()]) - begun)
        # The kernel counts another process's CPU in ticks of 10 ms: their mean is more exact than their median.
        worker, elapsed = np.median([row[[0, 2]] for row in spent], axis=0)
        database = np.mean([row[1] for row in spent])
        return DetectionCost(points, branches, *(1000 * float(s) for s in (worker, database, elapsed)))
    finally:
        tracker.clear()


def quiet_line(count: int, seed: int) -> Line:
    deviation = noise.draw(np.random.default_rng(seed), count, noise.KINDS["Gaussian"])
    return Line("quiet", [[float(v)] for v in noise.LEVEL * np.exp(deviation)], [], (), [noise.LEVEL] * count)


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
