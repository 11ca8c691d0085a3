"""Ladders are planned for new releases and once a day for the head, and by name."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from speedtrack.projects.models import Project
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Canary, Machine, Reason, Run
from speedtrack.runs.planning import pushes
from speedtrack.runs.planning.ladders import plan_ladders
from speedtrack.runs.requests import byhand
from speedtrack.runs.scheduling.order import PRIORITY
from speedtrack.runs.tests.canaries import measure_work
from speedtrack.tests import builders
from speedtrack.tests.builders import SUITE, Repository

LADDER = """
[[benchmark]]
name = "get-ladder"
why = "how reads scale"
ladder = { clients = [1, 50] }
workload = { test = "get", keys = { count = 1000 }, values = { bytes = 32 }, prefill = true }
"""
RUNGS = ["get-ladder.1", "get-ladder.50"]


@pytest.fixture
def suites(tmp_path: Path, settings: Any) -> Path:
    builders.use_suite(settings, tmp_path / "suites", SUITE + LADDER)
    return tmp_path / "suites"


@pytest.fixture
def project(machine: Machine, repository: Repository) -> Project:
    repository.git("tag", "1.0.0")
    return builders.track(repository).project


def ladder_runs() -> list[str]:
    """The commits with runs of all rungs, in the order of planning."""
    runs = Run.objects.order_by("pk").select_related("commit")
    return [run.commit.sha for run in runs if run.benchmark_set.names == RUNGS]


def let_pass(time: timedelta) -> None:
    Run.objects.update(created=F("created") - time)


def test_the_head_is_measured_once_a_day(project: Project, repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    plan_ladders(project)
    repository.commit()
    pushes.sync_and_plan(project)
    assert ladder_runs() == [first]
    let_pass(timedelta(hours=25))
    last = repository.commit()
    pushes.sync_and_plan(project)
    pushes.look_for_news(project)
    assert ladder_runs() == [first, last]
    run = Run.objects.filter(commit__sha=last).order_by("pk").last()
    assert run
    assert (run.reason, run.priority) == (Reason.BACKFILL, PRIORITY["later"])


def test_each_ladder_has_a_run_of_its_own(project: Project, suites: Path) -> None:
    (suites / f"{project.suite}.toml").write_text(SUITE + LADDER + LADDER.replace("get-ladder", "other-ladder"))
    assert plan_ladders(project) == 2
    names = [run.benchmark_set.names for run in Run.objects.order_by("pk") if run.priority == PRIORITY["later"]]
    assert names == [RUNGS, [rung.replace("get-ladder", "other-ladder") for rung in RUNGS]]
    assert plan_ladders(project) == 0


def test_a_poll_without_news_plans_what_is_due_and_nothing_twice(project: Project, repository: Repository) -> None:
    for _ in range(2):
        pushes.look_for_news(project)
        let_pass(timedelta(hours=25))
    assert ladder_runs() == [repository.git("rev-parse", "HEAD")]


def test_a_release_made_since_is_measured_and_older_ones_are_not(project: Project, repository: Repository) -> None:
    plan_ladders(project)
    before = ladder_runs()
    release = repository.commit()
    repository.git("tag", "-a", "1.1.0", "-m", "release")
    repository.commit()
    repository.git("tag", "1.2.0-rc1")
    pushes.sync_and_plan(project)
    assert ladder_runs() == [*before, release]


def test_a_suite_without_ladders_plans_none(machine: Machine, settings: Any, tmp_path: Path) -> None:
    builders.use_suite(settings, tmp_path / "plain")
    repository = Repository(tmp_path / "repository")
    repository.commits(1)
    assert plan_ladders(builders.track(repository).project) == 0


@pytest.mark.usefixtures("canary_auto")
def test_a_rung_does_not_become_a_canary_by_itself(project: Project, machine: Machine) -> None:
    byhand.queue_by_hand(byhand.choose(project.slug, "main", ["get-ladder"], None))
    assert measure_work(machine).benchmark_set.names == RUNGS
    assert not Canary.objects.exists()
    assert measure_work(machine).benchmark_set.names != RUNGS
    assert Canary.objects.get().benchmark_set.names == ["get-p1"]


def test_a_ladder_is_measured_by_its_name(project: Project) -> None:
    byhand.queue_by_hand(byhand.choose(project.slug, "main", ["get-ladder", "set-p1"], None))
    run = Run.objects.get(reason=Reason.MANUAL)
    assert sorted(run.benchmark_set.names) == [*RUNGS, "set-p1"]
    canary = machines.set_canary("m1", project.slug, None, ["get-ladder"])
    assert sorted(canary.benchmark_set.names) == RUNGS
    for unknown in ("no-ladder", ""):
        with pytest.raises(NoSuchThing, match=r"it has get-p1, set-p1, get-ladder$"):
            byhand.queue_by_hand(byhand.choose(project.slug, "main", [unknown], None))


def test_releases_are_measured_by_a_pattern(project: Project, repository: Repository) -> None:
    """Of each minor version the newest patch, also on a branch that is not tracked."""
    repository.git("checkout", "--quiet", "-b", "old")
    shas = {}
    for tag in ("2.0.0", "2.0.9", "2.0.10", "2.1.0-rc1", "3.0.0"):
        shas[tag] = repository.commit()
        repository.git("tag", tag)
    assert byhand.queue_by_hand(byhand.choose(project.slug, "[23].*", [], None, releases=True)) == 2
    runs = Run.objects.filter(reason=Reason.MANUAL).order_by("rank")
    assert [run.commit.sha for run in runs] == [shas["2.0.10"], shas["3.0.0"]]
    assert set(project.tags.values_list("name", "is_new")) >= {("2.0.10", False), ("3.0.0", False)}
    pushes.sync_and_plan(project)
    assert not {shas["2.0.10"], shas["3.0.0"]} & set(ladder_runs())
    with pytest.raises(NoSuchThing, match=r"no release of .* matches 'x\*'"):
        byhand.queue_by_hand(byhand.choose(project.slug, "x*", [], None, releases=True))
