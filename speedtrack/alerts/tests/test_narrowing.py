"""A confirmed change is narrowed to its commit, or to a range that names no innocent one."""

from datetime import timedelta

import pytest
from django.core.mail import EmailMessage
from django.db.models.functions import Now

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.notices.sending import send_due
from speedtrack.processes.dispatch import duties_with_work
from speedtrack.projects.models import Project
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import MachineEvent, Reason, Run, Series
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import byhand
from speedtrack.runs.scheduling.order import PRIORITY
from speedtrack.tests import builders

from .conftest import World, failure, finish, paired_runs

Status = ChangePoint.Status


def track_ends(world: World) -> None:
    """Track with the fastest and the slowest commits measured, and seven between them that are not."""
    world.factors = {world.shas[6]: 1.3}
    tracked = builders.track(world.repository, last=0)
    for place in (0, 1, 2, 10, 11):
        byhand.queue_by_hand(byhand.choose(tracked.project.slug, world.shas[place], [], None))


def test_unmeasured_commits_between_are_bisected_to_the_one(world: World) -> None:
    track_ends(world)
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[6]
    reasons = [reason for reason, _, _ in paired_runs()]
    assert reasons[0] == Reason.CONFIRM
    assert reasons[1:] == [Reason.BISECT] * len(reasons[1:])
    assert 2 <= len(reasons) - 1 <= 4  # seven commits between: at most log2(8) + 1 halvings


def measure_between(world: World, factors: dict[str, float]) -> None:
    """Confirm a change between the ends, and meanwhile measure the commits between them, slower by these factors."""
    track_ends(world)
    builders.work(world.machine, world.speed)
    detection.detect()
    confirm.step()
    for place in range(3, 10):
        byhand.queue_by_hand(byhand.choose(Project.objects.get().slug, world.shas[place], [], None))
    world.factors, real = factors, world.factors
    builders.work(world.machine, world.speed)
    world.factors = real


def bisected(world: World) -> list[int]:
    """The places of the commits that were measured to narrow changes, in the order of their runs."""
    return [world.shas.index(commit) for reason, _, commit in paired_runs() if reason == Reason.BISECT]


def test_the_commits_beside_the_step_of_a_measured_line_are_tried_first(world: World) -> None:
    measure_between(world, {world.shas[6]: 1.3})
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[6]
    assert bisected(world) == [6, 5]


def test_where_pairs_contradict_a_measured_line_the_range_is_halved(world: World) -> None:
    measure_between(world, {world.shas[8]: 1.3})  # another program began to disturb the machine
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[6]
    assert bisected(world)[:2] == [7, 4]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_pairs_that_narrow_another_metric_of_the_benchmark_are_not_measured_again(world: World, rounds: int) -> None:
    """The throughput is suspected only after so many rounds of measuring for the CPU time; each run has both."""
    track_ends(world)
    for _ in range(1 + rounds):
        builders.work(world.machine, world.speed)
        detection.detect()
        ChangePoint.objects.filter(series__metric="throughput_rps", status=Status.SUSPECTED).delete()
        confirm.step()
    Series.objects.update(undetected_since="2026-01-01T00:00Z")
    detection.detect()
    confirm.step()  # while the next pairs of the CPU time wait
    world.until_quiet()
    changes = ChangePoint.objects.filter(status=Status.CONFIRMED, series__benchmark__name="get-p1")
    places = {cp.series.metric: cp.commit.sha for cp in changes.select_related("series", "commit")}
    assert places == {HEADLINE: world.shas[6], "throughput_rps": world.shas[6]}
    pairs = [(base, commit) for reason, base, commit in paired_runs() if reason == Reason.BISECT]
    assert len(pairs) == len(set(pairs)) <= 4


def test_a_change_that_comes_while_another_is_narrowed_has_no_commit_measured_by_itself(world: World) -> None:
    track_ends(world)
    late = ChangePoint.objects.filter(series__benchmark__name="set-p1", status=Status.SUSPECTED)

    def speed(sha: str, benchmark: str, trial: int) -> float:
        return world.speed(sha, world.only, trial)

    for _ in range(2):
        builders.work(world.machine, speed)
        detection.detect()
        late.delete()
        confirm.step()
    Series.objects.update(undetected_since="2026-01-01T00:00Z")
    detection.detect()
    confirm.step()
    Run.objects.filter(reason=Reason.CONFIRM, status="queued").update(priority=PRIORITY["manual"])
    (run,) = builders.work(world.machine, speed, until=1)
    assert (run.reason, run.benchmark_set.names) == (Reason.CONFIRM, ["set-p1"])
    detection.detect()
    confirm.step()  # while the first half of the range waits for get-p1
    assert "detect" not in duties_with_work()
    world.until_quiet(speed)
    named = ChangePoint.objects.filter(status=Status.CONFIRMED, commit__sha=world.shas[6])
    assert {cp.benchmark_name for cp in named} == {"get-p1", "set-p1"}
    pairs = [(base, commit) for reason, base, commit in paired_runs() if reason == Reason.BISECT]
    assert len(pairs) == len(set(pairs)) <= 4


def narrowing(world: World) -> tuple[ChangePoint, Run]:
    """A confirmed change of a range of commits, and the run that waits to narrow it."""
    track_ends(world)
    for _ in range(2):
        builders.work(world.machine, world.speed)
        detection.detect()
        ChangePoint.objects.exclude(series__metric=HEADLINE).delete()
        confirm.step()
    return ChangePoint.objects.get(), Run.objects.get(reason=Reason.BISECT)


def test_a_run_that_a_person_cancelled_is_not_planned_again(world: World) -> None:
    cp, run = narrowing(world)
    byhand.cancel_run(run.pk)
    for _ in range(2):
        confirm.step()
    cp.refresh_from_db()
    assert list(Run.objects.filter(reason=Reason.BISECT)) == [run]
    assert cp.status == Status.CONFIRMED and cp.note.endswith(f"; not narrowed further: run {run.pk} was cancelled")
    alert = Alert.objects.get()
    assert world.shas.index(alert.before.sha) < 6 <= world.shas.index(alert.commit.sha)


def test_a_change_is_not_narrowed_on_a_machine_out_of_service(world: World) -> None:
    cp, _ = narrowing(world)
    builders.work(world.machine, world.speed, until=1)
    machines.retire(world.machine)
    runs = Run.objects.count()
    for _ in range(2):
        confirm.step()
    cp.refresh_from_db()
    assert Run.objects.count() == runs
    assert cp.status == Status.CONFIRMED and "; not narrowed further: m1 no longer measures" in cp.note


def test_what_waits_for_a_machine_that_is_paused_for_a_week_is_left_to_the_history(world: World) -> None:
    cp, run = narrowing(world)
    machines.pause(world.machine)
    confirm.step()
    run.refresh_from_db()
    assert run.status == "queued", "it may be measured tomorrow"
    MachineEvent.objects.filter(kind="paused").update(at=Now() - timedelta(days=8))
    confirm.step()
    cp.refresh_from_db()
    run.refresh_from_db()
    assert (run.status, cp.status) == ("cancelled", Status.CONFIRMED)
    assert cp.note.endswith("; not narrowed further: m1 has been paused for 7 days or more")
    assert Alert.objects.get().change_points.get() == cp


def test_a_last_pair_that_cannot_be_measured_is_not_planned_for_ever(world: World) -> None:
    """All commits of the bracket but the last are on the old level, and pairs of that one fail."""
    track_ends(world)
    world.factors = {world.shas[11]: 1.3}

    def unlucky(sha: str, benchmark: str, trial: int) -> float:
        """The last but one was measured slow, in its own run only."""
        own = not Run.objects.active().exclude(base=None).exists()
        is_unlucky = own and sha == world.shas[10] and benchmark == world.only
        return world.speed(sha, benchmark, trial) * (1.3 if is_unlucky else 1)

    last = {"base__sha": world.shas[10], "commit__sha": world.shas[11]}
    builders.work(world.machine, unlucky)
    for _ in range(12):
        builders.work(world.machine, unlucky, until=1)
        detection.detect()
        confirm.step()
        if Run.objects.filter(reason=Reason.BISECT, status="queued", **last).exists():
            run = builders.claim(world.machine)
            queue.fail(world.machine, run.pk, failure(run, "the server ended"))
    confirm.step()
    assert Run.objects.filter(reason=Reason.BISECT, **last).count() == 1
    cp = ChangePoint.objects.get(status=Status.CONFIRMED, series__metric=HEADLINE)
    assert cp.note.endswith("no commit of the range shows it by itself") and cp.commit.sha == world.shas[11]
    assert not ChangePoint.objects.settling().exists()


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
    builders.oldest_first()  # so that parents are measured
    while run := queue.claim(world.machine):
        same = run.commit.sha in world.shas[5:7]
        finish(world, run, binary=world.shas[5] if same else None, environment=builders.environment())
    assert Run.objects.get(linked__isnull=False).commit.sha == world.shas[6]
    world.until_quiet()
    alert = Alert.objects.get()
    assert (alert.before.sha, alert.commit.sha) == (world.shas[6], world.shas[7])
    assert world.shas[6] not in {commit for _, _, commit in paired_runs()}


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
