from typing import Any

import pytest
from django.db.models.functions import Now

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert, ChangePoint, Verdict
from speedtrack.alerts.settling import confirm
from speedtrack.benchmarks.metrics import HEADLINE, METRICS
from speedtrack.notices.models import Outbox
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Reason, Run, Series, Side
from speedtrack.runs.queue import jobs, queue
from speedtrack.runs.results import results
from speedtrack.tests import builders

from .conftest import World, failure, finish, paired_runs

Answer, Status = Verdict.Answer, ChangePoint.Status


def test_a_slow_commit_becomes_one_alert_and_one_mail(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository, emails=["dev@example.org"])
    world.until_quiet()
    alert = Alert.objects.get()
    assert alert.commit.sha == world.shas[7]
    assert alert.before.sha == world.shas[6]
    assert alert.status == Alert.Status.CONFIRMED
    assert {cp.series.metric for cp in alert.change_points.all()} == {"server_cpu_ns_per_request", "throughput_rps"}
    assert {cp.series.benchmark.name for cp in alert.change_points.all()} == {"get-p1"}
    assert Outbox.objects.get().recipient == "dev@example.org"


def test_a_steady_history_is_never_measured_twice(world: World) -> None:
    builders.track(world.repository)
    runs = world.until_quiet()
    assert {run.reason for run in runs} == {Reason.BACKFILL}
    assert not Alert.objects.exists()


def test_a_suspicion_that_measuring_again_does_not_show_is_refuted_and_never_mailed(world: World) -> None:
    builders.track(world.repository, emails=["dev@example.org"])

    def unlucky(sha: str, benchmark: str, trial: int) -> float:
        """A machine that was slower from the eighth commit on, but not when the pairs were measured."""
        paired = Run.objects.active().exclude(base=None).exists()
        slow = world.shas.index(sha) >= 7 and not paired
        return 5000 * (1.3 if slow else 1) * world.rng.gauss(1, 0.01)

    world.until_quiet(unlucky)
    assert set(ChangePoint.objects.values_list("status", flat=True)) == {Status.REFUTED}
    assert all("measured again over" in cp.note for cp in ChangePoint.objects.all())
    assert not Alert.objects.exists()
    assert not Outbox.objects.exists()


def test_an_improvement_is_recorded_and_mailed_to_nobody(world: World) -> None:
    world.factors = {world.shas[5]: 0.75}
    builders.track(world.repository, emails=["dev@example.org"])
    world.until_quiet()
    found = ChangePoint.objects.filter(status=Status.CONFIRMED)
    assert {(cp.commit.sha, cp.is_slowdown) for cp in found} == {(world.shas[5], False)}
    alert = Alert.objects.get()
    assert (alert.commit.sha, alert.improvement) == (world.shas[5], True)
    assert not Alert.objects.work().exists()
    assert {event.improvement for event in alert.events.all()} == {True}
    assert not Outbox.objects.exists()


def test_two_slowdowns_are_two_alerts(world: World) -> None:
    world.factors = {world.shas[4]: 1.2, world.shas[9]: 1.25}
    builders.track(world.repository)
    world.until_quiet()
    assert {alert.commit.sha for alert in Alert.objects.all()} == {world.shas[4], world.shas[9]}


def test_a_suspicion_waits_until_the_commits_between_are_measured(world: World) -> None:
    world.factors = {world.shas[6]: 1.3}
    builders.track(world.repository)
    builders.work(world.machine, world.speed, until=4)  # the newest four
    tracked_first = Run.objects.filter(commit__sha=world.shas[0])
    tracked_first.update(priority=10_000)
    builders.work(world.machine, world.speed, until=1)
    detection.detect()
    confirm.step()
    assert ChangePoint.objects.filter(status=Status.SUSPECTED).exists()
    assert paired_runs() == []


def test_two_commits_of_the_same_binary_are_never_suspected_for_long(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}  # the machine drifted just there
    builders.track(world.repository, emails=["dev@example.org"])
    while run := queue.claim(world.machine):
        finish(world, run, binary="the same server")
    world.until_quiet()
    assert {cp.status for cp in ChangePoint.objects.all()} == {Status.REFUTED}
    assert all("the same server" in cp.note for cp in ChangePoint.objects.all())
    assert paired_runs() == []


def test_a_confirmation_that_fails_leaves_the_suspicion_with_the_reason(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    world.queue_confirmation()
    run = queue.claim(world.machine)
    assert run is not None
    assert run.reason == Reason.CONFIRM
    queue.fail(world.machine, run.pk, failure(run, "build failed: the compiler is gone"))
    confirm.step()
    found = ChangePoint.objects.all()
    assert {cp.status for cp in found} == {Status.UNSETTLED}
    assert all("the compiler is gone" in cp.note for cp in found)
    assert not Alert.objects.exists()


def test_a_suspicion_outlives_a_machine_that_cannot_work_for_some_minutes(world: World, settings: Any) -> None:
    world.factors = {world.shas[7]: 1.3}
    world.queue_confirmation()
    for _ in range(settings.MAX_ATTEMPTS):
        Run.objects.update(not_before=Now())
        run = builders.claim(world.machine)
        failure = FailureReport(token=run.lease_token, kind="transient", error="no Docker daemon answers")
        queue.fail(world.machine, run.pk, failure)
        confirm.step()
    assert {cp.status for cp in ChangePoint.objects.all()} == {Status.SETTLING}
    Run.objects.update(not_before=Now())
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[7]


@pytest.mark.parametrize(
    ("kept", "factors", "answer"),
    [(7, (1.3, 1.31), Answer.DIFFERENT), (3, (1.3, 1.31), Answer.UNKNOWN), (10, (1.5, 0.9), Answer.UNKNOWN)],
    ids=["enough to settle it", "too few", "all, and more are needed"],
)
def test_the_pairs_before_a_failure_are_judged(
    world: World, kept: int, factors: tuple[float, float], answer: Answer
) -> None:
    world.factors = {world.shas[7]: 1.3}
    world.queue_confirmation()
    run = builders.claim(world.machine)
    Run.objects.filter(pk=run.pk).update(trials=10)
    for side, commit in builders.sides_of(run):
        builders.send_build(run, commit, side=side)
        values = [5000 * (factors[pair % 2] if side == Side.HEAD else 1) for pair in range(kept)]
        stopping = {"reason": "failed", "half_width": None, "target": 0.01, "trials": kept, "thrown_out": 0}
        document = builders.result(run, "get-p1", commit, values, side=side, stopping=stopping)
        results.accept_result(world.machine, run.pk, document)
    queue.fail(world.machine, run.pk, failure(run, "1 of 2 benchmarks failed: the server ended"))
    confirm.step()
    cp = ChangePoint.objects.get(series__metric=HEADLINE)
    verdict = cp.verdicts.get()
    assert (verdict.pairs, verdict.answer) == (kept, answer)
    assert cp.status == (Status.UNSETTLED if kept == 3 else Status.SETTLING), cp.note
    if kept == 3:
        assert "the server ended" in cp.note and "measured again over 3 pairs" in cp.note
    assert cp.runs.filter(reason=Reason.CONFIRM, status="queued").count() == (kept == 10)


def test_no_further_round_is_planned_for_a_machine_out_of_service(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    world.queue_confirmation()

    def undecided(sha: str, benchmark: str, trial: int) -> float:
        return 5000 * ((1.5, 0.9)[trial % 2] if world.shas.index(sha) >= 7 else 1)

    builders.work(world.machine, undecided)
    machines.retire(world.machine)
    for _ in range(2):
        confirm.step()
    assert {cp.status for cp in ChangePoint.objects.all()} == {Status.UNSETTLED}
    assert all("m1 no longer measures" in cp.note for cp in ChangePoint.objects.all())
    assert all("before that: measured again over 7 pairs" in cp.note for cp in ChangePoint.objects.all())
    assert Run.objects.filter(reason=Reason.CONFIRM).count() == 1


def test_a_metric_that_the_pairs_leave_open_takes_no_more_once_another_shows_the_change(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    world.queue_confirmation()
    run = builders.claim(world.machine)
    Run.objects.filter(pk=run.pk).update(trials=8)  # of two suspicions, one can be settled alone: 2^-8 is below 1% / 2
    run.refresh_from_db()
    assert run.base is not None
    for side, commit in ((Side.BASE, run.base), (Side.HEAD, run.commit)):
        builders.send_build(run, commit, side=side)
        values = [world.speed(commit.sha, "get-p1", trial) for trial in range(run.trials)]
        flags = [["client_bound"] if trial else [] for trial in range(run.trials)]
        document = builders.result(run, "get-p1", commit, values, flags=flags, side=side)
        results.accept_result(world.machine, run.pk, document)
    queue.complete(world.machine, run.pk, run.lease_token)
    confirm.step()
    told = {cp.series.metric: (cp.status, cp.note) for cp in ChangePoint.objects.all()}
    assert told["server_cpu_ns_per_request"][0] == Status.SETTLING
    assert told["throughput_rps"][0] == Status.UNSETTLED
    assert told["throughput_rps"][1].startswith("not known: measured again over 1 pairs")
    assert "Server CPU per request shows the change" in told["throughput_rps"][1]
    assert not Run.objects.unfinished().filter(reason=Reason.CONFIRM).exists()


def test_pairs_with_a_flagged_side_do_not_count(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    world.queue_confirmation()
    run = queue.claim(world.machine)
    assert run is not None
    assert run.base is not None
    for commit in (run.base, run.commit):
        builders.send_build(run, commit)
        values = [world.speed(commit.sha, "get-p1", trial) for trial in range(run.trials)]
        flags = [["steal"]] * run.trials
        results.accept_result(world.machine, run.pk, builders.result(run, "get-p1", commit, values, flags=flags))
    queue.complete(world.machine, run.pk, run.lease_token)
    confirm.step()
    assert not Alert.objects.exists()
    assert {cp.status for cp in ChangePoint.objects.all()} == {Status.UNSETTLED}
    told = f"no pair of trials is clean: steal in {2 * run.trials} of them"
    assert {cp.note for cp in ChangePoint.objects.all()} == {told}


def test_a_large_change_is_confirmed_by_the_first_seven_pairs(world: World) -> None:
    world.factors = {world.shas[7]: 1.2}
    builders.track(world.repository)
    world.until_quiet()
    assert [run.trials for run in Run.objects.filter(reason=Reason.CONFIRM)] == [7]
    assert Alert.objects.get().commit.sha == world.shas[7]


def test_stepping_again_changes_nothing(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository, emails=["dev@example.org"])
    world.until_quiet()
    before = list(ChangePoint.objects.order_by("id").values())
    for _ in range(3):
        detection.detect()
        confirm.step()
    assert list(ChangePoint.objects.order_by("id").values()) == before
    assert Outbox.objects.count() == 1


def test_a_pair_is_repeated_for_the_flags_that_void_what_is_suspected(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    own = Run.objects.order_by("id").first()
    assert own is not None
    builders.work(world.machine, world.speed)
    detection.detect()
    ChangePoint.objects.exclude(series__metric="throughput_rps").delete()
    confirm.step()
    paired = builders.claim(world.machine)
    assert set(jobs.flags_to_repeat(paired)) == METRICS["throughput_rps"].voided_by
    assert set(jobs.flags_to_repeat(own)) == METRICS[HEADLINE].voided_by
    for metric in METRICS.values():
        paired.metrics = [metric.name]
        assert set(jobs.flags_to_repeat(paired)) == metric.voided_by


def test_pairs_that_are_void_for_another_metric_are_measured_again_for_it(world: World) -> None:
    """A run for a suspicion of the CPU time is not repeated for flags that void the throughput alone."""
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    detection.detect()
    ChangePoint.objects.filter(series__metric="throughput_rps").delete()
    confirm.step()
    run = builders.claim(world.machine)
    for side, commit in builders.sides_of(run):
        builders.send_build(run, commit, side=side)
        values = [world.speed(commit.sha, "get-p1", trial) for trial in range(run.trials)]
        flags = [["delayed"]] * run.trials
        results.accept_result(world.machine, run.pk, builders.result(run, "get-p1", commit, values, flags=flags))
    queue.complete(world.machine, run.pk, run.lease_token)
    confirm.step()
    Series.objects.update(undetected_since="2026-01-01T00:00Z")
    world.until_quiet()
    confirming = Run.objects.filter(reason=Reason.CONFIRM).order_by("id")
    assert [run.metrics for run in confirming] == [[HEADLINE], ["throughput_rps"]]
    found = {cp.series.metric: cp.status for cp in ChangePoint.objects.all()}
    assert found == {HEADLINE: Status.CONFIRMED, "throughput_rps": Status.CONFIRMED}


def test_a_later_suspicion_of_the_same_commits_is_judged_by_the_pairs_that_are_there(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    detection.detect()
    ChangePoint.objects.filter(series__metric="throughput_rps").delete()
    confirm.step()
    builders.work(world.machine, world.speed)
    Series.objects.update(undetected_since="2026-01-01T00:00Z")
    world.until_quiet()
    assert [reason for reason, _, _ in paired_runs()].count(Reason.CONFIRM) == 1
    assert {cp.series.metric for cp in Alert.objects.get().change_points.all()} == {
        "server_cpu_ns_per_request",
        "throughput_rps",
    }


def test_one_cause_on_ten_branches_is_one_alert_and_one_mail(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    for number in range(9):
        world.repository.git("branch", f"release-{number}")
    for name in ("main", *(f"release-{number}" for number in range(9))):
        builders.track(world.repository, branch=name, emails=["dev@example.org"])
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[7]
    assert Outbox.objects.count() == 1
    assert len(ChangePoint.objects.filter(status=Status.CONFIRMED)) == 2  # of CPU time and of throughput
    assert len({(cp.series_id, cp.commit_id) for cp in ChangePoint.objects.all()}) == ChangePoint.objects.count()


def test_a_spike_is_measured_again_once_and_its_return_not_at_all(world: World) -> None:
    world.shas += world.repository.commits(18)
    builders.track(world.repository)

    def spike(sha: str, benchmark: str, trial: int) -> float:
        """The machine was slower during three of the commits' own runs."""
        paired = Run.objects.active().exclude(base=None).exists()
        slow = 18 <= world.shas.index(sha) < 21 and not paired and benchmark == "get-p1"
        return 5000 * (1.2 if slow else 1) * world.rng.gauss(1, 0.01)

    builders.work(world.machine, spike)
    detection.detect()
    assert ChangePoint.objects.filter(returns_from__isnull=False).exists()
    world.until_quiet(spike)
    assert {cp.status for cp in ChangePoint.objects.all()} == {Status.REFUTED}
    assert not ChangePoint.objects.filter(returns_from__isnull=False).exists()
    assert len({(base, head) for _, base, head in paired_runs()}) == 1


def test_a_return_from_a_true_change_is_settled_after_it(world: World) -> None:
    world.shas += world.repository.commits(18)
    world.factors = {world.shas[18]: 1.2, world.shas[21]: 1 / 1.2}
    builders.track(world.repository)
    world.until_quiet()
    found = {(cp.commit.sha, cp.is_slowdown) for cp in ChangePoint.objects.filter(status=Status.CONFIRMED)}
    assert found == {(world.shas[18], True), (world.shas[21], False)}
    alert = Alert.objects.get(improvement=False)
    assert (alert.status, alert.fixed_by.sha if alert.fixed_by else "") == ("fixed", world.shas[21])
