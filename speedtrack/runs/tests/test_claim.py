import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from speedtrack.runs import naming
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Attempt, Machine, Run, Status
from speedtrack.runs.planning import planning
from speedtrack.runs.queue import jobs, queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders, clusters


def test_a_claim_leases_the_run_and_begins_an_attempt(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    assert (run.status, run.attempt, run.lease_token) == (Status.LEASED, 1, 1)
    assert run.started_at is not None
    attempt = Attempt.objects.get()
    assert (attempt.run, attempt.number, attempt.token, attempt.outcome) == (run, 1, 1, "")
    assert builders.moves(run) == [("queued", "leased")]


def test_a_job_as_text_is_its_document(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    assert json.loads(jobs.job_text(run)) == jobs.job_document(run)


def test_the_lease_ends_by_the_clock_of_the_database(tracked: Tracked, machine: Machine, settings: Any) -> None:
    settings.LEASE_S = 77
    run = builders.claim(machine)
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM lease_until - started_at) FROM runs_run WHERE id = %s", [run.pk])
        assert cursor.fetchone() == (77,)


def test_the_newest_commit_of_a_priority_goes_first(tracked: Tracked, machine: Machine) -> None:
    ranks = [run.rank for run in builders.work(machine, lambda *_: 5000.0)]
    assert ranks == [2, 1, 0]


def test_priority_goes_before_age(tracked: Tracked, machine: Machine) -> None:
    Run.objects.filter(rank=0).update(priority=planning.PRIORITY["manual"])
    assert builders.claim(machine).rank == 0


def test_equal_runs_go_in_the_order_they_were_planned(tracked: Tracked, machine: Machine) -> None:
    Run.objects.update(rank=0, priority=1)
    claimed = [run.pk for run in builders.work(machine, lambda *_: 5000.0)]
    assert claimed == sorted(claimed)


def test_a_run_that_must_wait_is_not_claimed(tracked: Tracked, machine: Machine) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE runs_run SET not_before = now() + interval '1 hour'")
    assert queue.claim(machine) is None
    Run.objects.filter(rank=1).update(not_before=Now())
    assert builders.claim(machine).rank == 1


def test_a_paused_machine_gets_nothing_until_it_is_resumed(tracked: Tracked, machine: Machine) -> None:
    machines.pause(naming.machine_named("m1"))
    assert queue.claim(machine) is None
    assert not Run.objects.exclude(status=Status.QUEUED).exists()
    machines.resume(naming.machine_named("m1"))
    assert queue.claim(machine) is not None


def test_a_machine_gets_only_its_own_runs(tracked: Tracked) -> None:
    assert queue.claim(builders.machine("m2")) is None


def test_a_claim_without_work_is_none(machine: Machine) -> None:
    assert queue.claim(machine) is None


def test_a_machine_that_claims_while_it_holds_a_run_gets_that_run_again(tracked: Tracked, machine: Machine) -> None:
    first = builders.claim(machine)
    second = builders.claim(machine)
    assert second.pk == first.pk
    assert (second.attempt, second.lease_token) == (2, 2)
    assert builders.moves(second) == [("queued", "leased"), ("leased", "queued"), ("queued", "leased")]
    assert list(second.attempts.order_by("token").values_list("outcome", flat=True)) == ["queued", ""]
    assert Run.objects.active().count() == 1


def test_a_paused_machine_that_claims_loses_the_run_it_held(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    machines.pause(naming.machine_named("m1"))
    assert queue.claim(machine) is None
    run.refresh_from_db()
    assert run.status == Status.QUEUED


def test_a_run_lost_too_often_fails_and_says_why(tracked: Tracked, machine: Machine, settings: Any) -> None:
    settings.MAX_ATTEMPTS = 2
    first = builders.claim(machine)
    builders.claim(machine)
    third = builders.claim(machine)
    assert third.pk != first.pk
    first.refresh_from_db()
    assert first.status == Status.FAILED
    assert first.error == "given up after 2 attempts; the last: the runner was restarted while it held this run"
    assert first.lease_until is None
    assert first.ended_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_suite_is_not_read_while_the_machine_is_locked(tracked: Tracked, machine: Machine) -> None:
    clusters.forget_rows()
    free, locked = [], []

    def note(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        (locked if connection.in_atomic_block else free).append(sql)
        return execute(sql, *arguments)

    with connection.execute_wrapper(note):
        run = queue.claim(machine)
    assert run and run.begun
    assert any("benchmarks_suite" in sql for sql in free)
    assert any("FOR NO KEY UPDATE" in sql for sql in locked)
    assert not [sql for sql in locked if "benchmarks_" in sql]


@pytest.mark.django_db(transaction=True)
def test_claims_at_once_on_many_machines_never_take_a_run_twice(tracked: Tracked) -> None:
    """One thread per machine works through 30 runs of its own, while a second one of it claims at the same time."""
    machines = [builders.machine(f"many{i}") for i in range(8)]
    template = Run.objects.all()[0]
    rows = []
    for owner in machines:
        for number in range(30):
            row = Run.objects.get(pk=template.pk)
            row.pk, row.machine, row.round = None, owner, number
            rows.append(row)
    Run.objects.bulk_create(rows)
    together = threading.Barrier(8)

    def claim_all(owner: Machine) -> list[tuple[int, int]]:
        try:
            together.wait()
            claimed = []
            while run := queue.claim(owner):
                claimed.append((run.pk, run.lease_token))
                Run.objects.filter(pk=run.pk).update(status=Status.SUCCEEDED, lease_until=None)
            return claimed
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        claimed = [pair for part in pool.map(claim_all, machines) for pair in part]
    assert len(claimed) == len(set(claimed)) == 240
    assert {token for _, token in claimed} == {1}
    assert Attempt.objects.count() == 240


@pytest.mark.django_db(transaction=True)
def test_claims_at_once_of_one_machine_leave_it_one_run_each_lease_its_own(tracked: Tracked, machine: Machine) -> None:
    Run.objects.update(priority=F("rank"))
    together = threading.Barrier(8)

    def claim_once(_: int) -> tuple[int, int] | None:
        try:
            together.wait()
            run = queue.claim(machine)
            return (run.pk, run.lease_token) if run else None
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        claimed = [pair for pair in pool.map(claim_once, range(8)) if pair]
    assert max(Counter(claimed).values()) == 1
    assert Run.objects.active().count() == 1
    held = Run.objects.active().get()
    assert (held.pk, held.lease_token) in claimed
    assert Attempt.objects.filter(outcome="").count() == 1
