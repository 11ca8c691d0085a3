"""A/A runs: planned when a machine is idle and due for one, and what they say of every series."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models import F
from django.db.models.functions import Now

from speedtrack.alerts.lines import spreads
from speedtrack.alerts.lines.waiting import runs_with_due_floors
from speedtrack.alerts.models import ChangePoint, NoiseFloor
from speedtrack.alerts.settling import floors
from speedtrack.alerts.settling.floors import AA_PAIRS
from speedtrack.alerts.settling.verdicts import LEVEL, PAIRS
from speedtrack.benchmarks.digests import json_digest
from speedtrack.processes import dispatch
from speedtrack.runs.models import Attempt, Machine, Measurement, Reason, Run, Trial
from speedtrack.runs.planning import planning
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.stats.noise.floor import standard_shift
from speedtrack.tests import builders
from speedtrack.tests.plans import rows_read

from .conftest import World

CPU = "server_cpu_ns_per_request"


@pytest.fixture
def measured(world: World) -> World:
    """A history that was measured some time ago; nothing waits."""
    builders.track(world.repository, last=3)
    world.until_quiet()
    let_time_pass(hours=1)
    return world


def let_time_pass(**length: float) -> None:
    """Everything that has happened, happened so much earlier."""
    ago = timedelta(**length)
    Run.objects.update(created=F("created") - ago, ended_at=F("ended_at") - ago)
    Machine.objects.update(aa_looked_at=F("aa_looked_at") - ago)
    Attempt.objects.update(ended_at=F("ended_at") - ago)


def aa_runs() -> list[Run]:
    return list(Run.objects.filter(reason=Reason.AA).order_by("id"))


def test_an_idle_machine_measures_its_newest_commit_against_itself(measured: World) -> None:
    assert ("detect", "speedtrack.tasks.calibrate") in dispatch.nudges_for(dispatch.duties_with_work())
    assert floors.plan_idle_work() == 1
    [run] = aa_runs()
    assert run.commit == run.base
    assert (run.commit.sha, run.trials, run.machine) == (measured.shas[-1], AA_PAIRS, measured.machine)
    assert run.priority < min(planning.PRIORITY[word] for word in ("manual", "head", "rest", "later"))
    assert not {task for _, task in dispatch.nudges_for(dispatch.duties_with_work()) if "calibrate" in task}
    builders.work(measured.machine, measured.speed)
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert set(Trial.objects.filter(result__attempt__run=run).values_list("result__side", flat=True)) == {
        "base",
        "head",
    }
    sides = Measurement.objects.filter(attempt__run=run, series__metric=CPU, series__benchmark__name="get-p1")
    assert sorted(sides.values_list("side", "n")) == [("base", AA_PAIRS), ("head", AA_PAIRS)]


def open_still(world: World, sha: str, benchmark: str, trial: int) -> float:
    """A small step, in pairs that scatter evenly and so widely that they tell nothing of it."""
    new = world.shas.index(sha) >= 7
    level = 1.05 if new and benchmark == "get-p1" else 1
    if Run.objects.active().exclude(base=None).exists():
        scatter = NormalDist(1, 0.05).inv_cdf((0.5 + 0.618034 * trial) % 1)
        return 5000 * level**0.5 * (scatter if new else 1 / scatter)
    return 5000 * level * world.rng.gauss(1, 0.004)


@pytest.mark.parametrize(("budget_s", "after"), [(1, "7.0 s"), (25, "25 s"), (90, "1 min 30 s")])
def test_a_suspicion_is_measured_for_as_long_as_the_suite_says_and_no_longer(
    world: World, settings: Any, tmp_path: Path, budget_s: int, after: str
) -> None:
    builders.use_suite(settings, tmp_path / "suites", f"settle = {{ budget_s = {budget_s} }}\n{builders.SUITE}")
    builders.track(world.repository)
    world.until_quiet(partial(open_still, world))
    cp = ChangePoint.objects.get(series__metric=CPU)
    assert cp.status == ChangePoint.Status.UNSETTLED
    assert cp.note.startswith(f"unknown after {after}: measured again over")
    rounds = list(cp.runs.filter(reason=Reason.CONFIRM).order_by("id").values_list("trials", flat=True))
    assert rounds[0] == PAIRS.first and sum(rounds) == max(PAIRS.first, budget_s)  # a pair takes a second here
    let_time_pass(hours=1)
    floors.plan_idle_work()
    assert not Run.objects.unfinished().filter(reason=Reason.CONFIRM).exists()


def test_what_pairs_left_open_is_measured_further_by_an_idle_machine(world: World) -> None:
    builders.track(world.repository)
    world.until_quiet(partial(open_still, world))
    waiting = ChangePoint.objects.get(series__metric=CPU)
    assert waiting.status == ChangePoint.Status.UNSETTLED
    assert waiting.note.startswith(f"not known yet: measured again over {PAIRS.usual} pairs")
    rounds = list(waiting.runs.filter(reason=Reason.CONFIRM).order_by("id").values_list("trials", flat=True))
    assert rounds[0] == PAIRS.first and sum(rounds) == PAIRS.usual
    assert all(2 <= trials <= sum(rounds[:i]) for i, trials in enumerate(rounds) if i)
    assert floors.plan_idle_work() == 0
    let_time_pass(hours=1)
    assert floors.plan_idle_work() == 1
    further = waiting.runs.latest("id")
    assert (further.reason, further.trials, further.status) == (Reason.CONFIRM, PAIRS.most - PAIRS.usual, "queued")
    world.factors = {world.shas[7]: 1.05}
    world.until_quiet()
    waiting.refresh_from_db()
    assert waiting.status == ChangePoint.Status.CONFIRMED
    let_time_pass(hours=1)
    floors.plan_idle_work()
    assert Run.objects.latest("id").reason == Reason.AA


def test_as_many_rows_are_read_for_the_newest_point_however_long_the_history_is(measured: World) -> None:
    project = measured.machine.projects.get()

    def newest() -> Measurement | None:
        return floors.newest_point(floors.measured_runs(measured.machine, project))

    found, few = newest(), rows_read(newest)
    assert found == Measurement.objects.exclude(series__benchmark__name="build").latest("pk")
    run = Run.objects.latest("pk")
    attempt = run.attempts.get()
    points = list(attempt.measurements.all())
    for number in range(60):
        run.pk, run.round, run.ended_at = None, 100 + number, run.created - timedelta(days=number + 1)
        run.save(force_insert=True)
        attempt.pk, attempt.run = None, run
        attempt.save(force_insert=True)
        for point in points:
            point.pk, point.attempt = None, attempt
            point.save(force_insert=True)
    assert newest() == found
    assert rows_read(newest) <= few


def test_a_machine_that_has_just_worked_or_has_work_is_left_alone(measured: World) -> None:
    Run.objects.update(ended_at=Now() - timedelta(minutes=5))
    assert floors.plan_idle_work() == 0
    let_time_pass(hours=1)
    builders.track(measured.repository, last=5)
    assert Run.objects.unfinished().exists()
    assert floors.plan_idle_work() == 0


def test_a_paused_machine_and_a_setting_of_zero_have_none(measured: World, settings: Any) -> None:
    Machine.objects.update(paused=True)
    assert floors.plan_idle_work() == 0
    Machine.objects.update(paused=False)
    settings.AA_EVERY_DAYS = 0
    assert floors.plan_idle_work() == 0


def test_the_next_one_is_due_after_a_week_or_when_the_machine_changed(measured: World) -> None:
    def planned_after(**length: float) -> int:
        let_time_pass(**length)
        planned = floors.plan_idle_work()
        builders.work(measured.machine, measured.speed)
        return planned

    assert planned_after(hours=1) == 1
    assert planned_after(days=6) == 0
    assert planned_after(days=2) == 1
    assert planned_after(hours=1) == 0
    change_environment(measured)
    assert planned_after(hours=1) == 1


def change_environment(world: World) -> None:
    """A push is measured on a machine with a new kernel."""
    world.shas += world.repository.commits(1)
    builders.track(world.repository, last=1)
    run = builders.claim(world.machine)
    facts = builders.SERIES_FACTS | {"kernel": "6.2"}
    environment = {"digest": json_digest(facts), "series": facts, "recorded": {}}
    for name in builders.measured(run):
        document = builders.result(run, name, run.commit, [5000.0] * 5, environment=environment)
        results.accept_result(world.machine, run.pk, document)
    queue.complete(world.machine, run.pk, run.lease_token)


def test_a_finished_aa_run_gives_every_series_a_floor(measured: World) -> None:
    measured.noise = 0.004
    floors.plan_idle_work()
    builders.work(measured.machine, measured.speed)
    assert "detect" in dispatch.duties_with_work()
    assert floors.store_due() == 1
    assert floors.store_due() == 0 and not runs_with_due_floors().exists()
    assert NoiseFloor.objects.count() == 2 * 2  # benchmarks, metrics
    floor = NoiseFloor.objects.get(series__benchmark__name="get-p1", series__metric=CPU)
    assert floor.pairs == AA_PAIRS
    assert 0.002 < floor.deviation < 0.012  # sqrt(2) times 0.4%, from ten pairs
    assert floor.low < floor.ratio < floor.high
    assert floor.smallest == pytest.approx(floor.deviation * standard_shift(AA_PAIRS, LEVEL), rel=0.05)
    assert spreads.newest_floors([floor.series_id]) == {floor.series_id: floor}


def test_the_newest_floor_holds_and_the_old_ones_stay(measured: World) -> None:
    for _ in range(2):
        let_time_pass(days=8)
        floors.plan_idle_work()
        builders.work(measured.machine, measured.speed)
        floors.store_due()
    old, new = NoiseFloor.objects.filter(series__benchmark__name="get-p1", series__metric=CPU).order_by("id")
    assert spreads.newest_floors([old.series_id])[old.series_id] == new


def test_pairs_that_are_not_clean_say_nothing(measured: World) -> None:
    floors.plan_idle_work()
    run = builders.claim(measured.machine)
    for side, commit in builders.sides_of(run):
        for name in builders.measured(run):
            document = builders.result(run, name, commit, [5000.0] * 10, side=side, flags=[["steal"]] * 10)
            results.accept_result(run.machine, run.pk, document)
    queue.complete(run.machine, run.pk, run.lease_token)
    assert floors.store_due() == 1
    assert set(NoiseFloor.objects.values_list("pairs", "smallest")) == {(0, None)}
    assert spreads.newest_floors(NoiseFloor.objects.values_list("series", flat=True)) == {}


def test_two_commits_of_one_program_are_an_aa_run_for_nothing(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    world.until_quiet()
    assert not runs_with_due_floors().exists(), "different programs"
    run = Run.objects.filter(reason=Reason.CONFIRM).first()
    assert run
    builds = run.attempts.get().builds
    builds.filter(side="head").update(artifacts=builds.get(side="base").artifacts)
    assert list(runs_with_due_floors()) == [run]
    floors.store_due()
    assert set(NoiseFloor.objects.values_list("run", flat=True)) == {run.pk}


def test_aa_runs_by_hand_go_first_and_may_be_repeated(measured: World) -> None:
    for _ in range(2):
        call_command("measure", measured.repository.path.name, "main", "--aa", "--benchmarks", "get-p1")
    first, second = aa_runs()
    assert (first.round, second.round) == (0, 1)
    assert first.priority == planning.PRIORITY["manual"]
    assert first.benchmark_set.names == ["get-p1"]
