"""A mirror stays small: what nothing needs is forgotten, and git packs the rest."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from speedtrack.projects.mirrors import fetching, git, housekeeping, patches
from speedtrack.projects.mirrors.directories import TEMPORARY, make_mirror, mirror_of
from speedtrack.projects.mirrors.gitprocess import run_git
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.projects.models import Commit, Project
from speedtrack.projects.sync import store_commits, sync
from speedtrack.runs.models import PairedComparison
from speedtrack.runs.requests import comparing
from speedtrack.tests.builders import Repository


@pytest.fixture
def mirror(project: Project, repository: Repository) -> Path:
    """The mirror of the project, with main."""
    repository.commits(3)
    sync(project)
    return mirror_of("kvd")


def requested(project: Project, repository: Repository, branch: str) -> str:
    """The id of a commit of an untracked branch that was requested."""
    repository.git("checkout", "--quiet", "-b", branch, "main")
    (sha,) = repository.commits(1)
    repository.git("checkout", "--quiet", "main")
    assert fetching.find_commit("kvd", Remote(str(repository.path)), branch) == sha
    return sha


def make_old(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def let_a_day_pass(mirror: Path) -> None:
    for file in (mirror / housekeeping.MARK, *(mirror / fetching.REQUESTED).glob("*")):
        if file.exists():
            make_old(file, housekeeping.DAY_S + 60)


def test_a_patch_that_is_submitted_meanwhile_is_kept(project: Project, repository: Repository, mirror: Path) -> None:
    head = repository.git("rev-parse", "main").strip()

    def needed(shas: set[str]) -> set[str]:
        run_git("update-ref", f"{patches.REFS}{head}", head, directory=mirror)
        return set()

    housekeeping.tidy("kvd", needed)
    assert patches.kept("kvd") == {head}
    housekeeping.tidy("kvd", lambda shas: set())
    assert patches.kept("kvd") == set()


def test_a_requested_commit_is_forgotten_once_nothing_needs_it(
    project: Project, repository: Repository, mirror: Path
) -> None:
    compared, unused = requested(project, repository, "compared"), requested(project, repository, "unused")
    head = store_commits(project, [compared])[compared]
    comparison = PairedComparison.objects.create(project=project, head_name="compared", base_name="main", head=head)
    comparing.tidy_mirror(project)
    assert set(fetching.requested_refs("kvd").values()) == {compared, unused}, "they are of this day"
    let_a_day_pass(mirror)
    comparing.tidy_mirror(project)
    assert set(fetching.requested_refs("kvd").values()) == {compared}
    PairedComparison.objects.filter(pk=comparison.pk).update(
        created=timezone.now() - comparing.KEPT_FOR - timedelta(days=1)
    )
    comparing.tidy_mirror(project)
    assert set(fetching.requested_refs("kvd").values()) == {compared}, "once a day"
    let_a_day_pass(mirror)
    comparing.tidy_mirror(project)
    assert fetching.requested_refs("kvd") == {}
    assert git.commits_among("kvd", [compared, unused]) == {compared, unused}, "git deletes them in two weeks"
    assert git.local_refs("kvd").keys() == {"refs/heads/main"}
    assert Commit.objects.filter(pk=head.pk).exists()


def test_a_temporary_mirror_of_a_killed_process_is_removed(project: Project, mirror: Path) -> None:
    young, old = (make_mirror(f"{TEMPORARY}{name}") for name in ("young", "old"))
    make_old(old, housekeeping.DAY_S + 60)
    comparing.tidy_mirror(project)
    assert sorted(mirror.parent.iterdir()) == sorted([young, mirror])


def test_git_packs_what_many_fetches_have_left(
    project: Project, repository: Repository, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(housekeeping.PACKING, "gc.autoPackLimit", "2")
    for _ in range(3):
        repository.commits(1)
        sync(project)
        run_git("repack", "--quiet", directory=mirror)
    old = git.first_parents("kvd", "main")
    assert len(list(mirror.glob("objects/pack/*.pack"))) >= 3
    comparing.tidy_mirror(project)
    assert len(list(mirror.glob("objects/pack/*.pack"))) == 1
    assert git.first_parents("kvd", "main") == old
    assert not list(mirror.glob("*.lock")) and not (mirror / "gc.pid").exists()


def test_a_mirror_that_cannot_be_packed_is_still_read(
    project: Project, repository: Repository, mirror: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setitem(housekeeping.PACKING, "gc.autoPackLimit", "1")
    for _ in range(2):
        repository.commits(1)
        sync(project)
        run_git("repack", "--quiet", directory=mirror)
    monkeypatch.setitem(housekeeping.PACKING, "gc.pruneExpire", "no time")
    comparing.tidy_mirror(project)
    assert "kvd.git was not packed" in caplog.text
    assert len(git.first_parents("kvd", "main")) == len(repository.git("rev-list", "main").split())
