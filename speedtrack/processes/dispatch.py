"""The dispatcher finds work in PostgreSQL and nudges the process that does it. Short duties it does itself (UPKEEP).

It queries the database when a row that may cause work has changed: database triggers notify it (wakeups.py, and the
models with a ``Wakes``). It also does so every TICK_S, for work that is due by time, and so that nothing depends on a
notification. A query is one statement.

A nudge is sent only if there is work and the queue is empty. So no backlog builds up for a busy or absent receiver, and
a message lost with the broker is sent again at the next tick. One dispatcher works at a time; a second one waits.
"""

import logging
import select
import time
from collections.abc import Callable
from typing import Any

from celery import Celery
from django.conf import settings
from django.db import InterfaceError, OperationalError, connections
from django.db.models import Exists, OuterRef, QuerySet, TextField, Value
from django.db.models.functions import Concat
from kombu import Queue

from runners import probing
from speedtrack.alerts.lines.waiting import alerts_with_unread_effects, runs_with_due_floors, unasked_machines
from speedtrack.alerts.models import AlertEvent, Bisection, ChangePoint, HunkTrial
from speedtrack.celery import app, broker
from speedtrack.ground.postgres import pgsession, pgvalues
from speedtrack.ground.postgres.wakeups import CHANNEL
from speedtrack.monitoring import tasktimes
from speedtrack.monitoring.heartbeats import DISPATCHER, Beating
from speedtrack.monitoring.models import TaskTime
from speedtrack.notices.channels import statuses
from speedtrack.notices.models import CommitStatus, Notice, Outbox
from speedtrack.projects.models import Project
from speedtrack.retention import nightly
from speedtrack.runs.fleet import pools
from speedtrack.runs.models import Alarm, Approval, Import, Machine, MachineEvent, PairedComparison, Run, Series
from speedtrack.runs.planning import choosing, pushes
from speedtrack.runs.queue import lag, queue
from speedtrack.runs.scheduling import canary, order

log = logging.getLogger(__name__)

TICK_S = 5.0
REST_S = 0.1  # least time between two queries, however many notifications come
STOP_S = 1.0  # interval of checks whether to stop, and pause after a failed connection
AFTER_FAILURE_S = 60.0  # pause of a failed duty of the dispatcher
LEADER_LOCK = 0x5339  # advisory: one dispatcher at a time
DATABASE_ERRORS = (OperationalError, InterfaceError)
LOOK_FOR_WORK = "speedtrack.look_for_work"
#: The duties that the dispatcher does itself, at the beginning of a tick.
UPKEEP: dict[str, Callable[[], object]] = {
    "reap": queue.reap,
    "retry": queue.retry_given_up,
    "attend": canary.attend_all,
    "fill": pushes.fill_gaps,
    "lag": lag.look,
    "relieve": pools.relieve,
}
#: The queue and the task of each duty.
TASKS = {
    "sync": ("sync", "speedtrack.tasks.sync"),
    "poll": ("poll", "speedtrack.tasks.poll"),
    "pulls": ("sync", "speedtrack.tasks.pulls"),
    "notify": ("notify", "speedtrack.tasks.notify"),
    "detect": ("detect", "speedtrack.tasks.detect"),
    "calibrate": ("detect", "speedtrack.tasks.calibrate"),
    "prune": ("prune", "speedtrack.tasks.prune"),
}


def duties() -> list[tuple[str, QuerySet[Any]]]:
    """The duties, each with its rows of work."""
    under_way = Run.objects.unfinished().filter(change_points=OuterRef("pk"))
    return [
        ("reap", Run.objects.lost()),
        ("retry", Run.objects.given_up()),
        ("attend", canary.unattended()),
        ("fill", choosing.due_policies()),
        ("pulls", Approval.objects.unplanned()),
        ("pulls", PairedComparison.objects.unplanned()),
        ("lag", lag.unlooked()),
        ("relieve", pools.deserted()),
        ("sync", Project.objects.with_deliveries().at_rest()),
        ("poll", Project.objects.due(settings.POLL_EVERY_S).at_rest()),
        ("notify", Outbox.objects.due()),
        ("notify", Notice.objects.due()),
        ("notify", AlertEvent.objects.tellable()),
        ("notify", MachineEvent.objects.filter(untold=True)),
        ("notify", Alarm.objects.filter(untold=True)),
        ("notify", CommitStatus.objects.due()),
        ("notify", statuses.unwatched()),
        ("detect", Series.objects.undetected()),
        ("detect", Import.objects.exclude(unmarked=[])),
        ("detect", ChangePoint.objects.settling().exclude(Exists(under_way))),
        ("detect", ChangePoint.objects.ripe()),
        ("detect", Bisection.objects.ripe()),
        ("detect", HunkTrial.objects.ripe()),
        ("detect", runs_with_due_floors()),
        ("detect", alerts_with_unread_effects()),
        ("calibrate", unasked_machines()),
        ("prune", nightly.due()),
    ]


def run_until_stopped(stopping: Callable[[], bool]) -> None:
    """Look for work until stopped. While the broker or the database does not answer, log that and wait."""
    session = DispatcherSession()
    try:
        while not stopping():
            look(session, stopping)
    finally:
        pgsession.session().close()  # releases the lock, so the next dispatcher need not wait for our end


def look(session: "DispatcherSession", stopping: Callable[[], bool]) -> None:
    """Look for work once, and wait for the next time to look."""
    try:
        if session.lead():
            tick(question=session.question, upkeep=session.upkeep)
            session.life.beat()
        session.wait(stopping)
    except probing.Unavailable as e:
        log.warning("the broker does not take nudges: they wait, nothing is lost (%s)", e)
        time.sleep(STOP_S)
    except DATABASE_ERRORS as e:
        log.warning("the database does not answer: %s", str(e).strip())
        connections.close_all()
        time.sleep(STOP_S)


class DispatcherSession:
    """The dispatcher's session of PostgreSQL, which holds the leader's lock and receives the notifications."""

    def __init__(self) -> None:
        self.leading: Any = None  # the connection that holds the lock
        self.question: str | None = None
        self.life = Beating(DISPATCHER, every_s=TICK_S)
        self.upkeep = Upkeep()

    @property
    def connection(self) -> Any:
        """psycopg's connection."""
        pgsession.session().ensure_connection()
        return pgsession.session().connection

    def lead(self) -> bool:
        """Take the leader's lock and listen for notifications, unless this session does. False if another one leads.

        Raises ImproperlyConfigured if the session is a pool's.
        """
        if self.connection is self.leading:
            return True
        if not pgsession.take(LEADER_LOCK):
            return False
        with pgsession.session().cursor() as cursor:
            cursor.execute(f"LISTEN {CHANNEL}")  # before the first query, so that no change is missed
        self.leading, self.question = self.connection, build_question()
        return True

    def wait(self, stopping: Callable[[], bool]) -> None:
        """Wait for a notification, the next tick, or the time to stop. Raises if the session is lost."""
        until = time.monotonic() + TICK_S
        time.sleep(REST_S)
        while not stopping() and not self.notified() and (remaining_s := until - time.monotonic()) > 0:
            # psycopg's own wait would wake up ten times a second.
            select.select([self.connection], [], [], min(remaining_s, STOP_S))

    def notified(self) -> bool:
        """Return whether a notification has come since the last call."""
        with pgsession.session().wrap_database_errors:
            return bool(list(self.connection.notifies(timeout=0)))


class Upkeep:
    """The dispatcher's own duties. A failure is logged and counted; the duty pauses, and holds up nothing else."""

    def __init__(self) -> None:
        self.rests_until: dict[str, float] = {}  # by duty, on time.monotonic's clock

    def do(self, duties_found: set[str]) -> bool:
        """Do the found duties that are not paused. Return whether there were any."""
        due = [duty for duty in UPKEEP if duty in duties_found and self.rests_until.get(duty, 0) <= time.monotonic()]
        for duty in due:
            self.attempt(duty)
        return bool(due)

    def attempt(self, duty: str) -> None:
        began_at = time.monotonic()
        try:
            UPKEEP[duty]()
        except DATABASE_ERRORS:
            raise
        except Exception:  # the top of the loop over all duties
            log.exception("the duty %s has failed: it is tried again after %.0f s", duty, AFTER_FAILURE_S)
            self.rests_until[duty] = time.monotonic() + AFTER_FAILURE_S
            tasktimes.add(duty, TaskTime.Outcome.FAILED, time.monotonic() - began_at)


def tick(celery: Celery = app, question: str | None = None, upkeep: Upkeep | None = None) -> None:
    """Do the upkeep that is due, then nudge every process that has work and no message in its queue."""
    due = duties_with_work(question)
    if (upkeep or Upkeep()).do(due):
        due = duties_with_work(question)
    if nudges := nudges_for(due):
        with probing.failures(broker()), celery.connection_for_write() as link:
            for name, task in nudges:
                if probing.is_empty(link, name):
                    celery.send_task(task, queue=Queue(name), connection=link, ignore_result=True)


def build_question() -> str:
    """The statement that finds all work. Building and planning it take many times the CPU time of its execution."""
    queries = [rows.order_by().values_list(Value(duty, TextField()))[:1] for duty, rows in duties()]
    machines = idle_machines_with_work().values_list(Concat(Value("machine."), "name", output_field=TextField()))
    with pgsession.session().cursor() as cursor:
        text: str = cursor.mogrify(*machines.union(*queries, all=True).query.sql_with_params())
    return text


def duties_with_work(question: str | None = None) -> set[str]:
    """The duties that have work, and the queues of machines with work. ``question``: if already built."""
    session, statement = pgsession.session(), question or build_question()
    with pgvalues.apart(session), session.cursor() as cursor:  # PostgreSQL keeps its plan
        cursor.execute(statement)
        return {name for (name,) in cursor.fetchall()}


def decisions_wanted() -> bool:
    """Return whether there are new measurements, suspicions to settle, paired runs to judge, or notices to send."""
    return bool({"detect", "notify"} & duties_with_work())


def nudges_for(due: set[str]) -> list[tuple[str, str]]:
    """(queue, task) for each duty and machine with work. Calibration waits while detection has work."""
    remaining = due - ({"calibrate"} if "detect" in due else set())
    idle = {name for name in remaining if name.startswith("machine.")}
    machines = [(name, LOOK_FOR_WORK) for name in sorted(idle - closed_queues() if idle else idle)]
    return [TASKS[duty] for duty in TASKS if duty in remaining] + machines


def closed_queues() -> set[str]:
    """The queues of machines whose windows are closed, unless a person has queued a run for them."""
    by_hand = Run.objects.filter(machine=OuterRef("pk"), status="queued", priority=order.PRIORITY["manual"])
    with_windows = Machine.objects.exclude(windows=[]).exclude(Exists(by_hand))
    return {machine.queue for machine in with_windows.defer("facts") if not order.is_open(machine)}


def idle_machines_with_work() -> QuerySet[Machine]:
    """Machines without an active run that have a waiting run.

    Those that nobody has heard of lately are left out: a runner looks for work when it starts.
    """
    runs = Run.objects.filter(machine=OuterRef("pk"))
    claimable = Exists(Run.objects.claimable().filter(machine=OuterRef("pk")))
    at_work = Exists(runs.filter(status__in=["leased", "running"]))
    return Machine.objects.filter(claimable, pools.heard_of(), paused=False).exclude(at_work)
