"""One machine, one runner: a second one with the same token is refused, and a requested stop costs no attempt."""

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack import __version__
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.fleet import tokens
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.scheduling import standing
from speedtrack.runs.scheduling.versions import PROTOCOL
from speedtrack.tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def machine(tmp_path, settings) -> Machine:  # type: ignore[no-untyped-def]
    builders.use_suite(settings, tmp_path / "suites")
    repository = builders.Repository(tmp_path / "repository")
    repository.commits(2)
    machine = builders.machine()
    builders.track(repository)
    return machine


def test_a_second_runner_with_the_token_is_refused_while_the_first_works(machine: Machine) -> None:
    run = queue.claim(machine, "one")
    assert run is not None
    for _ in range(4):
        with pytest.raises(queue.Occupied, match="a token of its own"):
            queue.claim(machine, "two")
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("leased", 1)


def test_the_same_runner_restarted_takes_its_run_again_at_once(machine: Machine) -> None:
    first = queue.claim(machine, "one")
    again = queue.claim(machine, "one")
    assert first is not None
    assert again is not None
    assert (again.pk, again.attempt, again.lease_token) == (first.pk, 2, 2)


def test_a_runner_moved_to_another_home_waits_for_the_lease_to_end(machine: Machine) -> None:
    run = queue.claim(machine, "one")
    assert run is not None
    with connection.cursor() as cursor:
        cursor.execute("UPDATE runs_run SET lease_until = now() - interval '1 second' WHERE id = %s", [run.pk])
    again = queue.claim(machine, "two")
    assert again is not None
    assert again.pk == run.pk


def test_a_run_handed_back_by_a_stopping_runner_has_lost_no_attempt(machine: Machine) -> None:
    for _ in range(5):
        run = queue.claim(machine, "one")
        assert run is not None
        stopped = FailureReport(token=run.lease_token, kind="stopped", error="runner is shutting down")
        queue.fail(machine, run.pk, stopped)
        Run.objects.update(not_before=Now())
    run = Run.objects.get(pk=run.pk)
    assert (run.status, run.attempt) == ("queued", 0)
    assert Run.objects.filter(status="failed").count() == 0


def test_a_run_that_is_handed_back_again_and_again_lets_others_go_first(machine: Machine) -> None:
    """As one that fills the disk: the runner clears it, and would take the same run for ever."""
    order = []
    for _ in range(6):
        run = queue.claim(machine, "one")
        assert run is not None
        order.append(run.pk)
        stopped = FailureReport(token=run.lease_token, kind="stopped", error="the disk is full: free space")
        queue.fail(machine, run.pk, stopped)
    first, second = dict.fromkeys(order)
    assert order == [first] * 3 + [second] * 3
    run = Run.objects.get(pk=first)
    assert (run.status, run.attempt) == ("queued", 0)
    sentence = standing.why_wait([run])[first]
    assert sentence.startswith("It is not tried before ")
    assert sentence.endswith(", because its runner handed it back: the disk is full: free space.")
    pauses = []
    for _ in range(9):
        Run.objects.filter(pk=first).update(not_before=Now())
        held = queue.claim(machine, "one")
        assert held == run
        queue.fail(machine, first, FailureReport(token=held.lease_token, kind="stopped", error="the disk is full"))
        pauses.append(round((Run.objects.get(pk=first).not_before - timezone.now()).total_seconds() / 60))
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60, 60], "minutes"


def test_the_refusal_is_a_403_over_http(machine: Machine, client) -> None:  # type: ignore[no-untyped-def]
    token = tokens.give(machine)
    queue.claim(machine, "one")
    answer = client.post(
        "/api/runner/claim",
        {"instance": "two", "version": __version__, "protocol": PROTOCOL},
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == 403
    assert "another runner" in answer.json()["error"]
