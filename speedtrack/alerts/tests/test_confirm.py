import math
from typing import Any

from django.core.mail import EmailMessage

from speedtrack.alerts import confirm, detection
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks.metrics import HEADLINE, METRICS
from speedtrack.notices.models import Outbox
from speedtrack.notices.sending import send_due
from speedtrack.runs import jobs, queue, results, tracking
from speedtrack.runs.documents import Failure
from speedtrack.runs.models import Reason, Run, Sample, Series, Side
from speedtrack.tests import builders

from .conftest import World

Status = ChangePoint.Status


def paired_runs() -> list[tuple[str, str, str]]:
    runs = Run.objects.exclude(base=None).order_by("id").select_related("base", "commit")
    return [(run.reason, run.base.sha, run.commit.sha) for run in runs]


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
    assert alert.events.get().improvement
    assert not Outbox.objects.exists()


def test_two_slowdowns_are_two_alerts(world: World) -> None:
    world.factors = {world.shas[4]: 1.2, world.shas[9]: 1.25}
    builders.track(world.repository)
    world.until_quiet()
    assert {alert.commit.sha for alert in Alert.objects.all()} == {world.shas[4], world.shas[9]}


def test_unmeasured_commits_between_are_bisected_to_the_one(world: World) -> None:
    world.factors = {world.shas[6]: 1.3}
    tracked = builders.track(world.repository, last=0)
    for place in (0, 1, 2, 10, 11):
        tracking.queue_by_hand(tracked.project.slug, world.shas[place], [], None)
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[6]
    reasons = [reason for reason, _, _ in paired_runs()]
    assert reasons[0] == Reason.CONFIRM
    assert reasons[1:] == [Reason.BISECT] * len(reasons[1:])
    assert 2 <= len(reasons) - 1 <= 4  # seven commits between: at most log2(8) + 1 halvings


def test_a_commit_that_does_not_build_leaves_the_range_open(world: World) -> None:
    """The alert names both commits' range when the one between them can be measured by nobody."""
    world.factors = {world.shas[6]: 1.3}
    builders.track(world.repository)
    while run := queue.claim(world.machine):
        if run.commit.sha == world.shas[6]:
            builders.send_build(run, run.commit, succeeded=False)
            queue.fail(world.machine, run.pk, failure(run, "build failed: make exited with code 2"))
            continue
        finish(world, run)
    world.until_quiet()
    alert = Alert.objects.get()
    assert (alert.before.sha, alert.commit.sha) == (world.shas[5], world.shas[7])


def test_a_commit_that_is_the_same_program_is_neither_suspected_nor_measured(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    for number, run in enumerate(Run.objects.order_by("rank")):  # the oldest first, so that parents are measured
        Run.objects.filter(pk=run.pk).update(priority=100, rank=-number)
    while run := queue.claim(world.machine):
        same = run.commit.sha in world.shas[5:7]
        finish(world, run, binary=world.shas[5] if same else None, environment=builders.environment())
    assert Run.objects.get(linked__isnull=False).commit.sha == world.shas[6]
    world.until_quiet()
    alert = Alert.objects.get()
    assert (alert.before.sha, alert.commit.sha) == (world.shas[6], world.shas[7])
    assert world.shas[6] not in {commit for _, _, commit in paired_runs()}


def finish(world: World, run: Run, binary: str | None = None, **changes: Any) -> None:
    linked = builders.send_build(run, run.commit, binary=binary, **changes)
    for name in [] if linked else run.benchmark_set.names:
        values = [world.speed(run.commit.sha, name, trial) for trial in range(run.trials)]
        results.accept_result(world.machine, run.pk, builders.result(run, name, run.commit, values))
    queue.complete(world.machine, run.pk, run.lease_token)


def failure(run: Run, error: str) -> Failure:
    return Failure(token=run.lease_token, kind="permanent", error=error)


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
    assert all("the very same server" in cp.note for cp in ChangePoint.objects.all())
    assert paired_runs() == []


def test_a_confirmation_that_fails_leaves_the_suspicion_with_the_reason(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    detection.detect()
    confirm.step()
    run = queue.claim(world.machine)
    assert run is not None
    assert run.reason == Reason.CONFIRM
    queue.fail(world.machine, run.pk, failure(run, "build failed: the compiler is gone"))
    confirm.step()
    found = ChangePoint.objects.all()
    assert {cp.status for cp in found} == {Status.UNSETTLED}
    assert all("the compiler is gone" in cp.note for cp in found)
    assert not Alert.objects.exists()


def test_a_metric_that_the_pairs_leave_open_takes_no_more_once_another_shows_the_change(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    detection.detect()
    confirm.step()
    run = builders.claim(world.machine)
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
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    detection.detect()
    confirm.step()
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


def test_a_change_placed_a_commit_late_by_a_lucky_run_is_still_confirmed_at_its_commit(world: World) -> None:
    world.factors = {world.shas[6]: 1.3}
    builders.track(world.repository)

    def lucky(sha: str, benchmark: str, trial: int) -> float:
        """The first commit of the new level was measured fast, in its own run only."""
        paired = Run.objects.active().exclude(base=None).exists()
        luck = sha == world.shas[6] and benchmark == world.only and not paired
        return world.speed(sha, benchmark, trial) / (1.3 if luck else 1)

    builders.work(world.machine, lucky)
    detection.detect()
    assert {cp.commit.sha for cp in ChangePoint.objects.all()} == {world.shas[7]}
    world.until_quiet(lucky)
    alert = Alert.objects.get()
    assert (alert.before.sha, alert.commit.sha) == (world.shas[5], world.shas[6])


def test_a_small_change_is_narrowed_to_its_commit_at_real_noise(world: World) -> None:
    """Whether a commit is the same as its neighbour within 1% cannot be told at such noise; its side of 5% can."""
    world.noise = 0.017
    world.factors = {world.shas[6]: 1.07}
    builders.track(world.repository)
    world.until_quiet()
    alert = Alert.objects.get()
    assert (alert.before.sha, alert.commit.sha) == (world.shas[5], world.shas[6])


def test_a_commit_on_neither_level_leaves_a_range_that_names_no_innocent(
    world: World, mailoutbox: list[EmailMessage]
) -> None:
    """Two commits that each cause half of a change: the one between them is on no side of half of it."""
    world.noise = 0.004
    builders.track(world.repository, emails=["dev@example.org"])
    half = 1.15**0.5

    def speed(sha: str, benchmark: str, trial: int) -> float:
        place = world.shas.index(sha)
        changed = benchmark == "get-p1" and place >= 6
        return 5000 * (half if changed else 1) * (half if changed and place >= 8 else 1) * world.rng.gauss(1, 0.02)

    world.until_quiet(speed)
    confirmed = ChangePoint.objects.filter(status=Status.CONFIRMED)
    ranges = {(world.shas.index(cp.before.sha), world.shas.index(cp.commit.sha)) for cp in confirmed}
    assert ranges
    for before, commit in ranges:
        assert any(before < place <= commit for place in (6, 8)), "an innocent commit is named"
    send_due()
    for alert, mail in zip(Alert.objects.order_by("id"), mailoutbox, strict=True):
        wide = world.shas.index(alert.commit.sha) - world.shas.index(alert.before.sha)
        assert (f"one of {wide} commits" in mail.body) == (wide > 1)


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


def test_a_series_that_fails_holds_up_no_other(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    broken = Series.objects.get(metric="throughput_rps", benchmark__name="set-p1")
    Series.objects.filter(pk=broken.pk).update(metric="of_an_older_version")
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[7]
    broken.refresh_from_db()
    assert "of_an_older_version" in broken.error
    assert (broken.failures, broken.undetected_since is None) == (1, False)
    assert broken not in Series.objects.undetected()  # not before a pause
    Series.objects.filter(pk=broken.pk).update(metric="throughput_rps", retry_at="2026-01-01T00:00Z")
    detection.detect()
    broken.refresh_from_db()
    assert (broken.error, broken.failures, broken.retry_at, broken.undetected_since) == ("", 0, None, None)


def test_a_change_point_that_cannot_be_judged_holds_up_no_other(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    detection.detect()
    confirm.step()
    builders.work(world.machine, world.speed)
    broken = ChangePoint.objects.get(series__metric="throughput_rps")
    Sample.objects.filter(measurement__series=broken.series, measurement__paired=True).update(value=math.nan)
    world.until_quiet()
    assert [cp.series.metric for cp in Alert.objects.get().change_points.all()] == ["server_cpu_ns_per_request"]
    broken.refresh_from_db()
    assert broken.status == Status.SETTLING
    assert "finite" in broken.series.error


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
