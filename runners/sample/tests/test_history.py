"""The recipe gives the repository that the table describes."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from runners.sample import EFFECTS, HISTORY, HistoryError, commits, export_history, write_history
from runners.sample.tests.conftest import TIMEOUT_SECONDS, build, git

ROOT = Path(__file__).parents[3]


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runners.sample", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# The recipe.


def test_two_destinations_get_the_same_commits_and_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_history(tmp_path / "a")
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Somebody Else")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.autocrlf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = write_history(tmp_path / "b")
    monkeypatch.undo()
    assert first == second
    assert git(tmp_path / "a", "show-ref") == git(tmp_path / "b", "show-ref")
    assert git(tmp_path / "a", "log", "--format=%cn %cd") == git(tmp_path / "b", "log", "--format=%cn %cd")


def test_the_first_commit_is_the_known_one(tmp_path: Path) -> None:
    """Pins the SHA itself: a git that makes another one would break every address of a commit."""
    assert write_history(tmp_path / "kvd", upto=1) == ["51d99f90ff20852f43345540b049282c231d9f92"]


def test_all_after_upto_is_a_fast_forward(tmp_path: Path) -> None:
    part = write_history(tmp_path / "kvd", upto=6)
    assert git(tmp_path / "kvd", "tag").split() == ["v1.0"]
    head = git(tmp_path / "kvd", "rev-parse", "HEAD")
    whole = write_history(tmp_path / "kvd")
    assert whole[:6] == part
    assert head == part[-1]
    assert git(tmp_path / "kvd", "rev-parse", "main") == whole[-1]
    assert git(tmp_path / "kvd", "status", "--porcelain") == ""
    assert git(tmp_path / "kvd", "tag").split() == ["v1.0", "v1.1", "v1.2"]
    assert git(tmp_path / "kvd", "reflog", "--format=%gs").splitlines()[0].endswith("Fast-forward")


def test_a_complete_repository_is_left_alone(tmp_path: Path) -> None:
    destination = tmp_path / "kvd"
    assert "went from 0 to 14 commits" in run_module(str(destination)).stdout
    before = snapshot(destination / ".git" / "refs"), git(destination, "reflog")
    for arguments in ((str(destination),), (str(destination), "--upto", "3")):
        again = run_module(*arguments)
        assert again.returncode == 0
        assert "already has 14 commits: nothing to do" in again.stdout
    assert (snapshot(destination / ".git" / "refs"), git(destination, "reflog")) == before


def fill_with_files(destination: Path) -> str:
    destination.mkdir()
    (destination / "letter.txt").write_text("mine")
    return "not a git repository"


def fill_with_another_repository(destination: Path) -> str:
    destination.mkdir()
    git(destination, "init", "--quiet", "--initial-branch=main")
    author = ("-c", "user.name=Me", "-c", "user.email=me@example.org")
    git(destination, *author, "commit", "--quiet", "--allow-empty", "-m", "mine")
    return "not of this history"


def fill_with_a_dirty_tree(destination: Path) -> str:
    write_history(destination, upto=2)
    (destination / "README.md").write_text("mine")
    return "uncommitted changes"


def fill_with_another_branch(destination: Path) -> str:
    write_history(destination, upto=2)
    git(destination, "checkout", "--quiet", "-b", "mine")
    return "not on the branch main"


@pytest.mark.parametrize(
    "fill", [fill_with_files, fill_with_another_repository, fill_with_a_dirty_tree, fill_with_another_branch]
)
def test_a_destination_with_something_else_is_refused_and_kept(tmp_path: Path, fill: Callable[[Path], str]) -> None:
    destination = tmp_path / "kvd"
    reason = fill(destination)
    before = {name: content for name, content in snapshot(destination).items() if name != ".git/index"}
    refused = run_module(str(destination))
    assert refused.returncode == 1
    assert reason in refused.stderr
    assert "Traceback" not in refused.stderr
    assert {name: content for name, content in snapshot(destination).items() if name != ".git/index"} == before


@pytest.mark.parametrize("upto", [0, -1, 15])
def test_a_commit_that_does_not_exist_is_refused(tmp_path: Path, upto: int) -> None:
    with pytest.raises(HistoryError, match="1 to 14"):
        write_history(tmp_path / "kvd", upto=upto)
    assert not (tmp_path / "kvd").exists()


def test_export_gives_back_the_patches_and_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "history"
    shutil.copytree(HISTORY, copy)
    monkeypatch.setattr("runners.sample.HISTORY", copy)
    monkeypatch.setattr("runners.sample.TABLE", copy / "history.toml")
    write_history(tmp_path / "kvd")
    export_history(tmp_path / "kvd")
    assert snapshot(copy) == snapshot(HISTORY)


# The table.


def test_the_table_matches_the_patches(tmp_path: Path) -> None:
    write_history(tmp_path / "kvd")
    entries = commits()
    assert [entry.patch.name for entry in entries] == sorted(path.name for path in HISTORY.glob("*.patch"))
    assert [entry.number for entry in entries] == list(range(1, 15))
    assert [entry.subject for entry in entries] == git(tmp_path / "kvd", "log", "--reverse", "--format=%s").splitlines()


def test_the_story_has_one_of_each_effect_and_quiet_between() -> None:
    effects = [entry.effect for entry in commits()]
    for effect in EFFECTS[1:]:
        assert effects.count(effect) == 1
    slower, faster = effects.index("slower"), effects.index("faster")
    assert effects[slower + 1 : faster].count("none") >= 3
    assert effects[faster + 1 :].count("none") >= 3
    assert effects[effects.index("does-not-compile") + 1] == "none"


# The builds.


def test_only_the_broken_commit_does_not_compile(binaries: dict[int, bytes | None]) -> None:
    broken = [number for number, binary in binaries.items() if binary is None]
    assert broken == [entry.number for entry in commits() if entry.effect == "does-not-compile"]


def test_the_broken_commit_lacks_a_header(repository: Path) -> None:
    broken = next(entry.number for entry in commits() if entry.effect == "does-not-compile")
    sha = git(repository, "rev-list", "--reverse", "main").split()[broken - 1]
    assert "stats.h: No such file" in build(repository, sha).stderr


def test_only_the_readme_commit_gives_its_parents_binary(repository: Path, binaries: dict[int, bytes | None]) -> None:
    compiled = [number for number, binary in binaries.items() if binary is not None]
    same = [number for before, number in pairwise(compiled) if binaries[number] == binaries[before]]
    assert same == [entry.number for entry in commits() if entry.effect == "same-binary"]
    sha = git(repository, "rev-list", "--reverse", "main").split()[same[0] - 1]
    assert git(repository, "show", "--name-only", "--format=", sha) == "README.md"
