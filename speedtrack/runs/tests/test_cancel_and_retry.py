import pytest

from speedtrack.runs.documents import FailureReport, Renewal, ReportedProgress
from speedtrack.runs.models import Machine, Run, Status
from speedtrack.runs.queue import queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders


def test_a_waiting_run_is_cancelled_at_once(tracked: Tracked, machine: Machine) -> None:
    run = Run.objects.get(rank=2)
    queue.cancel(run, "nobody asks for it")
    run.refresh_from_db()
    assert run.status == Status.CANCELLED
    assert run.ended_at is not None
    assert run.events.get().why == "nobody asks for it"
    assert builders.claim(machine).rank == 1


def test_a_run_at_work_is_told_with_its_next_renewal(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    assert not queue.renew(machine, run.pk, Renewal(token=run.lease_token))
    queue.cancel(run, "nobody asks for it")
    run.refresh_from_db()
    assert run.status == Status.RUNNING
    assert queue.renew(machine, run.pk, Renewal(token=run.lease_token))
    run.refresh_from_db()
    assert (run.status, run.lease_until) == (Status.CANCELLED, None)
    assert builders.moves(run) == [("queued", "leased"), ("leased", "running"), ("running", "cancelled")]
    assert builders.claim(machine).pk != run.pk


def test_cancelling_twice_changes_nothing(tracked: Tracked) -> None:
    run = Run.objects.get(rank=2)
    queue.cancel(run, "once")
    before = Run.objects.values().get(pk=run.pk)
    queue.cancel(run, "twice")
    assert Run.objects.values().get(pk=run.pk) == before
    assert run.events.count() == 1


def test_a_run_that_ended_is_not_cancelled(tracked: Tracked, machine: Machine) -> None:
    [run] = builders.work(machine, lambda *_: 5000.0, until=1)
    queue.cancel(run, "too late")
    run.refresh_from_db()
    assert (run.status, run.cancel_requested_at) == (Status.SUCCEEDED, None)


def test_a_cancelled_run_whose_runner_is_gone_is_not_queued_again(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    queue.cancel(run, "nobody asks for it")
    builders.expire_lease(run)
    assert queue.reap() == 1
    run.refresh_from_db()
    assert run.status == Status.CANCELLED


def test_a_run_that_completes_before_it_hears_of_the_cancelling_has_succeeded(
    tracked: Tracked, machine: Machine
) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    queue.cancel(run, "late")
    queue.complete(machine, run.pk, run.lease_token)
    run.refresh_from_db()
    assert run.status == Status.SUCCEEDED


def test_a_renewal_begins_the_run_and_keeps_the_last_progress(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    told = ReportedProgress(done=1, total=9, now="get-p1")
    assert not queue.renew(machine, run.pk, Renewal(token=run.lease_token, progress=told))
    assert not queue.renew(machine, run.pk, Renewal(token=run.lease_token))
    run.refresh_from_db()
    assert run.status == Status.RUNNING
    assert run.progress and run.progress.items() >= {"done": 1, "total": 9, "now": "get-p1"}.items()
    assert builders.moves(run) == [("queued", "leased"), ("leased", "running")]


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_run_that_ended_without_success_is_retried_with_fresh_attempts(
    tracked: Tracked, machine: Machine, end: str
) -> None:
    run = builders.claim(machine)
    if end == "failed":
        queue.fail(machine, run.pk, FailureReport(token=run.lease_token, kind="permanent", error="broken"))
    else:
        queue.cancel(run, "not now")
        queue.renew(machine, run.pk, Renewal(token=run.lease_token))
    queue.retry(run, "asked for by ada")
    again = builders.claim(machine)
    assert (again.pk, again.attempt, again.lease_token) == (run.pk, 1, 2)
    assert (again.error, again.cancel_requested_at, again.ended_at) == ("", None, None)
    assert not queue.renew(machine, again.pk, Renewal(token=again.lease_token))
    assert builders.moves(run)[1:] == [("leased", end), (end, "queued"), ("queued", "leased"), ("leased", "running")]


def test_a_run_that_succeeded_or_waits_is_not_retried(tracked: Tracked, machine: Machine) -> None:
    [done] = builders.work(machine, lambda *_: 5000.0, until=1)
    for run in (done, Run.objects.get(rank=0)):
        with pytest.raises(ValueError, match="cannot move"):
            queue.retry(run, "again")
