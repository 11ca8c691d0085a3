"""The metrics of ``/metrics`` that each scrape reads from PostgreSQL, with a few statements that use indexes.

They describe the whole installation, so each web process reports the same; ``counters`` has those of one process.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from speedtrack.monitoring import counters
from speedtrack.monitoring.health import DATABASE_ERRORS
from speedtrack.monitoring.models import TaskTime
from speedtrack.monitoring.remembered import Remembered
from speedtrack.monitoring.tasktimes import BUCKETS_S

REMEMBERED_S = 2.0
STATEMENT_LIMIT = "SET LOCAL statement_timeout = '5s'"
MACHINE_STATES = ("working", "idle", "silent", "paused", "quarantined", "retired")

# Each yields (label ..., value ...); the ages are in seconds, by the database's clock.
QUEUED = """
SELECT m.name, r.reason, count(*), extract(epoch FROM statement_timestamp() - min(r.created))
FROM runs_run r JOIN runs_machine m ON m.id = r.machine_id WHERE r.status = 'queued' GROUP BY 1, 2
"""
LEASED = """
SELECT m.name, r.reason, extract(epoch FROM statement_timestamp() - r.started_at),
    extract(epoch FROM r.lease_until - statement_timestamp())
FROM runs_run r JOIN runs_machine m ON m.id = r.machine_id WHERE r.status IN ('leased', 'running')
"""
MACHINES = """
SELECT m.name, extract(epoch FROM statement_timestamp() - m.last_seen_at), CASE
    WHEN m.retired_at IS NOT NULL THEN 'retired'
    WHEN m.quarantined_at IS NOT NULL THEN 'quarantined'
    WHEN m.paused THEN 'paused'
    WHEN EXISTS (SELECT FROM runs_run r WHERE r.machine_id = m.id AND r.status IN ('leased', 'running')) THEN 'working'
    WHEN m.last_seen_at > now() - interval '5 minutes' THEN 'idle'
    ELSE 'silent' END
FROM runs_machine m
"""
ENDED = """
SELECT m.name, coalesce(nullif(a.outcome, ''), 'lost'), count(*)
FROM runs_attempt a JOIN runs_run r ON r.id = a.run_id JOIN runs_machine m ON m.id = r.machine_id
WHERE a.ended_at > now() - interval '1 day' GROUP BY 1, 2
"""
# Of each attempt, the flags of its measurements, unless they are known: many measurements may have ended within a day.
FLAGS = """
WITH ended AS MATERIALIZED (
    SELECT id, ended_at FROM runs_attempt WHERE ended_at > now() - interval '1 day'
), unknown AS MATERIALIZED (
    SELECT * FROM ended EXCEPT SELECT * FROM unnest(%s::bigint[], %s::timestamptz[])
), counted AS (
    SELECT a.id, flag, count(*) AS number
    FROM unknown a JOIN runs_measurement o ON o.attempt_id = a.id CROSS JOIN unnest(string_to_array(o.flags, ',')) flag
    GROUP BY 1, 2
)
SELECT id, ended_at, flag, number FROM ended LEFT JOIN counted USING (id)
"""
WAITING_DELIVERIES = """
SELECT provider, count(*), extract(epoch FROM statement_timestamp() - min(received_at))
FROM projects_delivery WHERE status = 'received' GROUP BY 1
"""
OUTBOX = """
SELECT CASE WHEN error = '' THEN 'waiting' ELSE 'failing' END, count(*),
    extract(epoch FROM statement_timestamp() - min(created))
FROM notices_outbox WHERE sent_at IS NULL AND given_up_at IS NULL GROUP BY 1
"""
HEARTBEATS = "SELECT process, extract(epoch FROM statement_timestamp() - at) FROM monitoring_heartbeat"
PROJECTS = """
SELECT CASE WHEN is_public THEN slug ELSE 'private-' || id END, failures,
    extract(epoch FROM statement_timestamp() - synced_at)
FROM projects_project WHERE untracked_at IS NULL
"""
DATABASE_SIZE = "SELECT pg_database_size(current_database())"

Rows = list[tuple[Any, ...]]


def rows_of(statement: str, *values: Any) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        rows: Rows = cursor.fetchall()
        return rows


def gauges(names: dict[str, str], labels: list[str], rows: Rows) -> Iterator[Metric]:
    """One gauge per name (name -> meaning).

    The first columns of the rows are the labels, then comes a value for each gauge.
    """
    for column, (name, meaning) in enumerate(names.items(), start=len(labels)):
        gauge = GaugeMetricFamily(f"speedtrack_{name}", meaning, labels=labels)
        for row in rows:
            if row[column] is not None:
                gauge.add_metric([str(label) for label in row[: len(labels)]], float(row[column]))
        yield gauge


def queue() -> Iterator[Metric]:
    names = {
        "queue_runs": "Runs that wait for their machine, by reason.",
        "queue_oldest_seconds": "Age of the oldest of them.",
    }
    yield from gauges(names, ["machine", "reason"], rows_of(QUEUED))
    names = {
        "lease_age_seconds": "Since when the run that a machine works on has been under way.",
        "lease_left_seconds": "Until when the runner must renew its lease; negative: its run will be taken from it.",
    }
    yield from gauges(names, ["machine", "reason"], rows_of(LEASED))
    names = {"attempts_ended_last_day": "Attempts of runs that ended within 24 hours, by how they ended."}
    yield from gauges(names, ["machine", "outcome"], rows_of(ENDED))


def machines() -> Iterator[Metric]:
    rows = rows_of(MACHINES)
    names = {"machine_silent_seconds": "Time since a machine's runner last called."}
    yield from gauges(names, ["machine"], rows)
    states = [(name, state, state == own) for name, _, own in rows for state in MACHINE_STATES]
    names = {"machine_state": "1 for the state of each machine; silent: no call for 5 minutes."}
    yield from gauges(names, ["machine", "state"], states)


def flags() -> Iterator[Metric]:
    names = {"flagged_measurements_last_day": "Measurements that ended within 24 hours and carry this flag."}
    totals: Counter[str] = Counter()
    for counts in flags_of_attempts().values():
        totals.update(counts)
    yield from gauges(names, ["flag"], list(totals.items()))


#: (id, end) of each attempt that ended within a day -> flag -> measurements with it. They change no more.
known_flags: dict[tuple[int, datetime], dict[str, int]] = {}


def flags_of_attempts() -> dict[tuple[int, datetime], dict[str, int]]:
    """``known_flags`` with the attempts that have ended since the scrape before, and without those of yesterday."""
    ids, ends = map(list, zip(*known_flags, strict=True)) if known_flags else ([], [])
    counts_by_attempt: dict[tuple[int, datetime], dict[str, int]] = {}
    for pk, ended_at, flag, number in rows_of(FLAGS, ids, ends):
        counts = counts_by_attempt.setdefault((pk, ended_at), known_flags.get((pk, ended_at), {}))
        if flag is not None:
            counts[flag] = number
    known_flags.clear()
    known_flags.update(counts_by_attempt)
    return known_flags


def deliveries() -> Iterator[Metric]:
    names = {
        "deliveries_waiting": "Webhook deliveries that wait for a look at their repository.",
        "deliveries_oldest_seconds": "Age of the oldest of them.",
    }
    yield from gauges(names, ["provider"], rows_of(WAITING_DELIVERIES))
    names = {
        "project_failures": "Failed looks at a repository since the last one that succeeded.",
        "project_synced_seconds": "Time since the last look that succeeded.",
    }
    yield from gauges(names, ["project"], rows_of(PROJECTS))


def outbox() -> Iterator[Metric]:
    names = {
        "outbox_messages": "Mails and messages that are to be sent; failing: at least one attempt failed.",
        "outbox_oldest_seconds": "Age of the oldest of them.",
    }
    yield from gauges(names, ["state"], rows_of(OUTBOX))


def processes() -> Iterator[Metric]:
    names = {"heartbeat_age_seconds": "Time since the last sign of life of the dispatcher."}
    yield from gauges(names, ["process"], rows_of(HEARTBEATS))
    times = HistogramMetricFamily(
        "speedtrack_task_seconds", "Durations of tasks in all processes, by how they ended.", labels=["task", "outcome"]
    )
    last = GaugeMetricFamily(
        "speedtrack_task_last_timestamp_seconds", "When a task last ended so.", labels=["task", "outcome"]
    )
    failures = CounterMetricFamily("speedtrack_task_failures", "Tasks that failed.", labels=["task"])
    for row in TaskTime.objects.order_by("task", "outcome"):
        labels = [row.task, row.outcome]
        times.add_metric(labels, buckets_of(row), row.seconds)
        last.add_metric(labels, row.last_at.timestamp())
        if row.outcome == TaskTime.Outcome.FAILED:
            failures.add_metric([row.task], row.count)
    yield from (times, last, failures)


def buckets_of(row: TaskTime) -> list[tuple[str, float]]:
    """(upper end, number of tasks that took no longer), Prometheus' cumulative buckets."""
    total, buckets = 0, []
    for end, count in zip((*map(str, BUCKETS_S), "+Inf"), row.buckets, strict=True):
        total += count
        buckets.append((end, float(total)))
    return buckets


def storage() -> Iterator[Metric]:
    names = {"database_bytes": "Size of the database."}
    yield from gauges(names, [], rows_of(DATABASE_SIZE))


SUBJECTS: tuple[Callable[[], Iterator[Metric]], ...] = (
    *(queue, machines, flags, deliveries, outbox, processes, storage),
)


def gather() -> list[Metric]:
    """All metrics of the database, within one transaction and bounded time."""
    start = time.monotonic()
    metrics: list[Metric] = []
    is_up = True
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(STATEMENT_LIMIT)
            for subject in SUBJECTS:
                metrics += subject()
    except DATABASE_ERRORS:
        connection.close()
        metrics, is_up = [], False
    return [
        *metrics,
        GaugeMetricFamily("speedtrack_database_up", "1 if the database answered this scrape.", float(is_up)),
        GaugeMetricFamily("speedtrack_scrape_seconds", "Duration of the statements.", time.monotonic() - start),
        GaugeMetricFamily(
            "speedtrack_disk_free_bytes", "Free space of SPEEDTRACK_HOME.", shutil.disk_usage(settings.HOME).free
        ),
    ]


newest = Remembered(gather, REMEMBERED_S)


class DatabaseCollector(Collector):
    """Collects the metrics of the database. At most one scrape at a time queries it, however many there are."""

    def collect(self) -> Iterable[Metric]:
        return newest.get()

    def describe(self) -> Iterable[Metric]:
        """Returns nothing, so that registering does not query the database."""
        return []


DATABASE = CollectorRegistry()
DATABASE.register(DatabaseCollector())


def exposition() -> bytes:
    """All metrics in Prometheus' text format. Raises Busy."""
    return generate_latest(counters.PROCESS) + generate_latest(DATABASE)
