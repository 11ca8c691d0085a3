import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from speedtrack.projects import chains
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors.directories import mirror_of, remove_mirror
from speedtrack.projects.models import Branch, Commit, Position, Project, Tag
from speedtrack.projects.sync import BranchChange, sync
from speedtrack.tests.builders import Repository


def path_of(project: Project, branch: str = "main") -> list[str]:
    """The ids on the branch by position; the positions have no gap."""
    rows = Position.objects.filter(branch__project=project, branch__name=branch).order_by("number")
    assert list(rows.values_list("number", flat=True)) == list(range(len(rows)))
    return list(rows.values_list("commit__sha", flat=True))


def changes(moved: list[BranchChange]) -> list[tuple[list[str], list[str]]]:
    return [(added(change), [*change.removed]) for change in moved]


def added(change: BranchChange) -> list[str]:
    return list(
        change.added.order_by("positions__number").filter(positions__branch=change.branch).values_list("sha", flat=True)
    )


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


def test_a_long_first_history_is_counted_before_its_positions_are_stored(
    project: Project, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without statistics, PostgreSQL reads all commits of the project for each block of positions."""
    monkeypatch.setattr(chains, "BLOCK", 2)
    shas = repository.commits(5)
    sync(project)
    assert path_of(project) == shas
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE oid = 'projects_commit'::regclass")
        assert cursor.fetchone() == (Commit.objects.count(),)


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
    mirror = mirror_of(project.slug)
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
            return added(moved)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        lists = [future.result() for future in [pool.submit(look) for _ in range(4)]]
    assert sorted(map(len, lists)) == [0, 0, 0, 5]
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


def unreachable(project: Project) -> set[str]:
    return set(project.commits.filter(unreachable_since__isnull=False).values_list("sha", flat=True))


def test_what_a_forced_push_leaves_behind_is_marked_until_it_is_back(project: Project, repository: Repository) -> None:
    shas = repository.commits(4)
    sync(project)
    assert unreachable(project) == set()
    repository.git("reset", "--quiet", "--hard", shas[1])
    sync(project)
    assert unreachable(project) == set(shas[2:])
    since = Commit.objects.get(sha=shas[2]).unreachable_since
    repository.commit()
    sync(project)
    assert Commit.objects.get(sha=shas[2]).unreachable_since == since
    repository.git("reset", "--quiet", "--hard", shas[3])
    sync(project)
    assert unreachable(project) == {repository.git("rev-parse", "ORIG_HEAD")}


def test_what_a_tag_or_a_merge_still_leads_to_is_reachable(project: Project, repository: Repository) -> None:
    shas = repository.commits(3)
    sync(project)
    repository.git("tag", "kept", shas[1])
    repository.git("reset", "--quiet", "--hard", shas[0])
    sync(project)
    assert unreachable(project) == {shas[2]}
    repository.commit()
    repository.git("merge", "--quiet", "--no-ff", "-s", "ours", "-m", "Merge", shas[2])
    sync(project)
    assert shas[2] not in path_of(project)
    assert unreachable(project) == set()


def test_the_commits_of_a_deleted_branch_are_marked_unless_they_were_merged(
    project: Project, repository: Repository
) -> None:
    repository.commits(1)
    Branch.objects.create(project=project, name="merged")
    Branch.objects.create(project=project, name="lost")
    for name in ("merged", "lost"):
        repository.git("checkout", "--quiet", "-b", name, "main")
        repository.commit(text=name)
    lost = repository.git("rev-parse", "lost")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "-m", "Merge", "merged")
    sync(project)
    repository.git("branch", "-D", "merged", "lost")
    sync(project)
    assert unreachable(project) == {lost}
    assert lost in path_of(project, "lost")
    repository.git("branch", "lost", lost)
    sync(project)
    assert unreachable(project) == set()


def test_what_a_lost_mirror_no_longer_has_is_unreachable(project: Project, repository: Repository) -> None:
    shas = repository.commits(3)
    sync(project)
    remove_mirror(project.slug)
    repository.git("reset", "--quiet", "--hard", shas[0])
    repository.git("reflog", "expire", "--expire=all", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    sync(project)
    assert unreachable(project) == set(shas[1:])


def test_an_octopus_merge_has_all_its_parents(project: Project, repository: Repository) -> None:
    [root] = repository.commits(1)
    for name in ("a", "b", "c"):
        repository.git("checkout", "--quiet", "-b", name, root)
        (repository.path / name).write_text(name)
        repository.commit(text="1\n")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-edit", "a", "b", "c")
    merge = repository.git("rev-parse", "HEAD")
    sync(project)
    parents = repository.git("rev-list", "--parents", "-1", merge).split()[1:]
    assert len(parents) >= 3
    assert Commit.objects.get(sha=merge).parents == parents
    assert path_of(project)[-1] == merge


def test_a_history_of_odd_commits_is_stored_whole(project: Project, repository: Repository) -> None:
    """Dates at both ends of time, empty commits, names and subjects that are no UTF-8 or hold control characters."""
    repository.commits(1)
    odd = [
        (b"Ada <a@b>", b"0 +0000", b"the first moment"),
        (b"Ada <a@b>", b"4102444800 +1400", b"the year 2100"),
        (b"Ada <a@b>", b"253402300800 +0000", b"after the year 9999"),
        (b"Ada <a@b>", b"-86400 +0000", b"before 1970"),
        (b"J\xf6rg \xff <j@b>", b"1700000000 -1200", b"Gr\xfc\xdfe \xff\xfe"),
        (b"\x01\x1b[31mred\x07 <x\x02@b>", b"1700000000 +0000", b"bell\x07 escape\x1b[2J \x7f end"),
        ("\u202eabc\u2028 \ufeff\U0001f680 <s@b>".encode(), b"1700000000 +0000", "\u202e\u2028\u0085".encode()),
        (b"Robert'); DROP TABLE commits;-- <r@b>", b"1700000000 +0000", b"<script>alert(1)</script> {{ x }} %s"),
        (b"<> <>", b"1700000000 +0000", b""),
        (b"A" * 5000 + b" <a@b>", b"1700000000 +0000", b"s" * 5000),
    ]
    good, refused = [repository.git("rev-parse", "HEAD")], []
    for who, when, subject in odd:
        words = (good[-1].encode(), who, when, who, when, subject)
        sha = repository.commit_object(b"tree TREE\nparent %s\nauthor %s %s\ncommitter %s %s\n\n%s\n" % words)
        sync(project)
        (refused if project.left_out else good).append(sha)
        repository.git("update-ref", "HEAD", good[-1])
    sync(project)
    assert path_of(project) == good
    assert len(refused) == 2  # git itself calls a date before 1970 and an author without a name malformed
