"""The dispatcher with a real broker: nudges by credit, and none is missed when the broker forgets."""

import hashlib
import hmac
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from celery import Celery
from django.db import connection, transaction
from django.utils import timezone

from runners import probing
from speedtrack.celery import BROKER_TRANSPORT, app
from speedtrack.ground.postgres import pgvalues
from speedtrack.monitoring.models import TaskTime
from speedtrack.processes import devstack, dispatch
from speedtrack.projects import intake
from speedtrack.projects.models import Project, PullRequest
from speedtrack.runs.fleet import pools
from speedtrack.runs.models import Machine, PlanningPolicy, Run, Status
from speedtrack.runs.planning import choosing, pullrequests
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import rules
from speedtrack.tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def broker_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(devstack, "HOME", tmp_path)
    monkeypatch.delenv("BROKER_URL", raising=False)
    with devstack.running_broker() as url:
        yield url


@pytest.fixture
def celery(broker_url: str) -> Celery:
    celery = Celery("test", broker=broker_url)
    celery.conf.update(
        broker_transport_options=BROKER_TRANSPORT,
        task_queues=app.conf.task_queues,
        task_default_queue=app.conf.task_default_queue,
        task_create_missing_queues=False,
    )
    return celery


@pytest.fixture
def machine(tmp_path: Path, settings: Any) -> Machine:
    return builders.tracked_machine(settings, tmp_path)


def messages(broker_url: str, name: str) -> int:
    return int(builders.redis_client(broker_url).llen(f"speedtrack:{name}"))


def test_an_idle_machine_with_work_is_nudged_once(celery: Celery, broker_url: str, machine: Machine) -> None:
    for _ in range(5):
        dispatch.tick(celery)
    assert messages(broker_url, machine.queue) == 1


def test_a_machine_at_work_is_left_alone(celery: Celery, broker_url: str, machine: Machine) -> None:
    queue.claim(machine)
    dispatch.tick(celery)
    assert messages(broker_url, machine.queue) == 0


def test_a_machine_whose_windows_are_closed_is_nudged_for_what_a_person_asks(
    celery: Celery, broker_url: str, machine: Machine
) -> None:
    hour = (timezone.now() + timedelta(hours=6)).hour
    rules.set_windows(machine, [f"{hour:02}:00-{hour:02}:30"], "UTC")
    dispatch.tick(celery)
    assert messages(broker_url, machine.queue) == 0
    queue.raise_run(Run.objects.latest("pk"), "by hand")
    dispatch.tick(celery)
    assert messages(broker_url, machine.queue) == 1


def test_put_off_commits_are_queued_once_the_machine_has_nothing_else(
    celery: Celery, broker_url: str, machine: Machine
) -> None:
    project = Project.objects.get()
    rules.save_policy(project, rules.WantedPolicy(most_waiting=1))
    branch = project.branches.get()
    Run.objects.all().delete()
    choosing.plan_pushed(branch, project.commits.all())
    dispatch.tick(celery)
    assert Run.objects.count() == 1
    builders.work(machine, lambda *_: 5000.0)
    for waiting in (1, 1, 0):
        PlanningPolicy.objects.update(filled_at=None)
        dispatch.tick(celery)
        assert Run.objects.filter(status=Status.QUEUED).count() == waiting
        builders.work(machine, lambda *_: 5000.0)
    assert Run.objects.filter(status=Status.SUCCEEDED).count() == 3


def test_a_suite_with_a_mistake_is_noted_on_its_project_and_stops_nothing_else(
    celery: Celery, broker_url: str, machine: Machine, settings: Any
) -> None:
    project = Project.objects.get()
    rules.save_policy(project, rules.WantedPolicy(most_waiting=1))
    choosing.plan_pushed(project.branches.get(), project.commits.all())
    Run.objects.filter(status=Status.QUEUED).delete()
    (settings.SUITES / "tiny.toml").write_text("name = 1")
    PlanningPolicy.objects.update(filled_at=None)
    dispatch.tick(celery)
    project.refresh_from_db()
    assert "tiny" in project.error and project.failures == 1
    assert "fill" not in dispatch.duties_with_work(), "it rests, and is tried again"


def test_a_duty_that_fails_holds_up_no_other(
    celery: Celery, broker_url: str, machine: Machine, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ValueError("a defect")

    run = queue.claim(machine)
    assert run is not None
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(days=1))
    Project.objects.update(lag_looked_at=timezone.now() - timedelta(days=1))
    monkeypatch.setattr(dispatch, "UPKEEP", {"lag": fail, "reap": queue.reap})
    upkeep = dispatch.Upkeep()
    for _ in range(3):
        dispatch.tick(celery, upkeep=upkeep)
    assert Run.objects.get(pk=run.pk).status == "queued"
    assert messages(broker_url, machine.queue) == 1
    assert caplog.text.count("ValueError: a defect") == 1, "it rests after a failure"
    assert TaskTime.objects.get(task="lag").outcome == TaskTime.Outcome.FAILED


def test_an_approval_nudges_the_git_worker(celery: Celery, broker_url: str, machine: Machine) -> None:
    Project.objects.update(polled_at=timezone.now())
    known = {"head_sha": "a" * 40, "base_ref": "main", "updated_at": timezone.now()}
    pull = PullRequest.objects.create(project=Project.objects.get(), number=1, **known)
    dispatch.tick(celery)
    assert messages(broker_url, "sync") == 0
    pullrequests.approve(pull, "a" * 40, None)
    dispatch.tick(celery)
    assert messages(broker_url, "sync") == 1
    pullrequests.plan_approved()
    assert "pulls" not in dispatch.duties_with_work(), "its failure is stored"


def test_a_paused_machine_is_left_alone(celery: Celery, broker_url: str, machine: Machine) -> None:
    Machine.objects.update(paused=True)
    dispatch.tick(celery)
    assert messages(broker_url, machine.queue) == 0


def test_a_machine_that_nobody_has_heard_of_lately_costs_no_connection_to_the_broker(
    celery: Celery, broker_url: str, machine: Machine
) -> None:
    nowhere = Celery("test", broker="redis://127.0.0.1:1/0")
    nowhere.conf.update(broker_transport_options=BROKER_TRANSPORT)
    Machine.objects.update(created=timezone.now() - pools.AWAY)
    dispatch.tick(nowhere)
    machine.note_call()
    with pytest.raises(probing.Unavailable):
        dispatch.tick(nowhere)
    dispatch.tick(celery)
    assert messages(broker_url, machine.queue) == 1


def test_a_flushed_broker_is_told_again(celery: Celery, broker_url: str, machine: Machine) -> None:
    dispatch.tick(celery)
    builders.redis_client(broker_url).flushall()
    dispatch.tick(celery)
    assert messages(broker_url, machine.queue) == 1


def test_each_duty_with_work_is_nudged_on_its_own_queue(celery: Celery, broker_url: str, machine: Machine) -> None:
    project = Project.objects.get()
    body = b"{}"
    signature = hmac.new(project.hook_secret.reveal().encode(), body, hashlib.sha256).hexdigest()
    intake.receive(project, {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "push"}, body)
    builders.work(machine, lambda sha, benchmark, trial: 5000.0 + trial)
    dispatch.tick(celery)
    assert {name: messages(broker_url, name) for name in ("sync", "poll", "detect", "notify")} == {
        "sync": 1,
        "poll": 0,
        "detect": 1,
        "notify": 0,
    }


def test_expired_leases_are_reaped_by_the_tick(celery: Celery, broker_url: str, machine: Machine) -> None:
    run = queue.claim(machine)
    assert run is not None
    with connection.cursor() as cursor:
        cursor.execute("UPDATE runs_run SET lease_until = now() - interval '1 second' WHERE id = %s", [run.pk])
    dispatch.tick(celery)
    assert Run.objects.get(pk=run.pk).status == "queued"
    assert messages(broker_url, machine.queue) == 1


def test_without_a_broker_the_loop_goes_on(machine: Machine, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = Celery("test", broker="redis://127.0.0.1:1/0")
    nowhere.conf.update(broker_transport_options=BROKER_TRANSPORT)
    monkeypatch.setattr(dispatch, "tick", lambda real=dispatch.tick, **given: real(nowhere, **given))
    rounds = iter([False, False, True])
    dispatch.run_until_stopped(lambda: next(rounds))
    assert caplog.text.count("nothing is lost") == 2
    with psycopg.connect(**connection.get_connection_params()) as other:
        assert other.execute("SELECT pg_try_advisory_lock(%s, 0)", [dispatch.LEADER_LOCK]).fetchone() == (True,)


@pytest.mark.django_db(transaction=True)
def test_a_duty_that_fails_in_a_transaction_leaves_the_question_as_it_is(machine: Machine) -> None:
    """At a ROLLBACK psycopg drops the statements that the session has prepared, and not only its own."""
    session = dispatch.DispatcherSession()
    assert session.lead()
    try:
        with pytest.raises(RuntimeError), transaction.atomic():
            for _ in range(2):  # the second time it is prepared
                pgvalues.row_of("SELECT %(number)s::int", {"number": 1})
            raise RuntimeError
        for _ in range(3):
            assert machine.queue in dispatch.duties_with_work(session.question)
    finally:
        connection.close()
