"""Dispatcher and workers as real processes beside remotes that hang: nobody but the projects concerned waits."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.db import connection
from psycopg.conninfo import make_conninfo

from speedtrack import devstack
from speedtrack.projects.models import Delivery, Project
from speedtrack.runs.models import MachineEvent, Reason, Run, Series
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_S = 300


@dataclass
class Servers:
    """The server's processes but for the web server, on this test's database."""

    home: Path
    environment: dict[str, str]
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self) -> None:
        for name in devstack.PROCESSES.keys() - {"web"}:
            with (self.home / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, *devstack.PROCESSES[name]],
                    cwd=devstack.BASE_DIR,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            logs = "\n".join(f"{log}:\n{log.read_text()[-2000:]}" for log in self.home.glob("*.log"))
            assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}\n{logs}"
            time.sleep(0.1)


def database_url() -> str:
    words = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    given = {word: connection.settings_dict[key] for word, key in words.items()}
    return make_conninfo("", **{word: value for word, value in given.items() if value})


@pytest.fixture
def servers(tmp_path: Path, settings: Any, broker_url: str) -> Iterator[Servers]:
    builders.use_suite(settings, tmp_path / "suites")
    settings.MIRRORS = tmp_path / "mirrors"
    environment = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "BROKER_URL": broker_url,
        "SPEEDTRACK_HOME": str(tmp_path),
        "SUITES": str(tmp_path / "suites"),
        "EMAIL_FILES": str(tmp_path / "mail"),
        "OPERATORS": "ops@example.org",
        "SECRET_KEY": "of-this-test",
        "DJANGO_SETTINGS_MODULE": "speedtrack.settings",
    }
    servers = Servers(tmp_path, environment)
    try:
        yield servers
    finally:
        servers.stop()
        for process in gits_at(tmp_path):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def tracked(home: Path, name: str) -> Repository:
    repository = Repository(home / name)
    repository.commits(1)
    builders.track(repository, last=0)
    return repository


def tell(name: str) -> None:
    Delivery.objects.create(
        project=Project.objects.get(slug=name),
        provider="github",
        delivery_id=name,
        event="push",
        headers={},
        packed_body=b"",
        body_digest=name,
    )


def block_list(repository: Repository) -> None:
    """Who asks for the references waits for ever."""
    os.mkfifo(repository.path / ".git" / "packed-refs")


def block_objects(repository: Repository) -> None:
    """The references are listed; who fetches them waits for ever."""
    repository.commit()
    tree = repository.git("rev-parse", "HEAD^{tree}")
    file = repository.path / ".git" / "objects" / tree[:2] / tree[2:]
    file.unlink()
    os.mkfifo(file)


def gits_at(directory: Path) -> list[psutil.Process]:
    return [
        p
        for p in psutil.process_iter(["name", "cmdline"])
        if p.info["name"] == "git" and str(directory) in " ".join(p.info["cmdline"] or [])
    ]


def test_remotes_that_hang_hold_up_nobody_else(servers: Servers, tmp_path: Path) -> None:
    machine = builders.machine()
    hanging = {name: tracked(tmp_path, name) for name in ("hangs1", "hangs2", "hangs3")}
    lost, good, polled = (tracked(tmp_path, name) for name in ("lost", "good", "polled"))
    for block, repository in zip((block_list, block_objects, block_objects), hanging.values(), strict=True):
        block(repository)
    lost.path.rename(tmp_path / "away")
    for name in hanging:
        tell(name)
    servers.start()
    servers.until(lambda: all(gits_at(r.path) for r in hanging.values()), "all that hang are asked")

    # Pushes, polls, mails and detection of all others.
    new = [good.commit(), polled.commit()]
    tell("good")
    tell("lost")
    Project.objects.filter(slug="polled").update(polled_at=None)
    pushes = Run.objects.filter(reason=Reason.PUSH)
    servers.until(lambda: sorted(pushes.values_list("commit__sha", flat=True)) == sorted(new), "pushes are planned")
    servers.until(lambda: "Check the address" in Project.objects.get(slug="lost").error, "what fails is noted")
    MachineEvent.objects.create(machine=machine, kind=MachineEvent.Kind.LIFTED, why="by hand", untold=True)
    servers.until(lambda: any((tmp_path / "mail").glob("*")), "a mail is sent")
    builders.work(machine, lambda sha, benchmark, trial: 5000.0 + trial)
    assert Series.objects.exists()
    servers.until(lambda: not Series.objects.filter(undetected_since__isnull=False).exists(), "detection has run")
    assert all(gits_at(repository.path) for repository in hanging.values())

    # Who is told to stop waits for no git, blames no project, and leaves nothing behind.
    servers.stop()
    assert [gits_at(repository.path) for repository in hanging.values()] == [[], [], []]
    assert set(Project.objects.filter(slug__in=hanging).values_list("failures", "error")) == {(0, "")}


def test_a_hot_loop_is_none(servers: Servers, tmp_path: Path) -> None:
    """A project that fails at once is asked once in its pause, however many told of it."""
    lost = tracked(tmp_path, "lost")
    shutil.rmtree(lost.path)
    tell("lost")
    servers.start()
    servers.until(lambda: Project.objects.get().failures == 1, "the failure is noted")
    time.sleep(3)
    assert Project.objects.get().failures == 1
    assert (tmp_path / "git.log").read_text().count("Check the address") == 1
