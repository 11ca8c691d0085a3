"""Canaries through the verbs: when they are measured, and what they say."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F

from speedtrack.alerts.lines import lines
from speedtrack.benchmarks.digests import json_digest
from speedtrack.projects.models import Commit
from speedtrack.runs import naming
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.fleet import machines
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
from speedtrack.runs.queue import jobs, queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.results.results import ResultError
from speedtrack.runs.scheduling import canary
from speedtrack.runs.scheduling.canary import FrozenCommit
from speedtrack.runs.tests.canaries import (
    LEVEL,
    canary_answers,
    let_pass,
    measure_canary,
    measure_work,
    quarantine_machine,
)
from speedtrack.stats.noise.canary import FEWEST, IN_A_ROW
from speedtrack.tests import builders

pytestmark = pytest.mark.usefixtures("canary_auto")


def test_the_first_head_that_is_measured_becomes_the_canary_and_its_build_is_frozen(
    tracked: Tracked, machine: Machine
) -> None:
    head = measure_work(machine)
    made = Canary.objects.get()
    assert (made.commit, made.benchmark_set.names, made.artifacts) == (head.commit, ["get-p1"], None)
    run = builders.claim(machine)
    assert (run.reason, run.canary, jobs.job_document(run)["frozen"]) == (Reason.CANARY, made, None)
    builders.send_build(run, run.commit)
    made.refresh_from_db()
    assert made.artifacts == {"kvd": builders.digest_of_binary(head.commit.sha)}
    again = builders.claim(machine)
    job = json.loads(jobs.job_text(again))
    assert again.pk == run.pk and job["frozen"] == made.artifacts
    assert [(benchmark["name"], benchmark["inside"]) for benchmark in job["benchmarks"]] == [("get-p1", [])]


def test_no_canary_by_itself_where_that_is_turned_off(tracked: Tracked, machine: Machine, settings: Any) -> None:
    settings.CANARY_AUTO = False
    assert [measure_work(machine).reason for _ in range(3)]
    assert not Canary.objects.exists()


def test_only_one_canary_comes_by_itself(tracked: Tracked, machine: Machine) -> None:
    measure_work(machine)
    Canary.objects.update(retired_at=F("created"))
    measure_work(machine)
    assert Canary.objects.count() == 1


def test_what_a_canary_measures_is_no_point_of_any_line(watched: Canary, machine: Machine, tracked: Tracked) -> None:
    assert Measurement.objects.filter(attempt__run__canary=watched).count() == 2 * FEWEST
    assert not Measurement.objects.filter(accepted=True).exists()
    assert not Series.objects.filter(undetected_since__isnull=False).exists()
    assert lines.points(Series.objects.values_list("pk", flat=True), tracked.branch, 0) == []


def test_a_canary_is_due_before_work_when_the_last_is_old(watched: Canary, machine: Machine) -> None:
    measure_canary(machine, LEVEL)
    measure_work(machine)
    let_pass(hours=1.9)
    measure_work(machine)
    let_pass(hours=0.2)
    measure_canary(machine, LEVEL)
    measure_work(machine)
    assert canary_answers() == ["learning"] * FEWEST + ["steady"] * 2


def test_a_canary_follows_the_end_of_long_work_and_no_idle_time(watched: Canary, machine: Machine) -> None:
    measure_canary(machine, LEVEL)
    for _ in range(3):
        let_pass(minutes=10)
        measure_work(machine)
    measure_canary(machine, LEVEL)
    let_pass(hours=5)
    assert queue.claim(machine) is None


def test_a_level_is_learned_more_often(tracked: Tracked, machine: Machine) -> None:
    machines.set_canary("m1", tracked.project.slug, None, [])
    measure_canary(machine, LEVEL)
    let_pass(minutes=14)
    measure_work(machine)
    let_pass(minutes=2)
    measure_canary(machine, LEVEL)


def test_two_odd_ones_are_doubt_and_no_verdict(watched: Canary, machine: Machine) -> None:
    measure_canary(machine, LEVEL * 1.05)
    measure_canary(machine, LEVEL * 1.05)
    measure_canary(machine, LEVEL)
    measure_work(machine)
    assert canary_answers()[FEWEST:] == ["off", "off", "steady"]
    assert Machine.objects.get().quarantined_at is None


def test_another_environment_has_a_history_of_its_own(watched: Canary, machine: Machine) -> None:
    facts = builders.SERIES_FACTS | {"kernel": "6.2"}
    environment = {"digest": json_digest(facts), "series": facts, "recorded": {}}
    measure_canary(machine, LEVEL * 2, environment=environment)
    measure_work(machine)
    assert canary_answers()[-1] == "learning"


def test_a_canary_that_cannot_be_measured_is_told_once_and_does_not_stop_the_work(
    watched: Canary, machine: Machine
) -> None:
    for _ in range(4):
        run = builders.claim(machine)
        assert run.reason == Reason.CANARY
        queue.fail(machine, run.pk, FailureReport(token=run.lease_token, kind="permanent", error="no such file\nmore"))
        queue.claim(machine)
        let_pass(hours=3)
    assert canary_answers()[FEWEST:] == ["unknown"] * 4
    event = MachineEvent.objects.get(kind="blind")
    assert event.untold and event.why.endswith("3 times in a row: no such file")
    assert Machine.objects.get().quarantined_at is None


def test_a_canary_with_nothing_but_flags_says_nothing(watched: Canary, machine: Machine) -> None:
    measure_canary(machine, LEVEL * 2, flags=[["steal"]] * 5)
    measure_work(machine)
    assert canary_answers()[-1] == "unknown"


def test_other_artifacts_than_the_frozen_ones_are_refused(watched: Canary, machine: Machine) -> None:
    with pytest.raises(ResultError, match="canary, frozen as"):
        measure_canary(machine, LEVEL, artifacts={"kvd": builders.DIGEST})
    assert Measurement.objects.filter(attempt__run__status__in=["leased", "running"]).count() == 0


def test_a_cancelled_canary_is_queued_again(watched: Canary, machine: Machine) -> None:
    run = builders.claim(machine)
    Run.objects.filter(pk=run.pk).update(cancel_requested_at=F("started_at"))
    builders.expire_lease(run)
    queue.reap()
    assert Run.objects.get(pk=run.pk).status == Status.CANCELLED
    assert measure_canary(machine, LEVEL).round == run.round + 1


def test_another_canary_takes_the_place_of_the_first(watched: Canary, machine: Machine, tracked: Tracked) -> None:
    quarantine_machine(machine)
    first = Commit.objects.order_by("pk").first()
    assert first
    new = machines.set_canary("m1", tracked.project.slug, first.sha, ["set-p1"])
    assert (new.commit, new.benchmark_set.names) == (first, ["set-p1"])
    watched.refresh_from_db()
    assert watched.retired_at
    assert measure_canary(machine, LEVEL).canary == new
    assert queue.claim(machine) is None
    let_pass(hours=3)
    assert measure_canary(machine, LEVEL).canary == new
    measure_work(machine)


def test_a_dead_runner_does_not_keep_a_canary_from_being_judged(watched: Canary, machine: Machine) -> None:
    for _ in range(IN_A_ROW):
        measure_canary(machine, LEVEL * 1.05)
    canary.attend_all()
    machine.refresh_from_db()
    assert machine.quarantined_at
    assert Run.objects.filter(reason=Reason.CANARY, status=Status.QUEUED).count() == 1
    Run.objects.filter(reason=Reason.CANARY, status=Status.QUEUED).update(status=Status.CANCELLED)
    canary.attend_all()
    canary.attend_all()
    assert Run.objects.filter(reason=Reason.CANARY, status=Status.QUEUED).count() == 1


def test_a_paused_machine_gets_no_canary(watched: Canary, machine: Machine) -> None:
    machines.pause(naming.machine_named("m1"))
    assert queue.claim(machine) is None
    assert not Run.objects.filter(reason=Reason.CANARY, status=Status.QUEUED).exists()


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
        canary.ensure_canary(
            machine, FrozenCommit(watched.project, watched.commit, watched.suite, watched.benchmark_set)
        )
        watched.pk = None
        watched.save(force_insert=True)
    with pytest.raises(IntegrityError, match="a_quarantine_has_a_reason"), transaction.atomic():
        Machine.objects.update(quarantined_why="because")
    with pytest.raises(IntegrityError, match="has_a_ratio"), transaction.atomic():
        CanaryCheck.objects.update(ratio=None)


@pytest.mark.django_db(transaction=True)
def test_claims_and_ticks_at_once_plan_one_canary(tracked: Tracked, machine: Machine) -> None:
    machines.set_canary("m1", tracked.project.slug, None, [])
    for _ in range(FEWEST):
        measure_canary(machine, LEVEL)
        let_pass(hours=3)
    for _ in range(IN_A_ROW):
        measure_canary(machine, LEVEL * 1.05)
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
