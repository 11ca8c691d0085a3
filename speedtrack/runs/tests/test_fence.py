"""A call with an old lease token changes nothing, whichever call it is."""

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps

from speedtrack.runs.documents import FailureReport, LogPiece, Renewal, ReportedProgress
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.queue import fence, queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.results import results
from speedtrack.tests import builders

CALLS: dict[str, Callable[[Machine, Run, int], Any]] = {
    "renew": lambda m, r, t: queue.renew(
        m, r.pk, Renewal(token=t, progress=ReportedProgress(done=1, total=2, now="x"))
    ),
    "log": lambda m, r, t: queue.keep_log(m, r.pk, LogPiece(token=t, seq=0, phase="measure", text="x")),
    "build": lambda m, r, t: builders.send_build(r, r.commit, token=t),
    "measurement": lambda m, r, t: results.accept_result(
        m, r.pk, builders.result(r, "get-p1", r.commit, [1.0] * 5, token=t)
    ),
    "complete": lambda m, r, t: queue.complete(m, r.pk, t),
    "fail": lambda m, r, t: queue.fail(m, r.pk, FailureReport(token=t, kind="permanent", error="late")),
    "fail for now": lambda m, r, t: queue.fail(m, r.pk, FailureReport(token=t, kind="transient", error="late")),
    "source": lambda m, r, t: fence.held_run_unlocked(m, r.pk, t),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


def everything() -> dict[str, list[Any]]:
    """All rows of the app."""
    return {m.__name__: list(m.objects.order_by("pk").values()) for m in apps.get_app_config("runs").get_models()}


@each_call
def test_the_token_of_an_earlier_lease_is_refused(tracked: Tracked, machine: Machine, call: Any) -> None:
    old = builders.claim(machine)
    builders.claim(machine)
    before = everything()
    with pytest.raises(fence.LeaseLost, match="drop the work"):
        call(machine, old, old.lease_token)
    assert everything() == before


@each_call
def test_a_token_of_the_future_is_refused(tracked: Tracked, machine: Machine, call: Any) -> None:
    run = builders.claim(machine)
    before = everything()
    with pytest.raises(fence.LeaseLost):
        call(machine, run, run.lease_token + 1)
    assert everything() == before


@each_call
def test_a_lease_that_was_reaped_is_refused(tracked: Tracked, machine: Machine, call: Any) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    builders.expire_lease(run)
    assert queue.reap() == 1
    before = everything()
    with pytest.raises(fence.LeaseLost):
        call(machine, run, run.lease_token)
    assert everything() == before


@each_call
def test_a_run_that_was_never_claimed_is_refused(tracked: Tracked, machine: Machine, call: Any) -> None:
    run = Run.objects.all()[0]
    before = everything()
    with pytest.raises(fence.LeaseLost):
        call(machine, run, run.lease_token)
    assert everything()["RunEvent"] == before["RunEvent"]
    assert everything()["Run"] == before["Run"]


@each_call
def test_a_cancelled_run_is_refused(tracked: Tracked, machine: Machine, call: Any) -> None:
    run = builders.claim(machine)
    queue.cancel(run, "no longer wanted")
    assert queue.renew(machine, run.pk, Renewal(token=run.lease_token))
    before = everything()
    with pytest.raises(fence.LeaseLost):
        call(machine, run, run.lease_token)
    assert everything() == before


def test_a_new_machine_token_keeps_the_lease(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    machines.renew_token("m1")
    assert not queue.renew(Machine.objects.get(), run.pk, Renewal(token=run.lease_token))
