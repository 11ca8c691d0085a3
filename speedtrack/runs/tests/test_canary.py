"""Canaries through the verbs: when they are measured, what they say, and what follows for a machine and its runs."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.db.models import F

from speedtrack.alerts import confirm, detection, lines
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.dispatch import idle_machines_with_work
from speedtrack.projects.models import Commit
from speedtrack.runs import canary, jobs, quarantine, queue, results, tracking
from speedtrack.runs.canary import Frozen
from speedtrack.runs.documents import Failure
from speedtrack.runs.models import (
    Canary,
    CanaryCheck,
    Machine,
    MachineEvent,
    Measurement,
    Reason,
    Run,
    Series,
    Status,
)
from speedtrack.runs.results import ResultError
from speedtrack.runs.tracking import Tracked
from speedtrack.stats.canary import FEWEST, IN_A_ROW
from speedtrack.tests import builders

CPU = "server_cpu_ns_per_request"
LEVEL = 5000.0


@pytest.fixture(autouse=True)
def own_canaries(settings: Any) -> None:
    settings.CANARY_AUTO = True


@pytest.fixture
def watched(tracked: Tracked, machine: Machine) -> Canary:
    """Machine m1 with three commits to measure, and a canary whose level is known."""
    tracking.set_canary("m1", tracked.project.slug, None, [])
    for place in range(FEWEST):
        fly(machine, LEVEL + place % 3)
        later(hours=3)
    return Canary.objects.get()


def later(**span: float) -> None:
    """Let everything have happened so much earlier."""
    ago = timedelta(**span)
    Run.objects.update(ended_at=F("ended_at") - ago, created=F("created") - ago, not_before=F("not_before") - ago)
    CanaryCheck.objects.update(at=F("at") - ago)
    MachineEvent.objects.update(at=F("at") - ago)
    Canary.objects.update(created=F("created") - ago, since=F("since") - ago)


def fly(machine: Machine, value: float, **changes: Any) -> Run:
    """The machine's next run, which must be its canary, shows this much CPU per request."""
    run = builders.claim(machine)
    assert run.reason == Reason.CANARY
    builders.send_build(run, run.commit)
    for name in run.benchmarks:
        values = [value * (1 + 0.0001 * trial) for trial in range(run.trials)]
        results.accept(machine, run.pk, builders.result(run, name, run.commit, values, **changes))
    queue.complete(machine, run.pk, run.lease_token)
    return run


def do_work(machine: Machine, value: float = LEVEL) -> Run:
    """The machine's next run, which must be other work, is measured."""
    run = builders.claim(machine)
    assert run.reason != Reason.CANARY
    builders.send_build(run, run.commit)
    builders.measure(run, value)
    queue.complete(machine, run.pk, run.lease_token)
    return run


def move(machine: Machine, value: float = LEVEL * 1.05) -> Machine:
    """Canaries until the machine is quarantined."""
    for _ in range(IN_A_ROW):
        fly(machine, value)
    assert queue.claim(machine) is None
    machine.refresh_from_db()
    assert machine.quarantined_at
    return machine


def answers() -> list[str]:
    return list(CanaryCheck.objects.order_by("pk").values_list("answer", flat=True))


def test_the_first_head_that_is_measured_becomes_the_canary_and_its_build_is_frozen(
    tracked: Tracked, machine: Machine
) -> None:
    head = do_work(machine)
    made = Canary.objects.get()
    assert (made.commit, made.benchmarks, made.artifacts) == (head.commit, ["get-p1"], None)
    run = builders.claim(machine)
    assert (run.reason, run.canary, jobs.document(run)["frozen"]) == (Reason.CANARY, made, None)
    builders.send_build(run, run.commit)
    made.refresh_from_db()
    assert made.artifacts == {"kvd": builders.digest_of_binary(head.commit.sha)}
    again = builders.claim(machine)
    assert again.pk == run.pk and jobs.document(again)["frozen"] == made.artifacts


def test_no_canary_by_itself_where_that_is_turned_off(tracked: Tracked, machine: Machine, settings: Any) -> None:
    settings.CANARY_AUTO = False
    assert [do_work(machine).reason for _ in range(3)]
    assert not Canary.objects.exists()


def test_only_one_canary_comes_by_itself(tracked: Tracked, machine: Machine) -> None:
    do_work(machine)
    Canary.objects.update(retired_at=F("created"))
    do_work(machine)
    assert Canary.objects.count() == 1


def test_what_a_canary_measures_is_no_point_of_any_line(watched: Canary, machine: Machine, tracked: Tracked) -> None:
    assert Measurement.objects.filter(attempt__run__canary=watched).count() == 2 * FEWEST
    assert not Measurement.objects.filter(accepted=True).exists()
    assert not Series.objects.filter(undetected_since__isnull=False).exists()
    assert lines.points(Series.objects.values_list("pk", flat=True), tracked.branch, 0) == []


def test_a_canary_is_due_before_work_when_the_last_is_old(watched: Canary, machine: Machine) -> None:
    fly(machine, LEVEL)
    do_work(machine)
    later(hours=1.9)
    do_work(machine)
    later(hours=0.2)
    fly(machine, LEVEL)
    do_work(machine)
    assert answers() == ["learning"] * FEWEST + ["steady"] * 2


def test_a_canary_follows_the_end_of_long_work_and_no_idle_time(watched: Canary, machine: Machine) -> None:
    fly(machine, LEVEL)
    for _ in range(3):
        later(minutes=10)
        do_work(machine)
    fly(machine, LEVEL)
    later(hours=5)
    assert queue.claim(machine) is None


def test_a_level_is_learned_more_often(tracked: Tracked, machine: Machine) -> None:
    tracking.set_canary("m1", tracked.project.slug, None, [])
    fly(machine, LEVEL)
    later(minutes=14)
    do_work(machine)
    later(minutes=2)
    fly(machine, LEVEL)


def test_two_odd_ones_are_doubt_and_no_verdict(watched: Canary, machine: Machine) -> None:
    fly(machine, LEVEL * 1.05)
    fly(machine, LEVEL * 1.05)
    fly(machine, LEVEL)
    do_work(machine)
    assert answers()[FEWEST:] == ["off", "off", "steady"]
    assert Machine.objects.get().quarantined_at is None


def test_a_machine_that_moved_is_quarantined_and_what_it_measured_is_measured_again(
    watched: Canary, machine: Machine
) -> None:
    before = do_work_at_once(machine)
    later(minutes=130)
    fly(machine, LEVEL)
    since = do_work(machine)
    later(minutes=130)
    move(machine)
    assert set(Measurement.objects.filter(attempt__run=before).values_list("flags", flat=True)[0]) == set()
    assert {tuple(m.flags) for m in Measurement.objects.filter(attempt__run=since)} == {("machine_drift",)}
    again = Run.objects.get(commit=since.commit, round=1)
    assert (again.status, again.reason, again.benchmarks) == (Status.QUEUED, since.reason, since.benchmarks)
    assert f"measured again by run {again.pk}" in since.events.order_by("pk").last().why
    event = MachineEvent.objects.get(kind="quarantined")
    assert event.untold and "+5.0%" in event.why and "1 run is to be measured again" in event.why
    since.refresh_from_db()
    assert since.status == Status.SUCCEEDED


def do_work_at_once(machine: Machine) -> Run:
    fly(machine, LEVEL)
    return do_work(machine)


def test_in_quarantine_only_canaries_fly_with_growing_pauses_until_two_are_steady(
    watched: Canary, machine: Machine
) -> None:
    move(machine)
    pauses = []
    for _ in range(4):
        assert queue.claim(machine) is None
        run = Run.objects.get(reason=Reason.CANARY, status=Status.QUEUED)
        last = CanaryCheck.objects.latest("pk")
        pauses.append(round((run.not_before - last.at).total_seconds() / 60))
        later(minutes=pauses[-1] + 1)
        fly(machine, LEVEL * 1.05)
    assert pauses == [5, 10, 20, 40]
    for _ in range(2):
        assert queue.claim(machine) is None
        later(hours=2)
        fly(machine, LEVEL)
    do_work(machine)
    machine.refresh_from_db()
    assert machine.quarantined_at is None and machine.quarantined_why == ""
    assert MachineEvent.objects.filter(kind="lifted", untold=True).count() == 1


def test_the_dispatcher_does_not_nudge_a_machine_in_quarantine_in_vain(watched: Canary, machine: Machine) -> None:
    move(machine)
    assert not idle_machines_with_work()
    later(minutes=6)
    assert list(idle_machines_with_work()) == [machine]


def test_lifting_by_hand_is_written_down_with_its_author(watched: Canary, machine: Machine, db: None) -> None:
    ada = User.objects.create_user("ada")
    with pytest.raises(quarantine.NotQuarantined, match="not in quarantine"):
        quarantine.lift(machine, ada)
    move(machine)
    quarantine.lift(machine, ada)
    assert MachineEvent.objects.get(kind="lifted").who == ada
    fly(machine, LEVEL * 1.05)
    assert answers()[-1] == "off"
    assert Machine.objects.get().quarantined_at is None


def test_an_accepted_level_starts_the_history_anew(watched: Canary, machine: Machine) -> None:
    move(machine)
    tracking.lift("m1", accept_level=True)
    for _ in range(FEWEST):
        fly(machine, LEVEL * 1.05)
        later(hours=3)
    fly(machine, LEVEL * 1.05)
    later(hours=3)
    fly(machine, LEVEL)
    queue.claim(machine)
    assert answers()[-2:] == ["steady", "off"]


def test_another_environment_has_a_history_of_its_own(watched: Canary, machine: Machine) -> None:
    facts = builders.SERIES_FACTS | {"kernel": "6.2"}
    environment = {"digest": canary.definitions.digest_of(facts), "series": facts, "recorded": {}}
    fly(machine, LEVEL * 2, environment=environment)
    do_work(machine)
    assert answers()[-1] == "learning"


def test_a_canary_that_cannot_be_measured_is_told_once_and_does_not_stop_the_work(
    watched: Canary, machine: Machine
) -> None:
    for _ in range(4):
        run = builders.claim(machine)
        assert run.reason == Reason.CANARY
        queue.fail(machine, run.pk, Failure(token=run.lease_token, kind="permanent", error="no such file\nmore"))
        queue.claim(machine)
        later(hours=3)
    assert answers()[FEWEST:] == ["unknown"] * 4
    event = MachineEvent.objects.get(kind="blind")
    assert event.untold and event.why.endswith("3 times in a row: no such file")
    assert Machine.objects.get().quarantined_at is None


def test_a_canary_with_nothing_but_flags_says_nothing(watched: Canary, machine: Machine) -> None:
    fly(machine, LEVEL * 2, flags=[["steal"]] * 5)
    do_work(machine)
    assert answers()[-1] == "unknown"


def test_other_artifacts_than_the_frozen_ones_are_refused(watched: Canary, machine: Machine) -> None:
    with pytest.raises(ResultError, match="canary, frozen as"):
        fly(machine, LEVEL, artifacts={"kvd": builders.DIGEST})
    assert Measurement.objects.filter(attempt__run__status__in=["leased", "running"]).count() == 0


def test_a_cancelled_canary_is_queued_again(watched: Canary, machine: Machine) -> None:
    run = builders.claim(machine)
    Run.objects.filter(pk=run.pk).update(cancel_requested_at=F("started_at"))
    builders.expire_lease(run)
    queue.reap()
    assert Run.objects.get(pk=run.pk).status == Status.CANCELLED
    assert fly(machine, LEVEL).round == run.round + 1


def test_another_canary_takes_the_place_of_the_first(watched: Canary, machine: Machine, tracked: Tracked) -> None:
    move(machine)
    first = Commit.objects.order_by("pk").first()
    assert first
    new = tracking.set_canary("m1", tracked.project.slug, first.sha, ["set-p1"])
    assert (new.commit, new.benchmarks) == (first, ["set-p1"])
    watched.refresh_from_db()
    assert watched.retired_at
    assert fly(machine, LEVEL).canary == new
    assert queue.claim(machine) is None
    later(hours=3)
    assert fly(machine, LEVEL).canary == new
    do_work(machine)


def test_a_dead_runner_does_not_keep_a_canary_from_being_judged(watched: Canary, machine: Machine) -> None:
    for _ in range(IN_A_ROW):
        fly(machine, LEVEL * 1.05)
    canary.attend_all()
    machine.refresh_from_db()
    assert machine.quarantined_at
    assert Run.objects.filter(reason=Reason.CANARY, status=Status.QUEUED).count() == 1
    Run.objects.filter(reason=Reason.CANARY, status=Status.QUEUED).update(status=Status.CANCELLED)
    canary.attend_all()
    canary.attend_all()
    assert Run.objects.filter(reason=Reason.CANARY, status=Status.QUEUED).count() == 1


def test_a_paused_machine_gets_no_canary(watched: Canary, machine: Machine) -> None:
    tracking.pause("m1", True)
    assert queue.claim(machine) is None
    assert not Run.objects.filter(reason=Reason.CANARY, status=Status.QUEUED).exists()


def test_suspicions_from_a_machine_that_had_moved_are_withdrawn(
    watched: Canary, machine: Machine, tracked: Tracked
) -> None:
    fly(machine, LEVEL)
    Run.objects.filter(reason="backfill").update(rank=-F("rank"))  # oldest first
    do_work(machine)
    do_work(machine)
    later(hours=3)
    fly(machine, LEVEL)
    do_work(machine, LEVEL * 1.3)
    detection.detect()
    assert ChangePoint.objects.filter(status="suspected").exists()
    later(hours=3)
    move(machine)
    detection.detect()
    assert not ChangePoint.objects.exists()


def test_in_quarantine_no_suspicion_is_settled(watched: Canary, machine: Machine, tracked: Tracked) -> None:
    head = tracked.branch.head
    assert head
    slow = lambda sha, *_: LEVEL * (1.3 if sha == head.sha else 1)  # noqa: E731
    fly(machine, LEVEL)
    builders.work(machine, slow, until=3)
    detection.detect()
    confirm.step()
    (pair,) = builders.work(machine, slow)
    assert (pair.reason, pair.commit) == (Reason.CONFIRM, head)
    tracking.measure(tracked.project.slug, "main", [], None)
    later(hours=3)
    move(machine)
    confirm.step()
    assert set(ChangePoint.objects.values_list("status", flat=True)) == {"settling"}
    assert not Measurement.objects.filter(attempt__run=pair, flags__contains=["machine_drift"]).exists()
    assert not Verdict.objects.exists()
    tracking.lift("m1", accept_level=False)
    confirm.step()
    assert set(Verdict.objects.values_list("answer", flat=True)) == {"different"}


def attack(**changes: Any) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        row = Run.objects.filter(reason=Reason.CANARY).latest("pk")
        row.pk = None
        for name, value in changes.items():
            setattr(row, name, value)
        row.save(force_insert=True)


def test_the_database_refuses_what_no_canary_may_be(watched: Canary, machine: Machine) -> None:
    builders.claim(machine)
    attack(round=99, status=Status.QUEUED)
    attack(round=99, status=Status.SUCCEEDED, canary=None)
    attack(round=99, status=Status.SUCCEEDED, reason=Reason.PUSH)
    with pytest.raises(IntegrityError), transaction.atomic():
        canary.kept(machine, Frozen(watched.project, watched.commit, watched.suite, []))
        Canary.objects.create(machine=machine, project=watched.project, commit=watched.commit, suite=watched.suite)
    with pytest.raises(IntegrityError, match="a_quarantine_has_a_reason"), transaction.atomic():
        Machine.objects.update(quarantined_why="because")
    with pytest.raises(IntegrityError, match="has_a_ratio"), transaction.atomic():
        CanaryCheck.objects.update(ratio=None)


@pytest.mark.django_db(transaction=True)
def test_claims_and_ticks_at_once_plan_one_canary(tracked: Tracked, machine: Machine) -> None:
    tracking.set_canary("m1", tracked.project.slug, None, [])
    for _ in range(FEWEST):
        fly(machine, LEVEL)
        later(hours=3)
    for _ in range(IN_A_ROW):
        fly(machine, LEVEL * 1.05)
    together = threading.Barrier(8)

    def go(place: int) -> Run | None:
        try:
            together.wait()
            if place % 2:
                canary.attend_all()
                return None
            return queue.claim(machine)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(go, range(8)))
    assert claimed == [None] * 8
    assert MachineEvent.objects.filter(kind="quarantined").count() == 1
    assert Run.objects.unfinished().filter(reason=Reason.CANARY).count() == 1
    assert CanaryCheck.objects.count() == FEWEST + IN_A_ROW
