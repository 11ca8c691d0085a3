import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from speedtrack.projects import git
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.models import Branch, Commit, Position, Project, Tag
from speedtrack.projects.sync import BranchChange, sync
from speedtrack.tests.builders import Repository


def path_of(project: Project, branch: str = "main") -> list[str]:
    """The ids on the branch by position; the positions have no gap."""
    rows = Position.objects.filter(branch__project=project, branch__name=branch).order_by("number")
    assert list(rows.values_list("number", flat=True)) == list(range(len(rows)))
    return list(rows.values_list("commit__sha", flat=True))


def changes(moved: list[BranchChange]) -> list[tuple[list[str], list[str]]]:
    return [(m.added, m.removed) for m in moved]


def test_the_first_look_writes_the_whole_history(project: Project, repository: Repository) -> None:
    shas = repository.commits(3)
    assert changes(sync(project)) == [(shas, [])]
    assert path_of(project) == shas
    project.refresh_from_db()
    assert project.synced_at is not None
    assert project.branches.get().head.sha == shas[-1]
    commit = Commit.objects.get(sha=shas[1])
    assert commit.parents == [shas[0]]
    assert commit.subject == "Change number 2"
    assert commit.author_email == "ada@example.org"


def test_a_second_look_without_news_changes_nothing(project: Project, repository: Repository) -> None:
    repository.commits(2)
    sync(project)
    rows = list(Position.objects.order_by("pk").values())
    assert changes(sync(project)) == [([], [])]
    assert list(Position.objects.order_by("pk").values()) == rows


def test_new_commits_are_added_at_the_end(project: Project, repository: Repository) -> None:
    old = repository.commits(2)
    sync(project)
    new = repository.commits(2)
    assert changes(sync(project)) == [(new, [])]
    assert path_of(project) == old + new


def test_a_merge_counts_once_and_its_side_not_at_all(project: Project, repository: Repository) -> None:
    root, *_ = repository.commits(1)
    repository.git("checkout", "--quiet", "-b", "side")
    side = repository.commits(2)
    repository.git("checkout", "--quiet", "main")
    own = repository.commit(text="main\n")
    repository.git("merge", "--quiet", "--no-ff", "-s", "ours", "-m", "Merge side", "side")
    merge = repository.git("rev-parse", "HEAD")
    sync(project)
    assert path_of(project) == [root, own, merge]
    assert Commit.objects.get(sha=merge).parents == [own, side[-1]]
    assert not Commit.objects.filter(sha__in=side).exists()


def test_a_commit_on_two_branches_is_one_row_with_two_positions(project: Project, repository: Repository) -> None:
    shared = repository.commits(2)
    Branch.objects.create(project=project, name="stable")
    repository.git("branch", "stable")
    new = repository.commit()
    sync(project)
    assert path_of(project) == [*shared, new]
    assert path_of(project, "stable") == shared
    assert Commit.objects.count() == 3


def test_a_forced_push_replaces_the_positions_and_keeps_the_commits(project: Project, repository: Repository) -> None:
    shas = repository.commits(4)
    sync(project)
    repository.git("reset", "--quiet", "--hard", shas[1])
    other = repository.commit("another way", "other\n")
    assert changes(sync(project)) == [([other], shas[2:])]
    assert path_of(project) == [*shas[:2], other]
    assert Commit.objects.count() == 5


def test_a_forced_push_backwards_only_removes(project: Project, repository: Repository) -> None:
    shas = repository.commits(3)
    sync(project)
    repository.git("reset", "--quiet", "--hard", shas[0])
    assert changes(sync(project)) == [([], shas[1:])]
    assert path_of(project) == shas[:1]
    assert project.branches.get().head.sha == shas[0]


def test_a_forced_push_to_an_unrelated_history_replaces_all(project: Project, repository: Repository) -> None:
    shas = repository.commits(2)
    sync(project)
    repository.git("checkout", "--quiet", "--orphan", "fresh")
    new = [repository.commit("new root"), repository.commit()]
    repository.git("branch", "--force", "main", "fresh")
    assert changes(sync(project)) == [(new, shas)]
    assert path_of(project) == new


def test_a_deleted_branch_keeps_its_history_and_is_marked(project: Project, repository: Repository) -> None:
    shas = repository.commits(2)
    sync(project)
    repository.git("checkout", "--quiet", "-b", "other")
    repository.git("branch", "-D", "main")
    assert changes(sync(project)) == [([], [])]
    branch = project.branches.get()
    assert branch.deleted_at is not None
    assert path_of(project) == shas
    sync(project)
    assert project.branches.get().deleted_at == branch.deleted_at


def test_a_branch_that_is_made_again_is_followed_again(project: Project, repository: Repository) -> None:
    shas = repository.commits(2)
    sync(project)
    repository.git("checkout", "--quiet", "-b", "other")
    repository.git("branch", "-D", "main")
    sync(project)
    new = repository.commit()
    repository.git("branch", "main")
    assert changes(sync(project)) == [([new], [])]
    assert path_of(project) == [*shas, new]
    assert project.branches.get().deleted_at is None


def test_a_branch_that_is_made_again_as_it_was_is_no_longer_marked(project: Project, repository: Repository) -> None:
    repository.commits(1)
    sync(project)
    repository.git("checkout", "--quiet", "-b", "other")
    repository.git("branch", "-D", "main")
    sync(project)
    repository.git("branch", "main")
    assert changes(sync(project)) == [([], [])]
    assert project.branches.get().deleted_at is None


def test_a_branch_may_give_way_to_a_folder_of_branches(project: Project, repository: Repository) -> None:
    [sha] = repository.commits(1)
    repository.git("branch", "topic")
    sync(project)
    repository.git("branch", "-D", "topic")
    repository.git("branch", "topic/one")
    Branch.objects.create(project=project, name="topic/one")
    sync(project)
    assert path_of(project, "topic/one") == [sha]


def test_tags_are_made_moved_and_deleted(project: Project, repository: Repository) -> None:
    first, second = repository.commits(2)
    repository.git("tag", "light", first)
    repository.git("tag", "-a", "-m", "release", "heavy", first)
    repository.git("tag", "gone", first)
    repository.git("tag", "file", f"{first}:file.txt")
    sync(project)
    assert dict(Tag.objects.values_list("name", "sha")) == {"light": first, "heavy": first, "gone": first}
    repository.git("tag", "--force", "light", second)
    repository.git("tag", "--force", "-a", "-m", "again", "heavy", second)
    repository.git("tag", "-d", "gone")
    sync(project)
    assert dict(Tag.objects.values_list("name", "sha")) == {"light": second, "heavy": second}


def test_an_empty_repository_has_no_history_and_is_no_error(project: Project, repository: Repository) -> None:
    sync(project)
    assert path_of(project) == []
    assert project.branches.get().head is None
    [sha] = repository.commits(1)
    sync(project)
    assert path_of(project) == [sha]
    assert project.branches.get().deleted_at is None


def test_a_repository_that_vanishes_keeps_all_and_recovers(project: Project, repository: Repository) -> None:
    shas = repository.commits(2)
    repository.git("tag", "v1")
    sync(project)
    away = repository.path.with_name("away")
    repository.path.rename(away)
    with pytest.raises(RepositoryError, match=f"{repository.path}.*Check the address"):
        sync(project)
    assert path_of(project) == shas
    assert Tag.objects.count() == 1
    assert project.branches.get().deleted_at is None
    away.rename(repository.path)
    new = repository.commit()
    sync(project)
    assert path_of(project) == [*shas, new]


def test_a_lost_mirror_is_made_again(project: Project, repository: Repository) -> None:
    shas = repository.commits(2)
    sync(project)
    mirror = git.mirror_of(project.slug)
    mirror.rename(mirror.with_name("lost"))
    new = repository.commit()
    sync(project)
    assert path_of(project) == [*shas, new]


def test_three_thousand_commits_become_rows_in_first_parent_order(project: Project, repository: Repository) -> None:
    repository.fast_import(3000)
    sync(project)
    assert path_of(project) == repository.git("rev-list", "--first-parent", "--reverse", "main").split()
    subjects = Position.objects.order_by("number").values_list("commit__subject", flat=True)
    assert list(subjects) == [f"Change {i}" for i in range(3000)]


@pytest.mark.django_db(transaction=True)
def test_many_looks_at_once_write_the_history_once(project: Project, repository: Repository) -> None:
    shas = repository.commits(5)
    together = threading.Barrier(4)

    def look() -> list[str]:
        try:
            together.wait()
            [moved] = sync(Project.objects.get(pk=project.pk))
            return moved.added
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        added = [future.result() for future in [pool.submit(look) for _ in range(4)]]
    assert sorted(map(len, added)) == [0, 0, 0, 5]
    assert path_of(project) == shas


@pytest.mark.django_db(transaction=True)
def test_the_lock_of_a_project_ends_with_a_failed_look(project: Project, repository: Repository) -> None:
    repository.commits(1)
    repository.path.rename(repository.path.with_name("away"))
    with pytest.raises(RepositoryError):
        sync(project)
    with connection.cursor() as cursor:
        here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        cursor.execute(f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND {here}")
        assert cursor.fetchone() == (0,)
