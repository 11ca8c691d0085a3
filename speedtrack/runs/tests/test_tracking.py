from pathlib import Path

import pytest

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import git
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.models import Machine, Reason, Run
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import Tracked, TrackingRequest
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository


def test_tracking_mirrors_the_history_and_queues_the_newest(machine: Machine, repository: Repository) -> None:
    shas = repository.commits(3)
    tracked = builders.track(repository, last=2)
    assert (tracked.commits, tracked.queued) == (5, 2)
    assert set(Run.objects.values_list("commit__sha", "reason")) == {(s, Reason.BACKFILL) for s in shas[-2:]}
    assert tracked.hook.url.endswith(f"/hooks/{tracked.project.hook_id}")


def test_tracking_twice_is_harmless(machine: Machine, repository: Repository) -> None:
    first = builders.track(repository)
    second = builders.track(repository)
    assert first.project == second.project
    assert (second.queued, second.commits) == (0, 2)
    assert first.project.hook_secret.reveal() == second.project.hook_secret.reveal()
    assert (Project.objects.count(), Branch.objects.count(), Run.objects.count()) == (1, 1, 2)


def test_tracking_again_after_a_machine_was_added_queues_for_it(db: None, repository: Repository) -> None:
    assert builders.track(repository).queued == 0
    builders.machine("m1")
    assert builders.track(repository).queued == 2


def test_another_branch_of_a_tracked_repository_joins_its_project(machine: Machine, repository: Repository) -> None:
    builders.track(repository)
    repository.git("checkout", "--quiet", "-b", "stable")
    [new] = repository.commits(1)
    tracked = builders.track(repository, branch="stable")
    assert (tracked.branch.name, tracked.commits) == ("stable", 3)
    assert Project.objects.count() == 1
    assert Run.objects.filter(commit__sha=new).count() == 1


def test_whether_the_history_alone_is_mailed_is_asked_once_and_stays(machine: Machine, repository: Repository) -> None:
    def mailed(**wish: bool) -> bool:
        builders.track(repository, **wish)
        return Project.objects.get().mail_history_verdicts

    assert not mailed()
    assert mailed(mail_history_verdicts=True)
    assert mailed()
    assert not mailed(mail_history_verdicts=False)


def nothing_is_left() -> bool:
    return not Project.objects.exists() and not Branch.objects.exists() and not Commit.objects.exists()


@pytest.mark.parametrize("url", ["http://example.org/a/b", "/nowhere/at/all", "ext::sh -c id", "-x", "https://u:p@h/a"])
def test_a_wrong_address_leaves_no_project(machine: Machine, suites: Path, url: str) -> None:
    with pytest.raises(RepositoryError):
        tracking.track(TrackingRequest(url, "tiny"))
    assert nothing_is_left()


def test_a_directory_without_a_repository_leaves_no_project(machine: Machine, suites: Path, tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="Check the address"):
        tracking.track(TrackingRequest(str(tmp_path), "tiny"))
    assert nothing_is_left()


def test_a_wrong_branch_is_answered_with_those_there_are(machine: Machine, repository: Repository) -> None:
    repository.git("branch", "stable")
    with pytest.raises(RepositoryError, match="has no branch 'unstable': it has main, stable"):
        builders.track(repository, branch="unstable")
    assert nothing_is_left()


def test_a_wrong_suite_leaves_no_project(machine: Machine, repository: Repository) -> None:
    with pytest.raises(DefinitionError, match="there is no suite 'redis'"):
        tracking.track(TrackingRequest(str(repository.path), "redis"))
    assert nothing_is_left()


def test_a_suite_with_a_mistake_leaves_no_project(machine: Machine, repository: Repository, suites: Path) -> None:
    (suites / "tiny.toml").write_text("name = 1")
    with pytest.raises(DefinitionError):
        builders.track(repository)
    assert nothing_is_left()


def test_an_empty_repository_says_what_to_do(machine: Machine, suites: Path, tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="is empty: push a commit"):
        builders.track(Repository(tmp_path / "empty"))
    assert nothing_is_left()


def test_a_history_that_cannot_be_fetched_leaves_neither_project_nor_mirror(
    machine: Machine, repository: Repository
) -> None:
    """The list of references can be read, the objects cannot."""
    blob = repository.git("rev-parse", "HEAD:file.txt")
    (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RepositoryError, match="cannot fetch"):
        builders.track(repository)
    assert nothing_is_left()
    assert not mirror_of("repository").exists()


def test_a_name_that_is_taken_by_another_repository_is_refused(
    machine: Machine, repository: Repository, three_commits: Repository
) -> None:
    builders.track(repository, name="kvd")
    with pytest.raises(RepositoryError, match=f"project kvd tracks {repository.path}: give this one another --name"):
        builders.track(three_commits, name="kvd")
    assert Project.objects.get().url == str(repository.path)


@pytest.mark.parametrize(
    ("name", "slug"), [("My Redis", "my-redis"), ("a/../b", "a-b"), ("Ünïcode", "n-code"), ("x.git", "x-git")]
)
def test_a_project_has_a_name_fit_for_addresses(name: str, slug: str) -> None:
    assert tracking.valid_slug(name) == slug


def test_a_name_without_letters_is_refused() -> None:
    with pytest.raises(RepositoryError, match="give one with --name"):
        tracking.valid_slug("..")


def test_the_branch_is_that_of_the_repository_where_none_is_named(machine: Machine, repository: Repository) -> None:
    repository.git("branch", "--move", "trunk")
    assert builders.track(repository).branch.name == "trunk"


@pytest.mark.parametrize("count", [10**20, 2**63, 2**31])
def test_more_commits_than_there_are_is_all_of_them(machine: Machine, repository: Repository, count: int) -> None:
    assert builders.track(repository, last=count).queued == 2


def test_a_count_below_nothing_is_nothing(machine: Machine, repository: Repository) -> None:
    assert builders.track(repository, last=-(10**20)).queued == 0


def test_a_branch_tracked_later_is_fetched_then(machine: Machine, repository: Repository) -> None:
    repository.git("branch", "stable")
    builders.track(repository)
    assert list(git.local_refs("repository")) == ["refs/heads/main"]
    builders.track(repository, branch="stable")
    assert list(git.local_refs("repository")) == ["refs/heads/main", "refs/heads/stable"]


def test_a_second_branch_that_cannot_be_fetched_is_not_tracked(machine: Machine, repository: Repository) -> None:
    builders.track(repository)
    repository.git("checkout", "--quiet", "-b", "odd")
    repository.commit_object(b"tree TREE\nauthor A 1 +0000\ncommitter A <a@b> 1 +0000\n\nodd\n")
    with pytest.raises(RepositoryError, match=r"cannot fetch branch odd of .*: object .* is malformed .*missingEmail"):
        builders.track(repository, branch="odd")
    assert [branch.name for branch in Branch.objects.all()] == ["main"]


def test_the_mirror_of_a_tracked_project_is_that_of_its_slug(tracked: Tracked) -> None:
    assert mirror_of(tracked.project.slug).is_dir()


def test_a_name_too_long_for_an_address_is_refused(machine: Machine, tmp_path: Path, suites: Path) -> None:
    repository = Repository(tmp_path / ("r" * 60))
    repository.commit()
    with pytest.raises(RepositoryError, match="give a shorter one with --name"):
        builders.track(repository)
