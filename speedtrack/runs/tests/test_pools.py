"""Pools: which machine measures a project, and what becomes of runs when machines leave and join."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from speedtrack.projects.models import MachinePolicy, Project
from speedtrack.runs.fleet import machines, pools, registering, tokens
from speedtrack.runs.models import Assignment, Machine, Reason, Run, Status
from speedtrack.runs.planning import pushes
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.outlook import outlook
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository


@pytest.fixture
def pooled(db: None) -> list[Machine]:
    """Two machines of a pool, and one of another hardware."""
    for name, pool in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        registering.add_machine(name, pool)
    return list(Machine.objects.order_by("name"))


@pytest.fixture
def project(pooled: list[Machine], repository: Repository) -> Project:
    made = builders.track(repository, last=0).project
    Project.objects.update(machine_policy=MachinePolicy.ONE)
    made.refresh_from_db()
    return made


def push(project: Project, repository: Repository, commits: int = 1) -> Counter[str]:
    """The machines of the new runs."""
    before = set(Run.objects.values_list("pk", flat=True))
    repository.commits(commits)
    pushes.sync_and_plan(project)
    return Counter(Run.objects.exclude(pk__in=before).values_list("machine__name", flat=True))


def waiting(name: str) -> int:
    return Run.objects.filter(machine__name=name, status=Status.QUEUED).count()


def test_one_machine_of_each_pool_measures_a_commit_and_stays(project: Project, repository: Repository) -> None:
    assert push(project, repository, 3) == {"a1": 3, "b1": 3}
    assert push(project, repository) == {"a1": 1, "b1": 1}, "the machine with fewer runs does not take over"
    Project.objects.update(machine_policy=MachinePolicy.EACH)
    assert push(Project.objects.get(), repository) == {"a1": 1, "a2": 1, "b1": 1}


def test_an_outlook_shows_runs_that_would_move(project: Project, repository: Repository) -> None:
    push(project, repository, 3)
    leaving = outlook(lambda: machines.pause(Machine.objects.get(name="a1")))
    changes = {one.machine: (one.queued, one.gone) for one in leaving.machines}
    assert changes == {"a1": (0, 3), "a2": (3, 0)}
    assert len(leaving.commits) == 3
    assert (waiting("a1"), waiting("a2")) == (3, 0), "nothing was done"


def test_machines_without_a_pool_are_measured_on_each(project: Project, repository: Repository) -> None:
    for machine in Machine.objects.all():
        pools.put(machine, "")
    assert push(project, repository) == {"a1": 1, "a2": 1, "b1": 1}
    assert not Assignment.objects.exists()


def test_projects_are_spread_over_a_pool(project: Project, repository: Repository) -> None:
    push(project, repository)
    other = tracking.track(tracking.TrackingRequest(project.url, "tiny", name="other", last=0)).project
    Project.objects.update(machine_policy=MachinePolicy.ONE)
    other.refresh_from_db()
    assert push(other, repository) == {"a2": 1, "b1": 1}


@pytest.mark.parametrize("leave", ["drained", "revoked", "retired"])
def test_the_runs_of_a_machine_that_leaves_move_within_its_pool(
    project: Project, repository: Repository, pooled: list[Machine], leave: str
) -> None:
    push(project, repository, 3)
    run = builders.claim(pooled[0])
    verbs = {"drained": machines.pause, "revoked": machines.revoke, "retired": machines.retire}
    verbs[leave](pooled[0])
    assert (waiting("a1"), waiting("a2"), waiting("b1")) == (0, 2 + (leave != "drained"), 3)
    run.refresh_from_db()
    assert run.machine.name == ("a1" if leave == "drained" else "a2"), "a drained machine finishes its run"
    moved = Run.objects.filter(machine__name="a2").first()
    assert moved and "moved to a2: a1 was" in moved.events.get().why if leave == "drained" else True
    assert push(project, repository) == {"a2": 1, "b1": 1}
    if leave == "drained":
        machines.resume(pooled[0])
        assert push(project, repository) == {"a2": 1, "b1": 1}, "its lines stay where they are now"


def test_without_another_machine_the_runs_wait(project: Project, repository: Repository, pooled: list[Machine]) -> None:
    push(project, repository, 2)
    machines.pause(pooled[2])
    assert waiting("b1") == 2
    assert push(project, repository) == {"a1": 1, "b1": 1}
    Project.objects.update(machine_policy=MachinePolicy.EACH)
    machines.pause(pooled[0])
    assert waiting("a1") == 3, "a project that each machine measures waits for it"


def test_a_silent_machine_is_relieved_by_the_dispatcher(
    project: Project, repository: Repository, pooled: list[Machine]
) -> None:
    push(project, repository, 2)
    assert not pools.deserted().exists()
    Machine.objects.update(last_seen_at=Now())
    Machine.objects.filter(name="a1").update(last_seen_at=Now() - timedelta(hours=1))
    assert [machine.name for machine in pools.deserted()] == ["a1"]
    assert pools.relieve() == 2
    assert (waiting("a1"), waiting("a2")) == (0, 2)
    assert not pools.deserted().exists()


def test_what_cannot_move_is_no_work_for_the_dispatcher(
    project: Project, repository: Repository, pooled: list[Machine]
) -> None:
    """Runs that the other machine has itself, as each machine measured until lately; and a project of no machine."""
    Project.objects.update(machine_policy=MachinePolicy.EACH)
    project.refresh_from_db()
    push(project, repository, 2)
    Project.objects.update(machine_policy=MachinePolicy.ONE)
    project.refresh_from_db()
    Machine.objects.filter(name="a1").update(last_seen_at=Now() - timedelta(hours=1))
    pools.relieve()
    assert (waiting("a1"), waiting("a2")) == (2, 2)
    assert not pools.deserted().exists()
    Run.objects.filter(machine=pooled[1]).first().delete()  # type: ignore[union-attr]
    assert [machine.name for machine in pools.deserted()] == ["a1"]
    assert pools.relieve() == 1
    assert not pools.deserted().exists()
    Run.objects.filter(machine=pooled[1]).delete()
    project.machines.clear()
    assert pools.relieve() == 0 and waiting("a1") == 1
    assert not pools.deserted().exists()


def test_pairs_and_what_the_other_machine_has_itself_stay(
    project: Project, repository: Repository, pooled: list[Machine]
) -> None:
    push(project, repository, 2)
    mine = list(Run.objects.filter(machine=pooled[0]).order_by("pk"))
    mine[0].pk, mine[0].machine = None, pooled[1]
    mine[0].save()
    Run.objects.filter(pk=mine[1].pk).update(base=mine[0].commit, reason=Reason.CONFIRM)
    machines.pause(pooled[0])
    assert waiting("a1") == 2


def test_a_machine_changes_its_pool_and_its_projects_are_handed_over(
    project: Project, repository: Repository, pooled: list[Machine]
) -> None:
    push(project, repository)
    pools.put(pooled[0], "b")
    assert dict(Assignment.objects.values_list("pool", "machine__name")) == {"a": "a2", "b": "b1"}
    assert push(project, repository) == {"a2": 1, "b1": 1}
    assert pooled[0].events.get(kind="pooled").why == "from a to b"


def test_a_machine_without_a_valid_token_is_away(
    project: Project, repository: Repository, pooled: list[Machine]
) -> None:
    tokens.revoke(pooled[0])
    assert push(project, repository) == {"a2": 1, "b1": 1}
