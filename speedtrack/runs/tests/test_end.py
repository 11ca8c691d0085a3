"""How an attempt ends: by complete, by fail, or because the runner is silent."""

from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from speedtrack.runs.documents import FailureReport, Renewal
from speedtrack.runs.models import Machine, Measurement, Reason, Run, Samples, Series, Status
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.queue import ends, fence, queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.results import results
from speedtrack.tests import builders


def transient(run: Run, error: str = "no disk") -> FailureReport:
    return FailureReport(token=run.lease_token, kind="transient", error=error)


def permanent(run: Run, error: str = "make exited with code 2") -> FailureReport:
    return FailureReport(token=run.lease_token, kind="permanent", error=error)


def shown(tracked: Tracked) -> dict[str, float]:
    """The accepted points of get-p1: commit -> value. That charts load just these is tested with the API."""
    points = Measurement.objects.filter(accepted=True, paired=False, series__project=tracked.project)
    points = points.filter(series__benchmark__name="get-p1", series__metric="server_cpu_ns_per_request")
    rows = list(points.values_list("commit__sha", "value"))
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def test_a_complete_run_shows_its_measurements(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    assert shown(tracked) == {}
    assert not Series.objects.exclude(undetected_since=None).exists()
    queue.complete(machine, run.pk, run.lease_token)
    run.refresh_from_db()
    assert run.status == Status.SUCCEEDED
    assert shown(tracked) == {run.commit.sha: 5002.0}
    assert not Series.objects.filter(undetected_since=None).exists()
    assert builders.moves(run) == [("queued", "leased"), ("leased", "succeeded")]
    assert run.attempts.get().outcome == Status.SUCCEEDED


def test_completing_twice_changes_nothing(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    queue.complete(machine, run.pk, run.lease_token)
    before = (Run.objects.values().get(pk=run.pk), list(Series.objects.values()))
    queue.complete(machine, run.pk, run.lease_token)
    assert (Run.objects.values().get(pk=run.pk), list(Series.objects.values())) == before
    assert len(builders.moves(run)) == 2


def test_a_run_without_all_its_measurements_is_not_complete(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    with pytest.raises(ends.Incomplete, match="0 of 2 measurements"):
        queue.complete(machine, run.pk, run.lease_token)
    results.accept_result(machine, run.pk, builders.result(run, "set-p1", run.commit, [1.0] * 5))
    with pytest.raises(ends.Incomplete, match="1 of 2 measurements"):
        queue.complete(machine, run.pk, run.lease_token)
    run.refresh_from_db()
    assert run.status == Status.LEASED
    assert not Measurement.objects.filter(accepted=True).exists()


def test_what_is_out_of_reach_of_the_machine_is_no_failure(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    reasons = {"get-p1": "9999 connections need more open files", "no-such": "?"}
    with pytest.raises(ends.Incomplete, match="0 of 1 measurements"):
        queue.complete(machine, run.pk, run.lease_token, reasons)
    results.accept_result(machine, run.pk, builders.result(run, "set-p1", run.commit, [1.0] * 5))
    with pytest.raises(ends.Incomplete, match="1 of 2 measurements"):
        queue.complete(machine, run.pk, run.lease_token, {"no-such": "?", "set-p1": "measured"})
    queue.complete(machine, run.pk, run.lease_token, reasons)
    run.refresh_from_db()
    assert (run.status, run.error) == (Status.SUCCEEDED, "")
    assert run.attempts.get().out_of_reach == {"get-p1": "9999 connections need more open files"}
    assert "get-p1 is out of reach: 9999 connections" in run.events.order_by("pk").last().why  # type: ignore[union-attr]


def test_both_sides_of_a_pair_are_needed_whatever_is_out_of_reach(tracked: Tracked, machine: Machine) -> None:
    first, second = Run.objects.get(rank=0), Run.objects.get(rank=2).commit
    plan_pairs(Question(first.commit_id, second.pk, machine, first.suite, first.benchmark_set, Reason.CONFIRM))
    run = builders.claim(machine)
    for commit in (first.commit, second):
        results.accept_result(machine, run.pk, builders.result(run, "set-p1", commit, [1.0] * 5))
    with pytest.raises(ends.Incomplete, match="2 of 4"):
        queue.complete(machine, run.pk, run.lease_token, {"get-p1": "too many connections"})


def test_a_paired_run_needs_both_sides(tracked: Tracked, machine: Machine) -> None:
    first = Run.objects.get(rank=0)
    head = Run.objects.get(rank=2).commit
    question = Question(first.commit_id, head.pk, machine, first.suite, first.benchmark_set, Reason.CONFIRM)
    paired = plan_pairs(question)
    run = builders.claim(machine)
    assert run == paired
    for name in run.benchmark_set.names:
        results.accept_result(machine, run.pk, builders.result(run, name, head, [1.0] * 5))
    with pytest.raises(ends.Incomplete, match="2 of 4"):
        queue.complete(machine, run.pk, run.lease_token)
    for name in run.benchmark_set.names:
        results.accept_result(machine, run.pk, builders.result(run, name, first.commit, [1.0] * 5))
    queue.complete(machine, run.pk, run.lease_token)
    assert shown(tracked) == {}
    assert Measurement.objects.filter(accepted=True, paired=True).count() == 8


def test_the_measurements_of_an_earlier_attempt_do_not_complete_a_later_one(tracked: Tracked, machine: Machine) -> None:
    builders.measure(builders.claim(machine))
    run = builders.claim(machine)
    assert run.attempt == 2
    with pytest.raises(ends.Incomplete):
        queue.complete(machine, run.pk, run.lease_token)


def test_what_a_lost_attempt_measured_stays_unseen(tracked: Tracked, machine: Machine) -> None:
    lost = builders.claim(machine)
    builders.measure(lost, 9000.0)
    again = builders.claim(machine)
    assert again.pk == lost.pk
    assert shown(tracked) == {}
    builders.measure(again, 5000.0)
    queue.complete(machine, again.pk, again.lease_token)
    assert shown(tracked) == {again.commit.sha: 5002.0}
    assert Measurement.objects.filter(commit=lost.commit).count() == 8
    assert Samples.objects.filter(measurement__attempt__number=1).count() == 4


def test_a_permanent_failure_ends_the_run_and_shows_what_was_measured(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    results.accept_result(machine, run.pk, builders.result(run, "get-p1", run.commit, [7.0] * 5))
    queue.fail(machine, run.pk, permanent(run))
    run.refresh_from_db()
    assert (run.status, run.error) == (Status.FAILED, "make exited with code 2")
    assert shown(tracked) == {run.commit.sha: 7.0}
    assert builders.moves(run) == [("queued", "leased"), ("leased", "failed")]


def test_failing_for_good_twice_changes_nothing(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    queue.fail(machine, run.pk, permanent(run))
    queue.fail(machine, run.pk, permanent(run, "another word"))
    run.refresh_from_db()
    assert run.error == "make exited with code 2"
    assert len(builders.moves(run)) == 2


def test_a_transient_failure_queues_the_run_again_after_a_pause(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    queue.fail(machine, run.pk, transient(run))
    run.refresh_from_db()
    assert (run.status, run.error, run.lease_until) == (Status.QUEUED, "no disk", None)
    assert not Run.objects.claimable().filter(pk=run.pk).exists()
    assert shown(tracked) == {}
    Run.objects.filter(pk=run.pk).update(not_before=Now())
    again = builders.claim(machine)
    assert (again.pk, again.attempt) == (run.pk, 2)


def test_transient_failures_end_at_the_attempt_cap_with_the_last_error(
    tracked: Tracked, machine: Machine, settings: Any
) -> None:
    settings.MAX_ATTEMPTS = 2
    for error in ("first", "second"):
        Run.objects.filter(rank=2).update(not_before=Now())
        run = builders.claim(machine)
        queue.fail(machine, run.pk, transient(run, error))
    run.refresh_from_db()
    assert (run.status, run.error) == (Status.FAILED, "given up after 2 attempts; the last: second")
    queue.fail(machine, run.pk, transient(run, "second"))
    assert len(builders.moves(run)) == 4


def test_a_failed_run_cannot_be_completed(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    queue.fail(machine, run.pk, permanent(run))
    with pytest.raises(fence.LeaseLost):
        queue.complete(machine, run.pk, run.lease_token)


def test_a_complete_run_cannot_fail(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    queue.complete(machine, run.pk, run.lease_token)
    for failure in (transient(run), permanent(run)):
        with pytest.raises(fence.LeaseLost):
            queue.fail(machine, run.pk, failure)


def test_a_run_cannot_be_ended_by_another_machine(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    other = builders.machine("m2")
    with pytest.raises(Exception, match=f"run {run.pk}"):
        queue.complete(other, run.pk, run.lease_token)
    run.refresh_from_db()
    assert run.status == Status.LEASED


def test_only_expired_leases_are_reaped(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    assert queue.reap() == 0
    builders.expire_lease(run)
    assert queue.reap() == 1
    assert queue.reap() == 0
    run.refresh_from_db()
    assert (run.status, run.lease_until) == (Status.QUEUED, None)
    assert run.error.startswith("the runner was silent for more than")
    assert run.attempts.get().outcome == Status.QUEUED
    assert builders.moves(run) == [("queued", "leased"), ("leased", "queued")]


def test_a_running_run_is_reaped_too_and_failed_at_the_cap(tracked: Tracked, machine: Machine, settings: Any) -> None:
    settings.MAX_ATTEMPTS = 1
    run = builders.claim(machine)
    queue.renew(machine, run.pk, Renewal(token=run.lease_token))
    builders.expire_lease(run)
    assert queue.reap() == 1
    run.refresh_from_db()
    assert run.status == Status.FAILED
    assert run.error.startswith("given up after 1 attempts; the last: the runner was silent")


def test_a_lease_is_renewed_by_the_clock_of_the_database(tracked: Tracked, machine: Machine) -> None:
    """A renewal extends the lease by PostgreSQL's clock, so that a lease about to end is not reaped."""
    run = builders.claim(machine)
    builders.expire_lease(run)
    assert not queue.renew(machine, run.pk, Renewal(token=run.lease_token))
    assert queue.reap() == 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT lease_until > now() FROM runs_run WHERE id = %s", [run.pk])
        assert cursor.fetchone() == (True,)


def test_a_runner_that_comes_back_within_its_old_lease_may_still_complete(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    builders.expire_lease(run)
    queue.complete(machine, run.pk, run.lease_token)
    assert queue.reap() == 0
    assert Run.objects.get(pk=run.pk).status == Status.SUCCEEDED


def test_failing_for_now_twice_changes_nothing(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    queue.fail(machine, run.pk, transient(run))
    before = Run.objects.values().get(pk=run.pk)
    queue.fail(machine, run.pk, transient(run))
    assert Run.objects.values().get(pk=run.pk) == before
    assert len(builders.moves(run)) == 2


def test_only_one_attempt_of_a_run_is_shown(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    results.accept_result(machine, run.pk, builders.result(run, "get-p1", run.commit, [7.0] * 5))
    queue.fail(machine, run.pk, permanent(run))
    Series.objects.update(undetected_since=None)
    queue.retry(run, "again")
    again = builders.claim(machine)
    builders.measure(again)
    queue.complete(machine, again.pk, again.lease_token)
    assert shown(tracked) == {run.commit.sha: 5002.0}
    assert set(Measurement.objects.filter(accepted=True).values_list("attempt__number", "attempt__token")) == {(1, 2)}


def test_a_retry_that_measures_nothing_hides_nothing(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    results.accept_result(machine, run.pk, builders.result(run, "get-p1", run.commit, [7.0] * 5))
    queue.fail(machine, run.pk, permanent(run))
    queue.retry(run, "again")
    queue.fail(machine, run.pk, permanent(builders.claim(machine)))
    assert shown(tracked) == {run.commit.sha: 7.0}
