import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from speedtrack.projects import sync
from speedtrack.projects.mirrors.directories import make_mirror, mirror_of, remove_mirror
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Run
from speedtrack.runs.requests.tracking import Tracked

from .conftest import Runner, error


def content(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def test_the_source_is_the_tar_of_exactly_the_commit(runner: Runner, run: Run) -> None:
    answer = runner.get(f"runs/{run.pk}/source/{run.commit.sha}?token={run.lease_token}")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(content(answer))) as tar:
        assert tar.getnames() == ["file.txt"]
        assert tar.extractfile("file.txt").read() == b"2\n"  # type: ignore[union-attr]
        assert tar.pax_headers["comment"] == run.commit.sha


def test_the_source_is_streamed_and_no_file_is_made(runner: Runner, run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    mirror = mirror_of(run.project.slug)
    before = sorted(mirror.rglob("*"))
    answer = runner.get(f"runs/{run.pk}/source/{run.commit.sha}?token={run.lease_token}")
    assert answer.streaming
    assert content(answer)
    assert sorted(mirror.rglob("*")) == before
    assert not list(scratch.iterdir())


def test_a_commit_that_is_no_side_of_the_run_is_refused(runner: Runner, run: Run, tracked: Tracked) -> None:
    other = Run.objects.exclude(pk=run.pk).get().commit.sha
    for sha in (other, "main", "HEAD", "0" * 40, run.commit.sha[:10], "--output=x"):
        answer = runner.get(f"runs/{run.pk}/source/{sha}?token={run.lease_token}")
        assert answer.status_code == 422
        assert f"run {run.pk} does not build {sha}" in error(answer)


@pytest.mark.parametrize("ending", ["sleep 60", "exit 128", "kill -9 $$"])
def test_a_git_that_does_not_answer_is_asked_again(
    runner: Runner, run: Run, tmp_path: Path, monkeypatch: Any, settings: Any, ending: str
) -> None:
    settings.GIT_TIMEOUT_S = 1
    (tmp_path / "git").write_text(f"#!/bin/sh\n{ending}\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    answer = runner.get(f"runs/{run.pk}/source/{run.commit.sha}?token={run.lease_token}")
    assert answer.status_code == 503
    assert "git rev-parse" in error(answer)


def test_a_mirror_that_is_made_anew_is_waited_for(runner: Runner, run: Run) -> None:
    """As after a restore: the commits are known from the database, and their files come with the next look."""
    address = f"runs/{run.pk}/source/{run.commit.sha}?token={run.lease_token}"
    for prepare in (remove_mirror, make_mirror):
        prepare(run.project.slug)
        assert runner.get(address).status_code == 503
    sync.sync(run.project)
    assert content(runner.get(address))


def test_an_old_lease_gets_no_source(runner: Runner, run: Run) -> None:
    answer = runner.get(f"runs/{run.pk}/source/{run.commit.sha}?token={run.lease_token + 1}")
    assert answer.status_code == 409


def test_another_machine_gets_no_source(runner: Runner, run: Run) -> None:
    runner.token = registering.add_machine("m2")
    assert runner.get(f"runs/{run.pk}/source/{run.commit.sha}?token={run.lease_token}").status_code in (404, 409)
