"""What people do with a machine: drain, pause, retire, return, have its canary measured."""

import pytest

from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import machines
from speedtrack.runs.fleet.machines import MachineConflict
from speedtrack.runs.models import Machine, MachineEvent, MachineToken, Reason, Run, Status, UnknownMachineToken
from speedtrack.runs.queue import queue
from speedtrack.runs.queue.fence import LeaseLost
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import Tracked, TrackingRequest
from speedtrack.tests import builders


def statuses(machine: Machine) -> set[str]:
    return set(Run.objects.filter(machine=machine, canary=None).values_list("status", flat=True))


def test_a_drained_machine_finishes_its_run_and_takes_no_other(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    machines.pause(machine)
    assert queue.renew(machine, run.pk, builders.renewal(run)) is not None
    builders.send_build(run, run.commit)
    builders.measure(run)
    queue.complete(machine, run.pk, run.lease_token)
    assert queue.claim(machine) is None
    machines.resume(machine)
    assert queue.claim(machine)


def test_a_machine_that_is_paused_at_once_loses_its_run_without_an_attempt(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    machines.pause(machine, at_once=True)
    with pytest.raises(LeaseLost):
        queue.renew(machine, run.pk, builders.renewal(run))
    run.refresh_from_db()
    assert (run.status, run.attempt) == (Status.QUEUED, 0)
    assert queue.claim(machine) is None


def test_a_run_that_is_to_be_cancelled_ends_when_it_is_taken_back(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    queue.cancel(run, "by hand")
    machines.pause(machine, at_once=True)
    run.refresh_from_db()
    assert run.status == Status.CANCELLED


def test_a_retired_machine_is_refused_and_its_runs_are_cancelled(tracked: Tracked, machine: Machine) -> None:
    token = machines.renew_token(machine.name)
    run = builders.claim(machine)
    waiting = Run.objects.filter(machine=machine, status=Status.QUEUED).count()
    assert machines.retire(machine) == waiting + 1
    with pytest.raises(UnknownMachineToken):
        MachineToken.of(token)
    assert statuses(machine) == {Status.CANCELLED}
    assert builders.moves(run)[-1] == ("queued", "cancelled")
    assert not tracked.project.machines.exists()
    for act in (machines.resume, machines.retire):
        with pytest.raises(MachineConflict, match="retired"):
            act(machine)
    with pytest.raises(NoSuchThing, match="return it to service"):
        machines.renew_token(machine.name)


def test_a_returned_machine_measures_again_with_a_new_token(tracked: Tracked, machine: Machine) -> None:
    machines.retire(machine)
    token = machines.return_to_service(machine)
    back = MachineToken.of(token).machine
    assert (back.name, back.paused, back.retired_at) == (machine.name, False, None)
    assert list(tracked.project.machines.all()) == [back]
    with pytest.raises(MachineConflict, match="in service"):
        machines.return_to_service(back)
    kinds = list(MachineEvent.objects.order_by("pk").values_list("kind", flat=True))
    assert kinds[-2:] == ["retired", "returned"]


def test_a_new_project_is_not_measured_by_a_retired_machine(tracked: Tracked, machine: Machine) -> None:
    machines.retire(machine)
    builders.machine("m2")
    other = tracking.track(TrackingRequest(tracked.project.url, "tiny", name="other", last=0)).project
    assert [one.name for one in other.machines.all()] == ["m2"]


def test_a_canary_is_measured_next_once(tracked: Tracked, machine: Machine) -> None:
    with pytest.raises(MachineConflict, match="has no canary"):
        machines.measure_canary(machine)
    machines.set_canary(machine.name, tracked.project.slug, None, [])
    waiting = Run.objects.filter(machine=machine, reason=Reason.CANARY)
    builders.work(machine, lambda sha, name, trial: 5000.0, until=1)
    assert not waiting.filter(status=Status.QUEUED).exists()
    machines.measure_canary(machine)
    machines.measure_canary(machine)
    assert waiting.filter(status=Status.QUEUED).count() == 1
    assert builders.claim(machine).reason == Reason.CANARY
    with pytest.raises(MachineConflict, match="being measured now"):
        machines.measure_canary(machine)
    machines.pause(machine)
    with pytest.raises(MachineConflict, match="paused"):
        machines.measure_canary(machine)
