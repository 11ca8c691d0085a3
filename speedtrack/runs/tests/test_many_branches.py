"""A look at a repository of many branches: what it costs, and that positions are always git's first parents."""

import random
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from speedtrack.projects.mirrors import git
from speedtrack.projects.mirrors.directories import remove_mirror
from speedtrack.projects.models import Branch, Position, Project
from speedtrack.projects.sync import BranchChange, sync
from speedtrack.runs.models import Run
from speedtrack.runs.planning import pushes
from speedtrack.runs.queue import lag
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository


@pytest.fixture
def project(machine: object, repository: Repository) -> Project:
    return builders.track(repository, last=0).project


def add_branches(project: Project, repository: Repository, names: list[str]) -> None:
    """Track these branches, which begin at the head of main."""
    for name in names:
        repository.git("branch", name, "main")
    Branch.objects.bulk_create([Branch(project=project, name=name) for name in names])
    pushes.sync_and_plan(project)


def push_to(repository: Repository, names: list[str]) -> list[str]:
    """A new commit on each of these branches."""
    shas = []
    for name in names:
        repository.git("checkout", "--quiet", name)
        shas.append(repository.commit(f"to {name}"))
    return shas


def statements(act: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as queries:
        act()
    return len(queries)


def check_paths(project: Project) -> None:
    """Compare the positions of each branch with the repository."""
    for branch in project.branches.filter(deleted_at=None).select_related("head"):
        rows = list(branch.positions.order_by("number").values_list("number", "commit__sha"))
        assert branch.head
        assert rows == list(enumerate(git.first_parents(project.slug, branch.head.sha))), branch.name


def test_a_look_costs_as_many_statements_with_many_branches_at_rest_as_with_few(
    project: Project, repository: Repository
) -> None:
    at_rest, of_a_push, first_looks, of_the_alarm = [], [], [], []
    long_ago = project.created - timedelta(days=1)
    push_to(repository, ["main"])
    pushes.sync_and_plan(project)  # the first plan of a project stores its suite
    for count in (2, 12):
        add_branches(project, repository, [f"topic-{count}-{number}" for number in range(count)])
        at_rest.append(statements(lambda: pushes.sync_and_plan(project)))
        push_to(repository, ["main"])
        of_a_push.append(statements(lambda: pushes.sync_and_plan(project)))
        Project.objects.update(lag_looked_at=long_ago)
        first_looks.append(statements(lag.look))
        Project.objects.update(lag_looked_at=long_ago)
        of_the_alarm.append(statements(lag.look))
    assert at_rest[0] == at_rest[1]
    assert of_a_push[0] == of_a_push[1]
    assert first_looks[0] == first_looks[1]
    assert of_the_alarm == [3, 3]  # a savepoint, the statement, and the end of the savepoint


def test_a_push_to_many_branches_costs_few_statements_for_each(project: Project, repository: Repository) -> None:
    names = [f"topic-{number}" for number in range(12)]
    add_branches(project, repository, names)
    counts = []
    for pushed in (names[:2], names[2:]):
        shas = push_to(repository, pushed)
        counts.append(statements(lambda: pushes.sync_and_plan(project)))
        assert set(Run.objects.values_list("commit__sha", flat=True)) >= set(shas)
    assert counts[1] - counts[0] <= 3 * 8
    check_paths(project)


def test_a_branch_that_is_seen_first_costs_one_statement(project: Project, repository: Repository) -> None:
    counts = [
        statements(lambda n=count: add_branches(project, repository, [f"topic-{n}-{at}" for at in range(n)]))  # type: ignore[misc]
        for count in (2, 12)
    ]
    assert counts[1] - counts[0] <= 12 - 2
    check_paths(project)


def test_then_is_called_with_the_branches_that_moved(project: Project, repository: Repository) -> None:
    add_branches(project, repository, ["a", "b", "c"])
    push_to(repository, ["b"])
    repository.git("branch", "-D", "c")
    moves: list[list[BranchChange]] = []
    sync(project, then=lambda moved, tagged: moves.append(moved))
    sync(project, then=lambda moved, tagged: moves.append(moved))
    assert [sorted(change.branch.name for change in moved) for moved in moves] == [["b", "c"], []]


def test_a_branch_may_go_on_from_the_side_of_its_former_head(project: Project, repository: Repository) -> None:
    """Its new head contains the former one, but not among its first parents (a pull that was pushed back)."""
    repository.git("checkout", "--quiet", "-b", "side")
    push_to(repository, ["side", "main"])
    repository.git("merge", "--quiet", "--no-ff", "-s", "ours", "-m", "Merge side", "side")
    pushes.sync_and_plan(project)
    repository.git("checkout", "--quiet", "side")
    repository.git("merge", "--quiet", "--no-ff", "-s", "ours", "-m", "Merge main", "main")
    repository.git("branch", "--force", "main", "side")
    [change] = sync(project)
    assert change.new == 2 and len(change.removed) == 2
    check_paths(project)


def test_a_branch_may_move_onto_another(project: Project, repository: Repository) -> None:
    add_branches(project, repository, ["topic"])
    push_to(repository, ["topic", "main", "main"])
    pushes.sync_and_plan(project)
    repository.git("branch", "--force", "topic", "main")
    changes = {change.branch.name: change for change in sync(project)}
    assert (changes["topic"].new, len(changes["topic"].removed)) == (2, 1)
    assert not changes["main"].moved
    check_paths(project)


def test_a_former_head_that_the_mirror_lacks_is_no_obstacle(project: Project, repository: Repository) -> None:
    push_to(repository, ["main", "main"])
    pushes.sync_and_plan(project)
    remove_mirror(project.slug)
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=all", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    push_to(repository, ["main"])
    [change] = sync(project)
    assert (change.new, len(change.removed)) == (1, 1)
    check_paths(project)


@pytest.mark.parametrize("seed", range(4))
def test_positions_are_first_parents_after_any_moves(project: Project, repository: Repository, seed: int) -> None:
    names, chance = ["main", "a", "b", "c"], random.Random(seed)
    add_branches(project, repository, names[1:])
    for _ in range(6):
        for name in chance.sample(names, 2):
            other = chance.choice(names)
            repository.git("checkout", "--quiet", name)
            match chance.randrange(4):
                case 0:
                    repository.git("merge", "--quiet", "--no-ff", "-s", "ours", "-m", f"Merge {other}", other)
                case 1:
                    repository.git("reset", "--quiet", "--hard", other)
                case 2 if repository.git("rev-list", "--count", "HEAD") != "1":
                    repository.git("reset", "--quiet", "--hard", "HEAD~1")
                case _:
                    push_to(repository, [name])
        pushes.sync_and_plan(project)
        check_paths(project)
    assert not Position.objects.filter(branch__project=project, branch__head=None).exists()
