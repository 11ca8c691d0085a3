"""The cost of detection in one series after one new point, with the database.

python research/detection_cost.py [--lengths 240,1000,10000] [--branches 20] [--series 2000] [--points 240]

Needs no database: it starts an embedded PostgreSQL of its own and fills it with histories of five trials per commit,
each with a clear step every 100 commits. Printed are milliseconds per call of `detect_in`: CPU time of this process,
CPU time of the PostgreSQL process that serves it (from /proc, in steps of 10 ms over all calls), and the time by the
clock. Then one pass of `detect` over many series with one new point each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import django

import speedtrack.tests.embedded  # noqa: F401 - sets the database

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")
django.setup()

from django.core.management import call_command  # noqa: E402 - models: only once Django is set up
from django.db import connection  # noqa: E402

from speedtrack.alerts.detection import detection  # noqa: E402
from speedtrack.runs.models import Series  # noqa: E402
from speedtrack.tests.histories import History  # noqa: E402

REPEATS = 40
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def trials(length: int, seed: int) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    level = 5000 * np.where(np.arange(length) // 100 % 2, 1.1, 1.0) * np.exp(0.01 * rng.normal(size=length))
    values: list[list[float]] = (level[:, None] * np.exp(0.005 * rng.normal(size=(length, 5)))).tolist()
    return values


def server_ms() -> float:
    """CPU time that the PostgreSQL process of this connection has taken."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_MS


def cost(title: str, call: Callable[[], object], repeats: int = REPEATS) -> None:
    for _ in range(6):
        call()  # plans and caches
    server, python, clock = server_ms(), time.process_time(), []
    for _ in range(repeats):
        began_at = time.perf_counter()
        call()
        clock.append(1000 * (time.perf_counter() - began_at))
    python, server = 1000 * (time.process_time() - python) / repeats, (server_ms() - server) / repeats
    print(f"{title:44} {python:8.1f} {server:10.1f} {python + server:8.1f} {median(clock):8.1f}", flush=True)


def analyse() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def of_lengths(lengths: list[int], branches: int) -> None:
    for length in lengths:
        history = History(f"of-{length}")
        series = history.series()
        commits = history.commits(length)
        values = trials(length, length)
        old = {c.pk: [v] for c, v in zip(commits[:-1], values, strict=False)}
        history.measure([series], old)
        detection.detect()
        since = history.measure([series], {commits[-1].pk: [values[-1]]})
        analyse()
        cost(f"{length} points, the newest is new", partial(detection.detect_in, [(series, since)]))
        middle = history.measure([series], {commits[length // 2].pk: [values[length // 2]]})
        cost(f"{length} points, one in the middle is new", partial(detection.detect_in, [(series, middle)]))
        if length == lengths[-1]:
            for i in range(branches - 1):
                history.fork(f"fork-{i}", commits)
            analyse()
            cost(f"{length} points, {branches} equal branches", partial(detection.detect_in, [(series, middle)]), 10)
            tips(history, series, branches)


def tips(history: History, series: Series, branches: int) -> None:
    """The branches diverge: each has five measured commits of its own, and the new point is in their common history."""
    rng = np.random.default_rng(3)
    for branch in history.project.branches.exclude(name="main"):
        own = history.commits(5, branch)
        history.measure([series], {c.pk: [(5000 * np.exp(0.01 * rng.normal(size=5))).tolist()] for c in own})
    shared = history.branch.positions.order_by("-number")[3].commit
    since = history.measure([series], {shared.pk: [[5000.0, 5010, 4990, 5020, 4980]]})
    analyse()
    cost(f"{branches} diverged branches, a shared point is new", partial(detection.detect_in, [(series, since)]), 10)


def pass_over(count: int, points: int) -> None:
    history = History("many")
    series = [history.series(f"b{i}") for i in range(count)]
    commits = history.commits(points + 1)
    rng = np.random.default_rng(1)
    values = 5000 * np.exp(
        0.01 * rng.normal(size=(points + 1, count, 1)) + 0.005 * rng.normal(size=(points + 1, count, 5))
    )
    history.measure(series, {c.pk: v.tolist() for c, v in zip(commits[:-1], values, strict=False)})
    Series.objects.update(undetected_since=None)
    history.measure(series, {commits[-1].pk: values[-1].tolist()})
    analyse()
    server, python, began_at = server_ms(), time.process_time(), time.perf_counter()
    series_count = detection.detect()
    python, server, clock = time.process_time() - python, server_ms() - server, time.perf_counter() - began_at
    cpu = f"{python:.1f} s Python, {server / 1000:.1f} s PostgreSQL"
    print(f"one pass over {series_count} series of {points} points: {cpu}, {clock:.1f} s by the clock")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="240,1000,10000")
    parser.add_argument("--branches", type=int, default=20)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--points", type=int, default=240)
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    print(f"{'ms per new point':44} {'Python':>8} {'PostgreSQL':>10} {'both':>8} {'clock':>8}")
    if options.lengths:
        of_lengths([int(n) for n in options.lengths.split(",")], options.branches)
    if options.series:
        pass_over(options.series, options.points)


if __name__ == "__main__":
    main()
