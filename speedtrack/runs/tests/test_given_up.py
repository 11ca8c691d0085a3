"""Runs that no machine finished are tried again, less and less often, and in the end no more."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.processes import dispatch
from speedtrack.projects.models import ChainCommit, Commit
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine, Reason, Run, Status
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import changing
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders


@pytest.fixture
def given_up(tracked: Tracked, machine: Machine, settings: Any) -> Run:
    """A run whose runners went silent until the attempt cap."""
    settings.MAX_ATTEMPTS = 2
    for _ in range(2):
        run = builders.claim(machine)
        builders.expire_lease(run)
        queue.reap()
    run.refresh_from_db()
    assert (run.status, run.attempt) == (Status.FAILED, 2)
    return run


def let_time_pass(**length: float) -> None:
    Run.objects.update(retry_at=F("retry_at") - timedelta(**length))


def test_it_is_a_further_attempt_of_the_same_run_after_a_pause(given_up: Run, machine: Machine) -> None:
    rows = Run.objects.count()
    assert queue.retry_given_up() == 0 and "retry" not in dispatch.duties_with_work()
    let_time_pass(minutes=10)
    assert "retry" in dispatch.duties_with_work()
    dispatch.UPKEEP["retry"]()
    assert queue.retry_given_up() == 0
    run = builders.claim(machine)
    assert (run.pk, run.attempt, run.retry_at) == (given_up.pk, 3, None)
    builders.measure(run)
    queue.complete(machine, run.pk, run.lease_token)
    assert Run.objects.get(pk=run.pk).status == Status.SUCCEEDED
    assert Run.objects.count() == rows


def test_each_further_attempt_waits_longer_and_there_is_a_last_one(given_up: Run, machine: Machine) -> None:
    pauses = []
    while (run := Run.objects.get(pk=given_up.pk)).retry_at:
        assert run.ended_at is not None
        pauses.append(round((run.retry_at - run.ended_at).total_seconds() / 60))
        let_time_pass(days=3)
        assert queue.retry_given_up() == 1
        assert builders.claim(machine) == run
        failure = FailureReport(token=run.lease_token + 1, kind="transient", error="no Docker daemon answers")
        queue.fail(machine, run.pk, failure)
    assert pauses == [10, 30, 90, 270, 810, 2430]
    assert run.error == "given up after 8 attempts; the last: no Docker daemon answers"


def test_a_run_at_fault_itself_is_not_tried_again(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    queue.fail(machine, run.pk, FailureReport(token=run.lease_token, kind="permanent", error="it does not build"))
    assert Run.objects.get(pk=run.pk).retry_at is None


def test_a_pair_waits_longer_after_each_attempt_before_it_fails(
    tracked: Tracked, machine: Machine, settings: Any
) -> None:
    """It stays in the queue meanwhile, so that whoever planned it waits instead of taking it for unmeasurable."""
    settings.MAX_ATTEMPTS = 2
    first = Run.objects.get(rank=0)
    head = Run.objects.get(rank=1).commit_id
    pairs = plan_pairs(Question(first.commit_id, head, machine, first.suite, first.benchmark_set, Reason.CONFIRM))
    pauses = []
    while (run := Run.objects.get(pk=pairs.pk)).status == Status.QUEUED:
        Run.objects.filter(pk=pairs.pk).update(not_before=Now())
        run = builders.claim(machine)
        assert run == pairs
        queue.fail(machine, run.pk, FailureReport(token=run.lease_token, kind="transient", error="no disk"))
        run.refresh_from_db()
        pauses.append(round((run.not_before - timezone.now()).total_seconds() / 15))
    assert pauses[:-1] == [1, 40, 120, 360, 1080], "a quarter of a minute, then 10, 30, 90 and 270 minutes"
    assert (run.status, run.retry_at) == (Status.FAILED, None), "further pairs are planned by those who need them"
    assert run.error == "given up after 6 attempts; the last: no disk"


def test_a_commit_that_left_its_branch_is_not_tried_again(given_up: Run) -> None:
    let_time_pass(hours=1)
    ChainCommit.objects.filter(commit=given_up.commit_id).delete()
    assert queue.retry_given_up() == 0


@pytest.mark.parametrize("ended", ["untracked", "retired", "unreachable"])
def test_a_run_that_nobody_needs_any_more_is_not_tried_again(given_up: Run, machine: Machine, ended: str) -> None:
    let_time_pass(hours=1)
    if ended == "untracked":
        changing.untrack(given_up.project)
    elif ended == "retired":
        machines.retire(machine)
    else:
        Commit.objects.filter(pk=given_up.commit_id).update(unreachable_since=timezone.now())
    assert "retry" not in dispatch.duties_with_work()
    assert queue.retry_given_up() == 0
    if ended == "unreachable":
        given_up.project.cancel_unreachable = False
        given_up.project.save(update_fields=["cancel_unreachable"])
        assert queue.retry_given_up() == 1, "the project keeps what no branch has"


def test_people_retry_and_cancel_by_a_command(given_up: Run, machine: Machine) -> None:
    call_command("run", "cancel", str(given_up.pk), stdout=StringIO())
    let_time_pass(days=1)
    assert queue.retry_given_up() == 0, "no further attempts"
    out = StringIO()
    call_command("run", "retry", str(given_up.pk), stdout=out)
    assert out.getvalue() == f"run {given_up.pk} is queued again\n"
    run = builders.claim(machine)
    assert (run.pk, run.attempt) == (given_up.pk, 1)
    assert list(run.events.order_by("id").values_list("why", flat=True))[-2] == "by hand"
    call_command("run", "cancel", str(run.pk), stdout=out)
    assert out.getvalue().endswith(f"run {run.pk} ends as soon as its runner hears of it\n")


def test_the_command_says_why_it_cannot(tracked: Tracked) -> None:
    waiting = Run.objects.order_by("id")[0].pk
    with pytest.raises(CommandError, match=f"run {waiting} is queued: only a failed or cancelled run"):
        call_command("run", "retry", str(waiting))
    with pytest.raises(CommandError, match="there is no run 987654"):
        call_command("run", "cancel", "987654")
    with pytest.raises(CommandError, match="there is no run 99999999999999999999"):
        call_command("run", "retry", "99999999999999999999")
    call_command("run", "cancel", str(waiting), stdout=StringIO())
    with pytest.raises(CommandError, match=f"run {waiting} is cancelled already"):
        call_command("run", "cancel", str(waiting))
