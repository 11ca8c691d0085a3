"""Attacks on git by names that strangers may choose, each tried for real."""

import os
from pathlib import Path
from typing import Any

import pytest

from speedtrack.projects.errors import RepositoryError, RepositoryUnreachable
from speedtrack.projects.mirrors import fetching, git, gitprocess, remotes
from speedtrack.projects.mirrors.directories import mirror_of, remove_mirror
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.projects.mirrors.transports import Transport
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository


@pytest.fixture
def mirror(repository: Repository, tmp_path: Path, settings: Any) -> Path:
    """The mirror of a repository of two commits, as project ``kvd``."""
    settings.MIRRORS = tmp_path / "mirrors"
    repository.commits(2)
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    return mirror_of("kvd")


def files_under(directory: Path) -> set[str]:
    return {str(p.relative_to(directory)) for p in directory.rglob("*")}


@pytest.mark.parametrize("option", ["--output={}", "-o{}", "--upload-pack=touch {}", "--git-dir={}", "--exec=touch {}"])
def test_a_revision_that_is_an_option_is_refused_and_writes_nothing(mirror: Path, tmp_path: Path, option: str) -> None:
    hostile = option.format(tmp_path / "pwned")
    before = files_under(tmp_path)
    for ask in (git.resolve_revision, git.commits_in_range, git.first_parents):
        with pytest.raises(RepositoryError):
            ask("kvd", hostile)
    with pytest.raises(RepositoryError):
        git.commits_in_range("kvd", f"main..{hostile}")
    with pytest.raises(RepositoryError):
        git.commits_in_range("kvd", f"{hostile}..main")
    with pytest.raises(RepositoryError):
        list(git.revisions("kvd", [hostile]))
    with pytest.raises(RepositoryError):
        list(git.archive("kvd", hostile))
    assert files_under(tmp_path) == before


def test_the_attack_by_output_works_on_a_git_without_the_guard(repository: Repository, tmp_path: Path) -> None:
    """This shows that the tests above would notice it."""
    repository.commit()
    repository.git("log", f"--output={tmp_path / 'pwned'}")
    assert (tmp_path / "pwned").exists()


@pytest.mark.parametrize("url", ["--upload-pack=touch {}", "ext::sh -c 'touch {}'", "-u{}", "file:///{}"])
def test_an_address_that_is_an_option_or_a_helper_runs_nothing(
    repository: Repository, tmp_path: Path, settings: Any, url: str
) -> None:
    settings.MIRRORS = tmp_path / "mirrors"
    settings.ALLOW_LOCAL_REPOSITORIES = False
    hostile = url.format(tmp_path / "pwned")
    for ask in (lambda: fetching.fetch("kvd", Remote(hostile), ["main"]), lambda: git.remote_refs(Remote(hostile))):
        with pytest.raises(RepositoryError):
            ask()
    with pytest.raises(RepositoryError):
        git.remote_default_branch(Remote(hostile))
    assert not (tmp_path / "pwned").exists()


def test_an_external_helper_is_refused_even_where_local_paths_are_allowed(tmp_path: Path, settings: Any) -> None:
    settings.MIRRORS = tmp_path / "mirrors"
    hostile = f"ext::sh -c touch% {tmp_path / 'pwned'}"
    with pytest.raises(RepositoryError, match="not a repository address"):
        fetching.fetch("kvd", Remote(hostile), ["main"])
    with pytest.raises(RepositoryError, match=r"'ext' not allowed"):
        gitprocess.run_git("ls-remote", "--", hostile, transport=Transport("file"))
    assert not (tmp_path / "pwned").exists()


def test_a_branch_whose_name_begins_with_a_dash_is_a_branch_like_others(
    repository: Repository, tmp_path: Path, settings: Any
) -> None:
    settings.MIRRORS = tmp_path / "mirrors"
    [sha] = repository.commits(1)
    name = f"--output={tmp_path.name}"
    repository.git("update-ref", f"refs/heads/{name}", sha)
    repository.git("update-ref", "refs/heads/-x", sha)
    repository.git("update-ref", "refs/tags/-x", sha)
    fetching.fetch("kvd", Remote(str(repository.path)), ["-x", name])
    assert git.resolve_revision("kvd", f"refs/heads/{name}") == sha
    assert git.first_parents("kvd", git.resolve_revision("kvd", "refs/heads/-x")) == [sha]
    assert git.tags_by_name("kvd") == {"-x": sha}


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a/b",
        "ssh://example.org/a/b",
        "git@example.org:a/b.git",
        "file:///etc",
        "git://example.org/a/b",
        "ftp://example.org/a",
        "ext::sh -c id",
        "--upload-pack=id",
        "-x",
        "",
        "https://",
        "https:///a",
        "example.org/a/b",
        "HTTP://example.org/a",
    ],
)
def test_only_https_addresses_may_be_tracked(url: str) -> None:
    with pytest.raises(RepositoryError):
        remotes.valid_url(url)


@pytest.mark.parametrize("url", ["https://user@example.org/a", "https://user:pass@example.org/a", "https://:p@h/a"])
def test_an_address_with_a_user_is_refused_without_repeating_the_password(url: str) -> None:
    with pytest.raises(RepositoryError, match="leave it out") as caught:
        remotes.valid_url(url)
    assert "pass" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\0", "\x1b", "\x7f", " "])
def test_control_characters_in_an_address_are_refused(character: str) -> None:
    for url in (f"https://example.org/a{character}b", f"{character}https://example.org/a", f"/srv/a{character}b"):
        with pytest.raises(RepositoryError, match="control characters"):
            remotes.valid_url(url)


@pytest.mark.parametrize("url", ["https://example.org/a/b", "https://example.org:8443/a/b.git", "https://h/a@b"])
def test_an_https_address_stays_as_it_is(url: str, settings: Any) -> None:
    settings.GIT_HOSTS = ["*", "*:8443"]
    assert remotes.valid_url(url) == url


def test_a_local_path_needs_the_setting(tmp_path: Path, settings: Any) -> None:
    assert remotes.valid_url(str(tmp_path)) == str(tmp_path)
    settings.ALLOW_LOCAL_REPOSITORIES = False
    with pytest.raises(RepositoryError, match="ALLOW_LOCAL_REPOSITORIES"):
        remotes.valid_url(str(tmp_path))


def test_a_local_repository_is_not_fetched_once_the_setting_is_gone(
    mirror: Path, repository: Repository, settings: Any
) -> None:
    settings.ALLOW_LOCAL_REPOSITORIES = False
    with pytest.raises(RepositoryError, match="not allowed"):
        fetching.fetch("kvd", Remote(str(repository.path)), ["main"])


def test_a_local_path_that_is_no_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match=r"there is no directory .*/nowhere"):
        remotes.valid_url(str(tmp_path / "nowhere"))


def test_hooks_and_configuration_of_the_mirror_and_of_the_user_run_nothing(
    mirror: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwned = tmp_path / "pwned"
    for name in ("reference-transaction", "post-update", "pre-auto-gc"):
        hook = mirror / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {pwned}\n")
        hook.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f"[core]\n\tfsmonitor = touch {pwned}\n\thooksPath = {mirror / 'hooks'}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {pwned}")
    monkeypatch.setenv("GIT_DIR", str(repository.path / ".git"))
    repository.commit_object(b"tree TREE\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nmore\n")
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    assert next(git.revisions("kvd", [git.resolve_revision("kvd", "main")])).subject == "more"
    assert not pwned.exists()


def test_git_is_given_no_secret_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "hidden")
    assert "hidden" not in " ".join(gitprocess.git_environment(gitprocess.NOWHERE).values())


@pytest.mark.parametrize("name", ["main~1..", "nonsense", "", "main:file.txt", "0" * 40, "main\nmain"])
def test_a_name_that_is_no_commit_is_refused_with_a_remedy(mirror: Path, name: str) -> None:
    with pytest.raises(RepositoryError, match="check the spelling"):
        git.resolve_revision("kvd", name)


@pytest.mark.parametrize("url", ["https://[bad", "https://[::1/a", "https://h]/a"])
def test_an_address_that_cannot_be_parsed_is_refused(url: str) -> None:
    with pytest.raises(RepositoryError, match="not a repository address"):
        remotes.valid_url(url)


def test_a_name_with_a_zero_byte_is_refused(mirror: Path) -> None:
    with pytest.raises(RepositoryError):
        git.resolve_revision("kvd", "main\0x")


def test_a_git_that_takes_too_long_is_ended_with_all_it_started(
    repository: Repository, tmp_path: Path, settings: Any
) -> None:
    settings.MIRRORS = tmp_path / "mirrors"
    settings.GIT_TIMEOUT_S = 3  # the git that is not held up ends within this on a busy machine too
    repository.commit()
    tree = repository.git("rev-parse", "HEAD^{tree}")
    file = repository.path / ".git" / "objects" / tree[:2] / tree[2:]
    file.unlink()
    os.mkfifo(file)  # whoever reads it waits for ever
    with pytest.raises(RepositoryUnreachable, match="fetch took longer than 3 s: raise GIT_TIMEOUT_S"):
        fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    assert builders.processes_with(str(repository.path)) == []


def test_a_remote_that_does_not_list_its_references_is_away(
    repository: Repository, tmp_path: Path, settings: Any
) -> None:
    settings.MIRRORS = tmp_path / "mirrors"
    settings.GIT_TIMEOUT_S = 3  # the git that is not held up ends within this on a busy machine too
    repository.commit()
    os.mkfifo(repository.path / ".git" / "packed-refs")
    with pytest.raises(RepositoryUnreachable, match=r"ls-remote took longer than 3 s\. Check the address"):
        fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    assert builders.processes_with(str(repository.path)) == []


def test_a_lock_that_a_killed_git_left_behind_is_broken_when_it_is_old(
    mirror: Path, repository: Repository, settings: Any
) -> None:
    lock = mirror / "refs" / "heads" / "main.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    sha = repository.commit()
    with pytest.raises(RepositoryError, match=r"main\.lock"):
        fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    os.utime(lock, (lock.stat().st_mtime - 2 * settings.GIT_TIMEOUT_S,) * 2)
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    assert git.resolve_revision("kvd", "main") == sha


def test_a_mirror_is_removed_however_many_parts_a_branch_has(mirror: Path) -> None:
    branch = mirror / "refs" / "heads"
    for _ in range(1_800):
        branch /= "a"
        branch.mkdir()
    remove_mirror("kvd")
    assert not mirror.exists()
