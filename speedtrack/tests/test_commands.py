"""The command line as a new user sees it: real processes, their output and exit codes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_django.plugin import DjangoDbBlocker

from speedtrack.processes.devstack import BASE_DIR
from speedtrack.tests import builders, clusters


def manage(home: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "SPEEDTRACK_HOME": str(home / "state"), **environment}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments], cwd=BASE_DIR, env=own, capture_output=True, text=True, timeout=600
    )


@dataclass
class Home:
    """State of an installation whose database, in the server of the test session, has its tables."""

    path: Path
    database: str

    def manage(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        local = {"DATABASE_URL": self.database, "ALLOW_LOCAL_REPOSITORIES": "true"}
        return manage(self.path, *arguments, **local | environment)


@pytest.fixture(scope="module")
def home(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[Home]:
    with django_db_blocker.unblock(), clusters.copied_database("commands") as address:
        yield Home(tmp_path_factory.mktemp("home"), address)


@pytest.fixture
def repository(tmp_path: Path) -> builders.Repository:
    repository = builders.Repository(tmp_path / "server")
    repository.commits(2)
    return repository


def fails_with(done: "subprocess.CompletedProcess[str]", *words: str) -> None:
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_tracking_says_what_to_give_the_forge(home: Home, repository: builders.Repository) -> None:
    assert home.manage("machine", "add", "m1").stdout.splitlines()[1].startswith("strn_")
    done = home.manage("track", str(repository.path), "--suite", "redis", "--last", "1", "--name", "first")
    assert done.returncode == 0, done.stderr
    for word in ("2 commits; 1 runs queued", "machines   m1", "webhook    http://", "secret "):
        assert word in done.stdout


def test_unknown_suite(home: Home, repository: builders.Repository) -> None:
    fails_with(home.manage("track", str(repository.path), "--suite", "rediss"), "no suite 'rediss'", "redis")


def test_repository_that_does_not_exist(home: Home) -> None:
    fails_with(home.manage("track", "/nowhere/at/all", "--suite", "redis"), "there is no directory /nowhere/at/all")


def test_repository_that_is_empty(home: Home, tmp_path: Path) -> None:
    empty = builders.Repository(tmp_path / "empty")
    fails_with(home.manage("track", str(empty.path), "--suite", "redis"), "is empty", "push a commit")


def test_branch_that_does_not_exist(home: Home, repository: builders.Repository) -> None:
    done = home.manage("track", str(repository.path), "--suite", "redis", "--branch", "unstabel")
    fails_with(done, "no branch 'unstabel'", "it has main")


def test_local_paths_need_leave_where_the_database_is_not_embedded(home: Home, repository: builders.Repository) -> None:
    done = manage(home.path, "track", str(repository.path), "--suite", "redis", DATABASE_URL=home.database)
    fails_with(done, "ALLOW_LOCAL_REPOSITORIES=true")


def test_measuring_what_is_not_there(home: Home) -> None:
    fails_with(home.manage("measure", "nothing", "HEAD"), "no project 'nothing'")
    fails_with(home.manage("measure", "first", "v9.9"), "no commit, branch or tag 'v9.9'")
    fails_with(home.manage("measure", "first", "main", "--benchmarks", "got-p1"), "no benchmark got-p1", "get-p1")


def test_measuring_again_by_hand(home: Home, repository: builders.Repository) -> None:
    home.manage("track", str(repository.path), "--suite", "redis", "--last", "0", "--name", "again")
    done = home.manage("measure", "again", "main", "--benchmarks", "get-p1")
    assert done.stdout.strip() == "1 run of 1 commit queued"


def test_machine_registered_twice(home: Home) -> None:
    home.manage("machine", "add", "twice")
    fails_with(home.manage("machine", "add", "twice"), "machine twice exists", "new token")


def test_a_setting_of_the_wrong_kind(home: Home) -> None:
    fails_with(home.manage("machine", "list", LEASE_S="a minute"), "LEASE_S='a minute': give a whole number")


def test_database_that_is_not_there(home: Home) -> None:
    fails_with(
        home.manage("machine", "list", DATABASE_URL="postgresql://me@127.0.0.1:1/speedtrack"),
        "the database does not answer",
        "check DATABASE_URL, and that PostgreSQL runs there",
    )


def test_database_without_tables(tmp_path: Path) -> None:
    """It is that of a new home, which the command makes."""
    tmp_path.chmod(0o755)  # where tests run as root, the embedded PostgreSQL runs as another user
    fails_with(manage(tmp_path, "machine", "list"), "run `manage.py migrate` first")


def test_the_doctor_finds_what_is_wrong(home: Home) -> None:
    done = home.manage("doctor", BROKER_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 1
    assert "BAD   broker" in done.stdout
    assert "ok    database   PostgreSQL" in done.stdout


def test_a_runner_with_a_wrong_token_is_told_what_to_do(live_server, transactional_db, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = subprocess.run(
        [sys.executable, "-m", "runners", "--once"],
        cwd=BASE_DIR,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "SPEEDTRACK_URL": live_server.url,
            "SPEEDTRACK_TOKEN": "strn_0123456789ab_wrong",
            "SPEEDTRACK_RUNNER_HOME": str(tmp_path / "runner"),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    fails_with(done, "manage.py machine enroll-code NAME")
