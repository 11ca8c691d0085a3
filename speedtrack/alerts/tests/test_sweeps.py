"""Sweeps: what idle machines find by pairs of two distant commits, where lines are too noisy to show it."""

from functools import partial
from typing import Any

import pytest
from django.db.models.functions import Now

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.settling import floors, sweeps
from speedtrack.processes import dispatch
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Reason, Run
from speedtrack.runs.planning import pushes
from speedtrack.tests import builders

from .conftest import World
from .test_floors import let_time_pass

CPU = "server_cpu_ns_per_request"
EVERY = 5


@pytest.fixture
def swept(world: World, settings: Any) -> World:
    """A noisy machine that has measured twelve commits, of which the tenth is slower by 3%, and is idle."""
    settings.AA_EVERY_DAYS, settings.SWEEP_EVERY = 0, EVERY
    world.factors = {world.shas[9]: 1.03}
    builders.track(world.repository, pushed=True, emails=["ada@example.org"])
    world.until_quiet(partial(noisy, world))
    assert not ChangePoint.objects.exists()
    let_time_pass(hours=1)
    return world


def noisy(world: World, sha: str, benchmark: str, trial: int) -> float:
    """Trials scatter by 10%; the sides of pairs, which are measured at once, by 1%."""
    world.noise = 0.01 if Run.objects.active().exclude(base=None).exists() else 0.1
    return world.speed(sha, benchmark, trial)


def sweep_runs() -> list[Run]:
    return list(Run.objects.filter(reason=Reason.SWEEP).select_related("commit", "base").order_by("id"))


def work_on(world: World) -> None:
    """Do what is queued, and store what idle work shows."""
    builders.work(world.machine, partial(noisy, world))
    floors.store_due()


def test_pairs_of_distant_commits_find_what_the_line_hides(swept: World) -> None:
    assert floors.plan_idle_work() == 1
    [run] = sweep_runs()
    assert (run.base.sha, run.commit.sha) == (swept.shas[-1 - EVERY], swept.shas[-1])
    assert (run.trials, run.metrics, run.status) == (sweeps.PAIRS, [CPU], "queued")
    builders.work(swept.machine, partial(noisy, swept))
    assert "detect" in dispatch.duties_with_work()
    assert floors.store_due() == 1
    cp = ChangePoint.objects.get()
    assert (cp.series.benchmark.name, cp.series.metric, cp.status) == ("get-p1", CPU, "settling")
    [confirming] = cp.runs.all()
    assert (confirming.reason, confirming.base, confirming.commit) == (Reason.CONFIRM, run.base, run.commit)
    assert floors.store_due() == 0
    swept.until_quiet(partial(noisy, swept))
    alert = Alert.objects.get()
    assert alert.commit.sha == swept.shas[9]
    assert not alert.change_points.get().past
    assert 1.01 < alert.change_points.get().ratio < 1.05


def test_the_next_sweep_begins_where_the_last_one_ended(swept: World) -> None:
    def planned_after(commits: int) -> int:
        swept.shas += swept.repository.commits(commits)
        pushes.sync_and_plan(swept.machine.projects.get())
        swept.until_quiet(partial(noisy, swept))
        let_time_pass(hours=1)
        count = floors.plan_idle_work()
        work_on(swept)
        swept.until_quiet(partial(noisy, swept))
        return count

    floors.plan_idle_work()
    work_on(swept)
    assert planned_after(commits=EVERY - 1) == 0
    assert planned_after(commits=2) == 1
    first, second = sweep_runs()
    assert (second.base, second.commit.sha) == (first.commit, swept.shas[-1])


def test_too_few_measured_commits_or_a_setting_of_zero_give_none(swept: World, settings: Any) -> None:
    settings.SWEEP_EVERY = len(swept.shas)
    assert floors.plan_idle_work() == 0
    let_time_pass(hours=1)
    settings.SWEEP_EVERY = 0
    assert floors.plan_idle_work() == 0
    let_time_pass(hours=1)
    settings.SWEEP_EVERY = len(swept.shas) - 1
    assert floors.plan_idle_work() == 1
    assert sweep_runs()[0].base.sha == swept.shas[0]


def test_what_fresh_pairs_do_not_show_is_refuted(swept: World) -> None:
    floors.plan_idle_work()
    work_on(swept)
    assert ChangePoint.objects.get().status == ChangePoint.Status.SETTLING
    swept.factors = {}
    swept.until_quiet(partial(noisy, swept))
    assert ChangePoint.objects.get().status == ChangePoint.Status.REFUTED
    assert not Alert.objects.exists()


def test_a_sweep_of_a_branch_that_is_gone_raises_nothing(swept: World) -> None:
    floors.plan_idle_work()
    builders.work(swept.machine, partial(noisy, swept))
    Branch.objects.update(deleted_at=Now())
    assert floors.store_due() == 1
    assert floors.store_due() == 0
    assert not ChangePoint.objects.exists()
    let_time_pass(hours=1)
    assert floors.plan_idle_work() == 0


def test_equal_commits_and_known_changes_raise_nothing(swept: World) -> None:
    project = swept.machine.projects.get()
    floors.plan_idle_work()
    work_on(swept)
    swept.until_quiet(partial(noisy, swept))
    known = ChangePoint.objects.get()
    assert known.status == ChangePoint.Status.CONFIRMED
    [run] = sweep_runs()
    assert sweeps.read(run) == []
    swept.shas += swept.repository.commits(EVERY)
    pushes.sync_and_plan(project)
    swept.until_quiet(partial(noisy, swept))
    let_time_pass(hours=1)
    assert floors.plan_idle_work() == 1
    work_on(swept)
    assert len(sweep_runs()) == 2
    assert ChangePoint.objects.get() == known  # the second sweep compares commits of one speed
