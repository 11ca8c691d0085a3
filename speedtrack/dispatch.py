"""The dispatcher: sees in PostgreSQL what is to be done, and nudges who does it. It decides nothing else.

A nudge is sent only where there is work and the queue is empty. So a busy or absent receiver gathers no backlog, and
a message lost with the broker is sent again at the next tick. One dispatcher works at a time; a second one waits.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from celery import Celery
from django.conf import settings
from django.db import OperationalError, connection
from django.db.models import Exists, OuterRef, QuerySet
from kombu import Queue
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

from speedtrack.alerts import floors
from speedtrack.alerts.models import ChangePoint, Outbox
from speedtrack.celery import app
from speedtrack.projects.models import Project
from speedtrack.runs import canary, queue
from speedtrack.runs.models import Machine, MachineEvent, Run, Series, Status

log = logging.getLogger(__name__)

TICK_S = 0.5
LEADER_LOCK = 0x5339  # advisory: one dispatcher at a time
BROKER_ERRORS = (BrokerError, RedisError)
LOOK_FOR_WORK = "speedtrack.look_for_work"


def run(stopping: Callable[[], bool]) -> None:
    """Tick until told to stop. A broker or database that is away is waited for, with a line that says so."""
    while not stopping():
        try:
            if lead():
                tick()
        except BROKER_ERRORS as e:
            log.warning("the broker does not answer (%s): nudges wait, nothing is lost", e)
        except OperationalError as e:
            log.warning("the database does not answer: %s", str(e).strip())
            connection.close()
        time.sleep(TICK_S)


def lead() -> bool:
    """Take the leader's lock, or keep it: it belongs to this database session and ends with it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
                       " AND classid = %s", [LEADER_LOCK])  # fmt: skip
        if cursor.fetchone()[0]:
            return True
        cursor.execute("SELECT pg_try_advisory_lock(%s, 0)", [LEADER_LOCK])
        return bool(cursor.fetchone()[0])


def tick(celery: Celery = app) -> None:
    """Reap expired leases, attend to canaries, then nudge everybody who has work and has not been told."""
    queue.reap()
    canary.attend_all()
    with celery.connection_for_write() as broker, broker.channel() as channel:
        for name, task in wanted():
            if channel.queue_declare(name).message_count == 0:
                celery.send_task(task, queue=Queue(name), connection=broker, ignore_result=True)


def wanted() -> Iterator[tuple[str, str]]:
    """(queue, task) of every duty and machine that has work."""
    duties: dict[str, tuple[QuerySet[Any], ...]] = {
        "sync": (Project.objects.told().at_rest(),),
        "poll": (Project.objects.due(settings.POLL_EVERY_S).at_rest(),),
        "notify": (Outbox.objects.due(), MachineEvent.objects.filter(untold=True)),
    }
    for duty, work in duties.items():
        if any(rows.exists() for rows in work):
            yield duty, f"speedtrack.tasks.{duty}"
    if detection_wanted():
        yield "detect", "speedtrack.tasks.detect"
    elif floors.unasked_machines().exists():
        yield "detect", "speedtrack.tasks.calibrate"
    for machine in idle_machines_with_work():
        yield machine.queue, LOOK_FOR_WORK


def detection_wanted() -> bool:
    """Are there new measurements, suspicions to confirm, or paired runs to judge?"""
    if Series.objects.filter(undetected_since__isnull=False).exists():
        return True
    under_way = Run.objects.unfinished().filter(change_points=OuterRef("pk"))
    settling = ChangePoint.objects.settling().exclude(Exists(under_way))
    return settling.exists() or ChangePoint.objects.ripe().exists() or floors.due().exists()


def idle_machines_with_work() -> list[Machine]:
    """Machines that hold no run although one waits for them."""
    runs = Run.objects.filter(machine=OuterRef("pk"))
    return list(
        Machine.objects.filter(
            Exists(runs.filter(pk__in=Run.objects.claimable().filter(status=Status.QUEUED))), paused=False
        ).exclude(Exists(runs.filter(status__in=["leased", "running"])))
    )
