"""What is fetched; a bad object or an odd name at the remote affects only the references that need it."""

import shutil
from collections.abc import Callable

import pytest

from speedtrack.projects.errors import GitFailed, RepositoryError, RepositoryUnreachable
from speedtrack.projects.mirrors import fetching, git, gitprocess
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.projects.models import Branch, Project
from speedtrack.projects.sync import has_news, sync
from speedtrack.tests.builders import Repository

LINE = "A <a@b> 1 +0000"
ABSENT = "1234567890" * 4


def commit(repository: Repository, changes: Callable[[list[str]], list[str]]) -> str:
    """A commit on top of HEAD with changed lines."""
    tree, parent = repository.git("rev-parse", "HEAD^{tree}", "HEAD").split()
    lines = [f"tree {tree}", f"parent {parent}", f"author {LINE}", f"committer {LINE}", "", "Odd"]
    return written(repository, "commit", "\n".join(changes(lines)).encode() + b"\n")


def written(repository: Repository, kind: str, content: bytes) -> str:
    return repository.feed(["hash-object", "-t", kind, "-w", "--literally", "--stdin"], content).decode().strip()


def with_tree(repository: Repository, *entries: tuple[str, str]) -> str:
    blob = bytes.fromhex(repository.git("rev-parse", "HEAD:file.txt"))
    content = b"".join(f"{mode} {name}".encode() + b"\0" + blob for mode, name in entries)
    tree = written(repository, "tree", content)
    return commit(repository, lambda lines: [f"tree {tree}", *lines[1:]])


def of_a_lost_blob(repository: Repository) -> str:
    tree = written(repository, "tree", b"100644 file.txt\0" + bytes.fromhex(ABSENT))
    return commit(repository, lambda lines: [f"tree {tree}", *lines[1:]])


BAD: dict[str, Callable[[Repository], str]] = {
    "missingEmail": lambda r: commit(r, lambda c: [*c[:2], "author A 1 +0000", *c[3:]]),
    "badDateOverflow": lambda r: commit(r, lambda c: [*c[:2], "author A <a@b> 99999999999999999999 +0000", *c[3:]]),
    "nulInCommit": lambda r: commit(r, lambda c: [*c[:5], "a\0b"]),
    "missingAuthor": lambda r: commit(r, lambda c: [*c[:2], *c[3:]]),
    "multipleAuthors": lambda r: commit(r, lambda c: [*c[:3], *c[2:]]),
    "missingNameBeforeEmail": lambda r: commit(r, lambda c: [*c[:2], "author <a@b> 1 +0000", *c[3:]]),
    "zeroPaddedDate": lambda r: commit(r, lambda c: [*c[:2], "author A <a@b> 01 +0000", *c[3:]]),
    "hasDotgit": lambda r: with_tree(r, ("100644", ".git")),
    "duplicateEntries": lambda r: with_tree(r, ("100644", "a"), ("100644", "a")),
    "treeNotSorted": lambda r: with_tree(r, ("100644", "b"), ("100644", "a")),
    "is missing or damaged at the remote": of_a_lost_blob,
    ABSENT: lambda r: commit(r, lambda c: [f"tree {ABSENT}", *c[1:]]),
    "not name a commit": lambda r: r.git("rev-parse", "HEAD:file.txt"),
    "find it with `git fsck` there": lambda r: commit(r, lambda c: [c[0], f"parent {ABSENT}", *c[2:]]),
}


@pytest.fixture(params=BAD, ids=lambda word: word.split()[0])
def bad(request: pytest.FixtureRequest, repository: Repository) -> tuple[str, str]:
    """A commit that git refuses, and a part of the reason."""
    repository.commits(2)
    return BAD[request.param](repository), request.param


def place(repository: Repository, ref: str, sha: str) -> None:
    """Written by hand, because git itself refuses some of them."""
    file = repository.path / ".git" / ref
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{sha}\n")


def heads(project: Project) -> dict[str, str]:
    return dict(project.branches.exclude(head=None).values_list("name", "head__sha"))


def test_a_bad_object_on_a_branch_nobody_tracks_is_not_met(
    project: Project, repository: Repository, bad: tuple[str, str]
) -> None:
    place(repository, "refs/heads/other", bad[0])
    place(repository, "refs/tags/other", bad[0])
    repository.git("tag", "v1", "main")
    sync(project)
    assert heads(project) == {"main": repository.git("rev-parse", "main")}
    assert [tag.name for tag in project.tags.all()] == ["v1"]
    assert project.left_out == {}
    assert not has_news(project)


def test_a_bad_object_on_one_of_two_tracked_branches_costs_that_branch(
    project: Project, repository: Repository, bad: tuple[str, str]
) -> None:
    sha, word = bad
    repository.git("branch", "stable")
    Branch.objects.create(project=project, name="stable")
    sync(project)
    before = repository.git("rev-parse", "stable")
    place(repository, "refs/heads/stable", sha)
    new = repository.commit()
    sync(project)
    project.refresh_from_db()
    assert heads(project) == {"main": new, "stable": before}
    assert not project.branches.filter(deleted_at__isnull=False).exists()
    assert list(project.left_out) == ["refs/heads/stable"]
    why = project.left_out["refs/heads/stable"]["why"]
    assert word in why
    assert "network" not in why
    assert not has_news(project)


def test_what_was_left_out_is_taken_when_it_was_mended(project: Project, repository: Repository) -> None:
    repository.commits(2)
    Branch.objects.create(project=project, name="stable")
    place(repository, "refs/heads/stable", BAD["missingEmail"](repository))
    sync(project)
    repository.git("branch", "--force", "stable", "main~1")
    assert has_news(project)
    sync(project)
    project.refresh_from_db()
    assert project.left_out == {}
    assert heads(project)["stable"] == repository.git("rev-parse", "stable")


def test_a_bad_tag_costs_itself_among_many(project: Project, repository: Repository) -> None:
    [first, _] = repository.commits(2)
    for number in range(9):
        repository.git("tag", "-a", "-m", "release", f"v{number}")
    tag = written(repository, "tag", f"object {first}\ntype commit\ntag bad\ntagger A 1\n\nx\n".encode())
    place(repository, "refs/tags/bad", tag)
    sync(project)
    assert sorted(project.tags.values_list("name", flat=True)) == [f"v{number}" for number in range(9)]
    assert tag in project.left_out["refs/tags/bad"]["why"]
    assert not has_news(project)


def test_tags_that_point_into_tracked_branches_come_with_them(project: Project, repository: Repository) -> None:
    first, _ = repository.commits(2)
    repository.git("tag", "old", first)
    repository.git("checkout", "--quiet", "-b", "release")
    repository.commit()
    repository.git("tag", "-a", "-m", "release", "beside")
    sync(project)
    assert list(project.tags.values_list("name", flat=True)) == ["old"]
    assert not has_news(project)
    Branch.objects.create(project=project, name="release")
    assert has_news(project)
    sync(project)
    assert sorted(project.tags.values_list("name", flat=True)) == ["beside", "old"]


def test_a_tag_that_moves_to_a_branch_nobody_tracks_is_gone(project: Project, repository: Repository) -> None:
    repository.commits(1)
    repository.git("tag", "nightly")
    sync(project)
    repository.git("checkout", "--quiet", "-b", "other")
    repository.commit()
    repository.git("tag", "--force", "nightly")
    assert has_news(project)
    sync(project)
    assert not project.tags.exists()
    assert not has_news(project)


def test_branches_of_a_mirror_that_nobody_tracks_are_taken_out(project: Project, repository: Repository) -> None:
    """For instance from the time when all branches were fetched."""
    repository.commits(1)
    repository.git("branch", "other")
    fetching.fetch("kvd", Remote(project.url), ["main", "other"])
    sync(project)
    assert list(git.local_refs("kvd")) == ["refs/heads/main"]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\u00a0", "\u202e", "\U0001f680"])
def test_a_name_with_an_odd_character_is_a_name(project: Project, repository: Repository, character: str) -> None:
    [sha] = repository.commits(1)
    name = f"a{character}b"
    repository.git("branch", name)
    repository.git("tag", name)
    repository.git("tag", "-a", "-m", "release", f"{name}-annotated")
    sync(project)
    assert dict(project.tags.values_list("name", "sha")) == {name: sha, f"{name}-annotated": sha}
    assert not has_news(project)
    Branch.objects.create(project=project, name=name)
    sync(project)
    assert heads(project) == {"main": sha, name: sha}
    repository.git("symbolic-ref", "HEAD", f"refs/heads/{name}")
    assert git.remote_default_branch(Remote(project.url)) == name


def test_a_name_that_is_not_utf8_is_passed_over(project: Project, repository: Repository) -> None:
    [sha] = repository.commits(1)
    for kind in ("heads", "tags"):
        repository.feed(
            ["update-ref", "--stdin"], b"create refs/" + kind.encode() + b"/\xff\xfe " + sha.encode() + b"\n"
        )
    repository.git("tag", "v1")
    for _ in range(2):
        sync(project)
    assert [tag.name for tag in project.tags.all()] == ["v1"]
    assert not has_news(project)


def test_a_git_that_fails_to_answer_does_not_delete_a_branch(
    project: Project, repository: Repository, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that fails or hangs at `rev-list`, placed before the real one on PATH."""
    repository.commits(1)
    sync(project)
    new = repository.commit()
    wrapper = repository.path.parent / "bin" / "git"
    wrapper.parent.mkdir()
    real = shutil.which("git")
    for ending, limit_s in (("exit 128", 60), ("kill -9 $$", 60), ("sleep 60", 4)):
        wrapper.write_text(f'#!/bin/sh\ncase "$*" in *rev-list*) {ending};; esac\nexec {real} "$@"\n')
        wrapper.chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setenv("PATH", f"{wrapper.parent}:/usr/bin:/bin")
            patch.setattr(gitprocess.settings, "GIT_TIMEOUT_S", limit_s)
            with pytest.raises(RepositoryError, match="rev-list"):
                sync(project)
        assert project.branches.get().deleted_at is None
    sync(project)
    assert heads(project) == {"main": new}


def test_a_block_gives_git_so_many_seconds_in_all(project: Project, repository: Repository) -> None:
    sync(project)
    remote, head = Remote(project.url), repository.commit("new")
    for seconds in (0, 0.001):
        with gitprocess.within(seconds), pytest.raises(RepositoryUnreachable, match="took"):
            fetching.find_commit(project.slug, remote, head)
    with gitprocess.within(30):
        assert fetching.find_commit(project.slug, remote, head) == head


def test_a_mirror_that_lost_objects_is_filled_again(project: Project, repository: Repository) -> None:
    repository.commits(1)
    sync(project)
    new = repository.commit()
    mirror = mirror_of("kvd")
    fetching.fetch("kvd", Remote(project.url), ["main"])
    for pack in [*mirror.glob("objects/pack/*"), mirror / "objects" / new[:2] / new[2:]]:
        pack.unlink(missing_ok=True)
    sync(project)
    assert heads(project) == {"main": new}


def test_of_many_branches_only_those_that_moved_are_fetched(
    project: Project, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commits(1)
    repository.git("branch", "calm")
    Branch.objects.create(project=project, name="calm")
    sync(project)
    fetched: list[str] = []
    run_fetch = fetching.run_fetch

    def note(slug: str, remote: Remote, refspecs: list[str]) -> None:
        fetched.extend(refspecs)
        run_fetch(slug, remote, refspecs)

    monkeypatch.setattr(fetching, "run_fetch", note)
    new, calm = repository.commit("new"), repository.git("rev-parse", "calm")
    sync(project)
    assert fetched == ["+refs/heads/main:refs/heads/main"]
    assert heads(project) == {"main": new, "calm": calm}
    sync(project)
    assert len(fetched) == 1, "nothing has moved since"


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("fatal: unable to access 'https://x/': Could not resolve host: x", "Check the address and the network"),
        ("error: RPC failed; curl 18\nfatal: early EOF", "Check the address and the network"),
        ("fatal: write error: No space left on device", "Make room on this machine"),
        ("fatal: cannot open '/m/x': Permission denied", "Let the server write to"),
        ("error: cannot lock ref 'x': Unable to create '/m/x.lock': File exists.", "its lock is removed 900 s"),
        ("", "remove /.*kvd.git: it is then cloned anew"),
    ],
)
def test_each_failure_has_a_remedy_of_its_own(project: Project, said: str, remedy: str) -> None:
    assert not fetching.ref_fault(said)
    with pytest.raises(RepositoryError, match=remedy):
        raise fetching.failure_with_remedy("kvd", Remote(project.url), GitFailed(f"git fetch: {said}", 128, said))
