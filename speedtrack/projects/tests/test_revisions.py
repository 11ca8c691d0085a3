"""Commits are read from git's log correctly, whatever their authors wrote."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.directories import make_mirror, mirror_of
from speedtrack.projects.mirrors.git import Revision
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.tests.builders import Repository


@pytest.fixture(autouse=True)
def mirrors(tmp_path: Path, settings: Any, repository: Repository) -> None:
    settings.MIRRORS = tmp_path / "mirrors"
    repository.commit("root")


def commit_of(message: bytes, author: bytes = b"Ada <ada@example.org>", header: bytes = b"") -> bytes:
    return (
        b"tree TREE\nauthor "
        + author
        + b" 1700000000 +0100\ncommitter Bob <bob@example.org> 1700000060 +0000\n"
        + header
        + b"\n"
        + message
    )


def read_back(repository: Repository, content: bytes) -> Revision:
    sha = repository.commit_object(content)
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    [revision] = git.revisions("kvd", [sha])
    assert revision.sha == sha
    return revision


def test_a_plain_commit_is_read_whole(repository: Repository) -> None:
    revision = read_back(repository, commit_of(b"Make it fast\n\nA body.\n"))
    assert revision.subject == "Make it fast"
    assert (revision.author_name, revision.author_email) == ("Ada", "ada@example.org")
    assert revision.authored_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert revision.committed_at == datetime.fromtimestamp(1_700_000_060, UTC)
    assert revision.parents == []


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        (b"", ""),
        (b"\n\n", ""),
        ("🚀 schneller — für alle\n".encode(), "🚀 schneller — für alle"),
        (b"one\x1ftwo\x1fthree\n", "one\x1ftwo\x1fthree"),
        (b"a subject\nover two lines\n\nbody", "a subject over two lines"),
        (b"latin \xe9 one\n", "latin � one"),
        (b"tab\tand \x1b[31mred\x1b[0m\n", "tab\tand \x1b[31mred\x1b[0m"),
        (b"x" * 2000, "x" * 500),
        (b"--output=/tmp/x", "--output=/tmp/x"),
    ],
)
def test_an_odd_subject_is_read(repository: Repository, message: bytes, subject: str) -> None:
    assert read_back(repository, commit_of(message)).subject == subject


@pytest.mark.parametrize(
    ("author", "name", "email"),
    [
        ("Zoë 🐙 <z@example.org>".encode(), "Zoë 🐙", "z@example.org"),
        (b"J\xf6rg <j@example.org>", "J�rg", "j@example.org"),
        (b" <nobody@example.org>", "", "nobody@example.org"),
        (b"No Mail <>", "No Mail", ""),
        (b"A" * 3000 + b" <a@" + b"b" * 3000 + b">", "A" * 200, "a@" + "b" * 252),
    ],
)
def test_an_odd_author_is_read(repository: Repository, author: bytes, name: str, email: str) -> None:
    revision = read_back(repository, commit_of(b"subject", author))
    assert (revision.author_name, revision.author_email) == (name, email)


def test_a_subject_in_another_encoding_is_read_as_it_was_meant(repository: Repository) -> None:
    content = commit_of(b"gr\xfc\xdfe\n", header=b"encoding ISO-8859-1\n")
    assert read_back(repository, content).subject == "grüße"


def test_commits_come_in_the_order_asked_for_even_over_several_blocks(repository: Repository) -> None:
    repository.fast_import(2100, "long")
    fetching.fetch("kvd", Remote(str(repository.path)), ["long"])
    shas = git.first_parents("kvd", git.resolve_revision("kvd", "long"))
    asked = shas[::-1]
    found = list(git.revisions("kvd", asked))
    assert [r.sha for r in found] == asked
    assert [r.subject for r in found] == [f"Change {i}" for i in reversed(range(2100))]


def test_no_commits_asked_for_are_none(repository: Repository) -> None:
    assert list(git.revisions("kvd", [])) == []


@pytest.mark.parametrize("name", ["Unit\x1fSeparator", "Record\x1eSeparator", "\x1b[31mRed\x1b[0m"])
def test_an_author_with_control_characters_is_read(repository: Repository, name: str) -> None:
    revision = read_back(repository, commit_of(b"subject\n", f"{name} <a@b\x1fc>".encode()))
    assert (revision.author_name, revision.author_email, revision.subject) == (name, "a@b\x1fc", "subject")


@pytest.mark.parametrize(
    ("when", "year"),
    [
        (b"1700000000 +9999", 2023),
        (b"1700000000 -9959", 2023),
        (b"1700000000 +051800", 2023),
        (b"0 +0000", 1970),
        (b"999999999999 +0000", 9999),
    ],
)
def test_an_odd_date_is_read_as_its_moment(repository: Repository, when: bytes, year: int) -> None:
    content = b"tree TREE\nauthor A <a@b> " + when + b"\ncommitter A <a@b> " + when + b"\n\nsubject\n"
    revision = read_back(repository, content)
    assert (revision.authored_at.year, revision.committed_at.year) == (year, year)
    assert revision.subject == "subject"


def test_a_date_that_git_itself_cannot_read_becomes_the_first_moment(repository: Repository) -> None:
    sha = repository.commit_object(b"tree TREE\nauthor A <a@b> long ago\ncommitter A <a@b> 1 +0000\n\nsubject\n")
    mirror = make_mirror("kvd")
    (mirror / "objects" / "info" / "alternates").write_text(f"{repository.path / '.git' / 'objects'}\n")
    [revision] = git.revisions("kvd", [sha])
    assert revision.authored_at == datetime.fromtimestamp(0, UTC)


def test_changed_paths_are_read_whatever_their_names(repository: Repository) -> None:
    """A renamed file changes both paths; names may have any byte but NUL."""
    odd = ["\nfirst", "\x01like an id", "a\nb", "\x01" + "a" * 40, "tail\n", "-n", "ü"]
    for name in odd:
        (repository.path / name).write_text("x")
    repository.git("add", "-A")
    repository.git("commit", "--quiet", "-m", "Odd names")
    repository.git("commit", "--quiet", "--allow-empty", "-m", "Nothing")
    repository.git("mv", "ü", "moved")
    repository.git("commit", "--quiet", "-m", "Move")
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    shas = repository.git("rev-list", "HEAD", "-3").split()
    found = git.changed_paths("kvd", shas)
    assert [sorted(found[sha]) for sha in shas] == [["moved", "ü"], [], sorted(odd)]
    assert list(found) == shas


def test_digits_with_two_meanings_name_no_commit(repository: Repository) -> None:
    """Whoever may push a tag could otherwise have another commit measured than the one that was named."""
    shas = [repository.git("rev-parse", "HEAD"), *repository.commits(300)]
    remote = Remote(str(repository.path))
    repository.git("tag", shas[0][:8])
    repository.git("branch", shas[1])
    fetching.fetch("kvd", remote, ["main", shas[1]])
    for name in (shas[0][:8], f"{shas[0][:8]}~0"):
        with pytest.raises(RepositoryError, match=f"several things in kvd.*{shas[0]}, refs/tags/{shas[0][:8]}"):
            git.resolve_revision("kvd", name)
    assert git.resolve_revision("kvd", shas[1]) == shas[1] and git.resolve_revision("kvd", shas[2][:12]) == shas[2]
    assert git.resolve_revision("kvd", f"refs/tags/{shas[0][:8]}") == shas[-1]


def test_a_branch_that_is_called_as_a_commit_is_not_fetched_in_its_place(repository: Repository) -> None:
    remote, absent = Remote(str(repository.path)), "a" * 40
    repository.git("branch", absent)
    repository.git("tag", absent)
    fetching.fetch("kvd", remote, ["main"])
    with pytest.raises(RepositoryError, match=absent):
        fetching.find_commit("kvd", remote, absent)


def test_calls_at_once_make_one_whole_mirror() -> None:
    at_once, mirror = threading.Barrier(8), mirror_of("kvd")

    def make(_: int) -> dict[str, str]:
        at_once.wait(60)
        make_mirror("kvd")
        return git.local_refs("kvd")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(make, range(8))) == [{}] * 8
    assert list(mirror.parent.iterdir()) == [mirror]
    (mirror / "HEAD").unlink()
    make_mirror("kvd")
    assert (mirror / "info" / "attributes").exists() and git.local_refs("kvd") == {}
