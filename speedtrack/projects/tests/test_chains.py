"""Chains and segments show exactly the first-parent histories of git, and nothing is stored twice or left over."""

from collections.abc import Iterable, Iterator
from itertools import count, islice, pairwise, takewhile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speedtrack.projects import chains
from speedtrack.projects.models import Branch, Chain, ChainCommit, Commit, Position, Project, Segment
from speedtrack.projects.sync import sync
from speedtrack.tests.builders import Repository


def histories(repository: Repository) -> dict[str, list[str]]:
    """The first-parent history of each branch by git itself, oldest first."""
    names = repository.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    return {name: repository.git("rev-list", "--first-parent", "--reverse", name).split() for name in names}


def stored(project: Project) -> dict[str, list[str]]:
    """The same by the relation, whose numbers have no gap."""
    rows: dict[str, list[str]] = {}
    for name, number, sha in (
        Position.objects.filter(branch__project=project)
        .order_by("branch", "number")
        .values_list("branch__name", "number", "commit__sha")
    ):
        rows.setdefault(name, []).append(sha)
        assert number == len(rows[name]) - 1
    return rows


def check_chains(project: Project) -> None:
    """No chain, segment or commit of a chain is superfluous, and no end of a chain lacks its commit."""
    for chain in Chain.objects.filter(project=project):
        segments = list(chain.segments.all())
        numbers = list(chain.commits.order_by("number").values_list("number", flat=True))
        assert {segment.first for segment in segments} == {numbers[0]}
        assert numbers == list(range(numbers[0], max(segment.last for segment in segments) + 1))


def push(repository: Repository, name: str) -> None:
    repository.git("checkout", "--quiet", name)
    repository.commit(f"to {name}, {repository.git('rev-list', '--all', '--count')}")


def follow(repository: Repository, name: str, other: str) -> None:
    repository.git("checkout", "--quiet", name)
    repository.git("reset", "--quiet", "--hard", other)


NAMES = ["a", "main", "b", "c", "d"]
STEP = st.tuples(st.sampled_from(NAMES), st.integers(0, 4), st.sampled_from(NAMES), st.integers(0, 2))
#: Looks at a repository; at each, branches are set to an older commit of another one, and get new commits.
LOOKS = st.lists(st.lists(STEP, min_size=1, max_size=4), min_size=2, max_size=8)


def moved(heads: dict[str, list[str]], look: list[tuple[str, int, str, int]], shas: Iterator[str]) -> set[str]:
    """Move the branches; which have moved."""
    for name, new, other, back in look:
        base = heads.get(other, [])[: max(0, len(heads.get(other, [])) - back)]
        heads[name] = [*base, *islice(shas, new + (not base))]
    return {name for name, *_ in look}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(looks=LOOKS)
def test_the_relation_is_the_histories_after_any_pushes(project: Project, looks: list[Any]) -> None:
    project.chains.all().delete()
    project.commits.all().delete()
    branches = {name: project.branches.get_or_create(name=name)[0] for name in NAMES}
    heads: dict[str, list[str]] = {}
    shas = (f"{number:040x}" for number in count())
    for look in looks:
        before = dict(heads)
        names = moved(heads, look, shas)
        first_parents = {sha: parent for name in names for parent, sha in pairwise(["", *heads[name]])}
        make_rows(project, first_parents)
        changes = chains.store(project, {branches[name]: heads[name][-1] for name in names}, first_parents)
        assert stored(project) == heads
        check_chains(project)
        for branch, change in changes.items():
            former, now = before.get(branch.name, []), heads[branch.name]
            kept = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(former, now, strict=False))))
            assert change == (kept, len(now) - kept, former[kept:])


def make_rows(project: Project, shas: Iterable[str]) -> list[Commit]:
    moment = {"authored_at": "2026-01-01T00:00Z", "committed_at": "2026-01-01T00:00Z"}
    rows = [Commit(project=project, sha=sha, **moment) for sha in shas]
    Commit.objects.bulk_create(rows, ignore_conflicts=True)
    stored_rows = {commit.sha: commit for commit in project.commits.all()}
    return [stored_rows[row.sha] for row in rows]


def test_many_branches_store_their_own_part_only(project: Project, repository: Repository) -> None:
    """120 branches of two commits each, which fork evenly from a history of 240."""
    repository.fast_import(240)
    trunk = histories(repository)["main"]
    names = [f"release-{number}" for number in range(120)]
    for name, fork in zip(names, trunk[::2], strict=True):
        repository.feed(["fast-import", "--quiet"], branch_of_two(name, fork).encode())
    Branch.objects.bulk_create(Branch(project=project, name=name) for name in names)
    sync(project)
    assert stored(project) == histories(repository)
    assert ChainCommit.objects.count() == Commit.objects.count() == 240 + 120 * 2
    assert Chain.objects.count() == 1 + 120
    assert Segment.objects.count() == 1 + 120 * 2
    assert Position.objects.count() == 240 + sum(2 * number + 3 for number in range(120))


def branch_of_two(name: str, fork: str) -> str:
    person = "committer Ada Example <ada@example.org> 1800000000 +0000"
    first, second = (f"commit refs/heads/{name}\n{person}\ndata <<.\n{name} {n}\n.\n" for n in range(2))
    return f"{first}from {fork}\n\n{second}\n"


def segments_of(project: Project, name: str) -> list[tuple[int, int]]:
    of_branch = Segment.objects.filter(branch__project=project, branch__name=name).order_by("first")
    return list(of_branch.values_list("first", "last"))


def test_the_default_branch_stays_one_line_when_it_follows_others(project: Project, repository: Repository) -> None:
    """As where each change is first pushed to another branch, and the default branch follows it once it is tested."""
    repository.commits(2)
    repository.git("branch", "staging")
    Branch.objects.create(project=project, name="staging")
    sync(project)
    for _ in range(4):
        push(repository, "staging")
        sync(project)
        follow(repository, "main", "staging")
        sync(project)
        assert stored(project) == histories(repository)
        check_chains(project)
    assert segments_of(project, "main") == segments_of(project, "staging") == [(0, 5)]


def test_a_new_default_branch_extends_the_chain_of_the_former_one(project: Project, repository: Repository) -> None:
    repository.commits(3)
    sync(project)
    repository.git("branch", "--quiet", "-m", "main", "trunk")
    Branch.objects.create(project=project, name="trunk")
    project.default_branch = "trunk"
    project.save()
    repository.commit("first of trunk")
    sync(project)
    assert segments_of(project, "main") == [(0, 2)]
    assert segments_of(project, "trunk") == [(0, 3)]
    assert Chain.objects.count() == 1


def test_commits_that_a_forced_push_leaves_to_others_stay(project: Project, repository: Repository) -> None:
    shas = repository.commits(4)
    repository.git("branch", "side")
    Branch.objects.create(project=project, name="side")
    sync(project)
    repository.git("reset", "--quiet", "--hard", shas[1])
    other = repository.commit("another way")
    (main, _) = sorted(sync(project), key=lambda change: change.branch.name)
    assert list(main.removed) == shas[2:]
    assert stored(project) == {"main": [*shas[:2], other], "side": shas}
    repository.git("checkout", "--quiet", "side")
    repository.git("reset", "--quiet", "--hard", shas[0])
    sync(project)
    assert stored(project) == {"main": [*shas[:2], other], "side": shas[:1]}
    assert ChainCommit.objects.count() == 3
    check_chains(project)


def test_commits_of_a_branch_that_was_removed_are_placed_anew(project: Project, repository: Repository) -> None:
    shas = repository.commits(3)
    repository.git("branch", "side")
    side = Branch.objects.create(project=project, name="side")
    push(repository, "side")
    sync(project)
    side.delete()
    Branch.objects.create(project=project, name="side")
    follow(repository, "main", "side")
    sync(project)
    assert stored(project) == histories(repository)
    assert stored(project)["main"][:3] == shas


def test_rows_of_commits_can_be_appended_without_a_repository(project: Project) -> None:
    shas = [f"{number:040x}" for number in range(6)]
    commits = make_rows(project, shas)
    main, side = project.branches.get(), Branch.objects.create(project=project, name="side")
    chains.append_commits(main, commits[:2])
    chains.append_commits(main, [])
    chains.append_commits(main, commits[2:5])
    chains.append_commits(side, [*commits[:3], commits[5]])
    assert stored(project) == {"main": shas[:5], "side": [*shas[:3], shas[5]]}
    check_chains(project)


def test_what_goes_on_from_nowhere_is_refused(project: Project) -> None:
    branch = project.branches.get()
    with pytest.raises(chains.NotOnChain, match="is on no branch"):
        chains.store(project, {branch: "b" * 40}, {"b" * 40: "a" * 40})
