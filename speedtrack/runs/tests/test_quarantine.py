"""What a canary that moved means for its machine, for the runs it measured and for suspicions."""

import pytest
from django.contrib.auth.models import User
from django.db.models import F

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.settling import confirm
from speedtrack.processes.dispatch import idle_machines_with_work
from speedtrack.runs.models import (
    Canary,
    CanaryCheck,
    Machine,
    MachineEvent,
    Measurement,
    Reason,
    Run,
    Status,
)
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import byhand
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.scheduling import quarantine
from speedtrack.runs.tests.canaries import (
    LEVEL,
    canary_answers,
    let_pass,
    measure_canary,
    measure_work,
    measure_work_at_once,
    quarantine_machine,
)
from speedtrack.stats.noise.canary import FEWEST
from speedtrack.tests import builders

pytestmark = pytest.mark.usefixtures("canary_auto")


def test_a_machine_that_moved_is_quarantined_and_what_it_measured_is_measured_again(
    watched: Canary, machine: Machine
) -> None:
    before = measure_work_at_once(machine)
    let_pass(minutes=130)
    measure_canary(machine, LEVEL)
    since = measure_work(machine)
    let_pass(minutes=130)
    quarantine_machine(machine)
    assert set(Measurement.objects.filter(attempt__run=before).values_list("flags", flat=True)[0]) == set()
    assert {tuple(m.flags) for m in Measurement.objects.filter(attempt__run=since)} == {("machine_drift",)}
    again = Run.objects.get(commit=since.commit, round=1)
    assert (again.status, again.reason, again.benchmark_set) == (Status.QUEUED, since.reason, since.benchmark_set)
    assert f"measured again by run {again.pk}" in since.events.order_by("pk").last().why
    event = MachineEvent.objects.get(kind="quarantined")
    assert event.untold and "+5.0%" in event.why and "1 run is to be measured again" in event.why
    since.refresh_from_db()
    assert since.status == Status.SUCCEEDED


def test_in_quarantine_only_canaries_are_measured_with_growing_pauses_until_two_are_steady(
    watched: Canary, machine: Machine
) -> None:
    quarantine_machine(machine)
    pauses = []
    for _ in range(4):
        assert queue.claim(machine) is None
        run = Run.objects.get(reason=Reason.CANARY, status=Status.QUEUED)
        last = CanaryCheck.objects.latest("pk")
        pauses.append(round((run.not_before - last.at).total_seconds() / 60))
        let_pass(minutes=pauses[-1] + 1)
        measure_canary(machine, LEVEL * 1.05)
    assert pauses == [5, 10, 20, 40]
    for _ in range(2):
        assert queue.claim(machine) is None
        let_pass(hours=2)
        measure_canary(machine, LEVEL)
    measure_work(machine)
    machine.refresh_from_db()
    assert machine.quarantined_at is None and machine.quarantined_why == ""
    assert MachineEvent.objects.filter(kind="lifted", untold=True).count() == 1


def test_the_dispatcher_does_not_nudge_a_machine_in_quarantine_in_vain(watched: Canary, machine: Machine) -> None:
    quarantine_machine(machine)
    assert not idle_machines_with_work()
    let_pass(minutes=6)
    assert list(idle_machines_with_work()) == [machine]


def test_lifting_by_hand_is_written_down_with_its_author(watched: Canary, machine: Machine, db: None) -> None:
    ada = User.objects.create_user("ada")
    with pytest.raises(quarantine.NotQuarantined, match="not in quarantine"):
        quarantine.lift_by_hand(machine, ada)
    quarantine_machine(machine)
    quarantine.lift_by_hand(machine, ada)
    assert MachineEvent.objects.get(kind="lifted").who == ada
    measure_canary(machine, LEVEL * 1.05)
    assert canary_answers()[-1] == "off"
    assert Machine.objects.get().quarantined_at is None


def test_an_accepted_level_starts_the_history_anew(watched: Canary, machine: Machine) -> None:
    quarantine_machine(machine)
    quarantine.lift_by_hand(machine, accept_level=True)
    for _ in range(FEWEST):
        measure_canary(machine, LEVEL * 1.05)
        let_pass(hours=3)
    measure_canary(machine, LEVEL * 1.05)
    let_pass(hours=3)
    measure_canary(machine, LEVEL)
    queue.claim(machine)
    assert canary_answers()[-2:] == ["steady", "off"]


def test_suspicions_from_a_machine_that_had_moved_are_withdrawn(
    watched: Canary, machine: Machine, tracked: Tracked
) -> None:
    measure_canary(machine, LEVEL)
    Run.objects.filter(reason="backfill").update(rank=-F("rank"))  # oldest first
    measure_work(machine)
    measure_work(machine)
    let_pass(hours=3)
    measure_canary(machine, LEVEL)
    measure_work(machine, LEVEL * 1.3)
    detection.detect()
    assert ChangePoint.objects.filter(status="suspected").exists()
    let_pass(hours=3)
    quarantine_machine(machine)
    detection.detect()
    assert not ChangePoint.objects.exists()


def test_in_quarantine_no_suspicion_is_settled(watched: Canary, machine: Machine, tracked: Tracked) -> None:
    head = tracked.branch.head
    assert head
    slow = lambda sha, *_: LEVEL * (1.3 if sha == head.sha else 1)  # noqa: E731
    measure_canary(machine, LEVEL)
    builders.work(machine, slow, until=3)
    detection.detect()
    confirm.step()
    (pair,) = builders.work(machine, slow)
    assert (pair.reason, pair.commit) == (Reason.CONFIRM, head)
    byhand.queue_by_hand(byhand.choose(tracked.project.slug, "main", [], None))
    let_pass(hours=3)
    quarantine_machine(machine)
    confirm.step()
    assert set(ChangePoint.objects.values_list("status", flat=True)) == {"settling"}
    assert not Measurement.objects.filter(attempt__run=pair, flags__words__contains=["machine_drift"]).exists()
    assert not Verdict.objects.exists()
    quarantine.lift_by_hand(machine, accept_level=False)
    confirm.step()
    assert set(Verdict.objects.values_list("answer", flat=True)) == {"different"}
