"""What wakes the dispatcher, and what it asks of PostgreSQL while nothing happens: its real loop, in a thread."""

import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from celery import Celery
from django.apps import apps
from django.db import connection

from speedtrack.celery import BROKER_TRANSPORT, app
from speedtrack.ground.postgres.wakeups import CHANNEL, Wakes
from speedtrack.notices.models import Outbox
from speedtrack.processes import devstack, dispatch
from speedtrack.projects import intake
from speedtrack.projects.models import Project
from speedtrack.runs import naming
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine, MachineEvent, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import byhand
from speedtrack.runs.scheduling import quarantine
from speedtrack.tests import builders

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def machine(tmp_path: Path, settings: Any) -> Machine:
    return builders.tracked_machine(settings, tmp_path)


@pytest.fixture
def quiet(machine: Machine) -> Machine:
    """A machine, and a project that was just looked at: nothing is to be done."""
    Run.objects.all().delete()
    Machine.objects.update(aa_looked_at=now())
    return machine


def now() -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        return cursor.fetchone()[0]


@contextmanager
def listening() -> Iterator[psycopg.Connection]:
    """Another session that hears what the triggers send."""
    with psycopg.connect(**connection.get_connection_params() | {"autocommit": True}) as session:
        session.execute(f"LISTEN {CHANNEL}")
        yield session


def deliver() -> None:
    project = Project.objects.get()
    body = b"{}"
    signature = hmac.new(project.hook_secret.reveal().encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "push"}
    assert intake.receive(project, headers, body)


def ask_for_a_run() -> None:
    assert byhand.queue_by_hand(byhand.choose(Project.objects.get().slug, "main", [], None)) == 1


def resume() -> None:
    machines.resume(naming.machine_named("m1"))


def tell_operators() -> None:
    quarantine.record_event(Machine.objects.get(), MachineEvent.Kind.BLIND, "its canary could not be measured")


def queue_a_mail() -> None:
    tell_operators()
    Outbox.objects.create(recipient="a@example.org", machine_event=MachineEvent.objects.get(), event="blind")


def triggers() -> set[tuple[str, str]]:
    """Table and name of each trigger that PostgreSQL has."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE tgfoid = 'wake_the_dispatcher'::regproc"
        )
        return set(cursor.fetchall())


def test_the_database_has_the_triggers_of_the_models() -> None:
    declared = {
        (model._meta.db_table, one.name): (model, one)
        for model in apps.get_models()
        for one in model._meta.constraints
        if isinstance(one, Wakes)
    }
    assert declared and triggers() == set(declared)
    model, trigger = declared["runs_machine", "a_resumed_machine_wakes"]
    with connection.schema_editor() as editor:  # as a later migration would
        editor.remove_constraint(model, trigger)
    assert triggers() == set(declared) - {("runs_machine", trigger.name)}
    with connection.schema_editor() as editor:
        editor.add_constraint(model, trigger.clone())
    assert triggers() == set(declared)


@pytest.mark.parametrize("write", [deliver, ask_for_a_run, resume, tell_operators, queue_a_mail])
def test_who_writes_what_may_be_work_notifies_with_the_commit(write: Callable[[], None], quiet: Machine) -> None:
    with listening() as session:
        write()
        assert list(session.notifies(timeout=60, stop_after=1))


def test_a_run_notifies_when_it_ends_and_not_while_it_is_measured(machine: Machine) -> None:
    with listening() as session:
        run = builders.claim(machine)
        builders.measure(run)
        queue.renew(machine, run.pk, builders.renewal(run))
        queue.renew(machine, run.pk, builders.renewal(run))
        assert list(session.notifies(timeout=0.2)) == []
        queue.complete(machine, run.pk, run.lease_token)
        assert len(list(session.notifies(timeout=60, stop_after=1))) == 1


class Dispatcher:
    """The dispatcher's loop in a thread, with a broker of its own; its ticks are too rare to help."""

    def __init__(self, broker_url: str) -> None:
        self.broker = builders.redis_client(broker_url)
        self.ends = threading.Event()
        self.statements: list[str] = []
        self.ticks = 0
        self.pid = 0
        self.looked = threading.Event()
        self.thread = threading.Thread(target=self.work)

    def work(self) -> None:
        with connection.execute_wrapper(self.note):
            dispatch.run_until_stopped(self.ends.is_set)

    def note(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements.append(sql)
        found = execute(sql, params, many, context)
        self.pid = connection.connection.info.backend_pid
        if " UNION ALL " in sql:  # the question
            self.looked.set()
        return found

    def tick(self, real: Callable[..., None], celery: Celery, **given: Any) -> None:
        real(celery, **given)
        self.ticks += 1

    def wait_for_a_look(self) -> None:
        assert self.looked.wait(30), self.statements

    def waits_for(self, name: str) -> float:
        """Seconds until a message is in a queue."""
        begun = time.monotonic()
        while not self.broker.llen(f"speedtrack:{name}"):
            assert time.monotonic() < begun + 30, f"nobody nudged {name}"
            time.sleep(0.005)
        return time.monotonic() - begun


@pytest.fixture
def dispatcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: Machine) -> Iterator[Dispatcher]:
    monkeypatch.setattr(devstack, "HOME", tmp_path)
    monkeypatch.setattr(dispatch, "TICK_S", 3600.0)
    monkeypatch.delenv("BROKER_URL", raising=False)
    with devstack.running_broker() as url:
        celery = Celery("test", broker=url)
        queues = {"task_queues": app.conf.task_queues, "task_default_queue": app.conf.task_default_queue}
        celery.conf.update(broker_transport_options=BROKER_TRANSPORT, task_create_missing_queues=False, **queues)
        dispatcher = Dispatcher(url)
        monkeypatch.setattr(dispatch, "tick", partial(dispatcher.tick, dispatch.tick, celery))
        dispatcher.thread.start()
        try:
            dispatcher.wait_for_a_look()
            yield dispatcher
        finally:
            dispatcher.ends.set()
            dispatcher.thread.join(30)
            assert not dispatcher.thread.is_alive()


def test_a_delivery_and_a_queued_run_are_nudged_without_waiting_for_a_tick(dispatcher: Dispatcher) -> None:
    deliver()
    dispatcher.waits_for("sync")
    ask_for_a_run()
    dispatcher.waits_for("machine.m1")


def test_a_lost_session_listens_and_leads_again(dispatcher: Dispatcher) -> None:
    for _ in range(2):
        lost = dispatcher.pid
        dispatcher.looked.clear()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [lost])
        dispatcher.wait_for_a_look()
        assert dispatcher.pid != lost
    deliver()
    dispatcher.waits_for("sync")


def test_a_second_dispatcher_waits_until_the_first_is_gone(dispatcher: Dispatcher) -> None:
    second = dispatch.DispatcherSession()
    assert not second.lead()
    dispatcher.ends.set()
    dispatcher.thread.join(30)
    deadline = time.monotonic() + 30
    while not second.lead():  # PostgreSQL gives the lock back once it has seen that the first session is closed
        assert time.monotonic() < deadline
        time.sleep(0.01)
    connection.close()


def test_nothing_is_asked_while_nothing_happens_and_one_statement_per_tick(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = len(dispatcher.statements)
    time.sleep(2)
    assert len(dispatcher.statements) == asked <= 4  # the lock, LISTEN, the first look, the heartbeat
    monkeypatch.setattr(dispatch, "TICK_S", 0.5)
    deliver()
    dispatcher.waits_for("sync")
    Project.objects.get().deliveries.update(status="processed")
    begun, ticks = time.monotonic(), dispatcher.ticks
    deadline = begun + 60
    while dispatcher.ticks < ticks + 6:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert time.monotonic() - begun > 1.5  # the first may have been under way, and the second was woken by the update
    ticks = dispatcher.ticks
    assert len(dispatcher.statements) - asked in (ticks - 1, ticks)  # one of them may be under way


def test_all_questions_of_a_tick_are_one_statement(quiet: Machine, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        dispatch.tick()
