"""Durations and outcomes of tasks: one row per task and outcome, to which every process adds.

A table is used because tasks run in child processes, in several containers and on several hosts, which share only the
database. It costs one statement per task.
"""

import bisect
import logging
import threading
import time
from typing import Any

from celery.signals import task_postrun, task_prerun
from django.db import Error, connection
from structlog.contextvars import bind_contextvars, clear_contextvars

from speedtrack.ground.observing import traces
from speedtrack.monitoring.models import TaskTime

log = logging.getLogger(__name__)

# Upper ends of the buckets. The last one has none; a worker kills a task after an hour.
BUCKETS_S = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0)
# The constraint finds the row; the array is added element by element.
ADD = f"""
INSERT INTO {TaskTime._meta.db_table} AS known (task, outcome, count, seconds, buckets, last_at)
VALUES (%(task)s, %(outcome)s, 1, %(seconds)s, %(buckets)s, now())
ON CONFLICT (task, outcome) DO UPDATE SET
    count = known.count + 1,
    seconds = known.seconds + excluded.seconds,
    buckets = (SELECT array_agg(one.a + one.b ORDER BY one.at)
               FROM unnest(known.buckets, excluded.buckets) WITH ORDINALITY AS one (a, b, at)),
    last_at = excluded.last_at
"""  # noqa: S608 - the table's name

begun = threading.local()


def add(task: str, outcome: TaskTime.Outcome, seconds: float) -> None:
    """Count one execution of a task."""
    buckets = [0] * (len(BUCKETS_S) + 1)
    buckets[bisect.bisect_left(BUCKETS_S, seconds)] = 1
    with connection.cursor() as cursor:
        cursor.execute(ADD, {"task": task, "outcome": outcome.value, "seconds": seconds, "buckets": buckets})


@task_prerun.connect  # type: ignore[untyped-decorator]
def note_begin(task: Any, task_id: str, **event: Any) -> None:
    begun.at = time.monotonic()
    clear_contextvars()
    bind_contextvars(task=short_name(task.name), task_id=task_id)
    begun.span = traces.span(f"task {short_name(task.name)}")
    begun.attributes = begun.span.__enter__()


@task_postrun.connect  # type: ignore[untyped-decorator]
def note_end(task: Any, state: str, **event: Any) -> None:
    """Count a task that has ended.

    If a failed task has lost the database, its time is lost as well, without another error.
    """
    outcome = TaskTime.Outcome.SUCCEEDED if state == "SUCCESS" else TaskTime.Outcome.FAILED
    begun.attributes["outcome"] = outcome.value
    begun.span.__exit__(None, None, None)
    try:
        add(short_name(task.name), outcome, time.monotonic() - begun.at)
    except Error as e:
        log.warning("the time of a task could not be stored: %s", str(e).strip())
    finally:
        clear_contextvars()


def short_name(task: str) -> str:
    return task.rpartition(".")[2]
