"""Dispatcher and workers as real processes beside remotes that hang: nobody but the projects concerned waits."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runners.tests.broker_servers import RabbitMQ
from speedtrack.monitoring import heartbeats
from speedtrack.monitoring.models import TaskTime
from speedtrack.processes import devstack
from speedtrack.projects.models import Delivery, Project
from speedtrack.runs.models import MachineEvent, Reason, Run, Series
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository
from speedtrack.tests.installation import Installation, server_environment

pytestmark = pytest.mark.django_db(transaction=True)
DUTIES = sorted(devstack.PROCESSES.keys() - {"web", "live"})


@pytest.fixture
def servers(tmp_path: Path, settings: Any, broker_url: str) -> Iterator[Installation]:
    """The server's processes but for the web server, on this test's database."""
    builders.use_suite(settings, tmp_path / "suites")
    settings.MIRRORS = tmp_path / "mirrors"
    servers = Installation(tmp_path, dict(server_environment(tmp_path, broker_url)))
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


def tell(name: str, delivery: str = "") -> None:
    Delivery.objects.create(
        project=Project.objects.get(slug=name),
        provider="github",
        delivery_id=delivery or name,
        event="push",
        headers={},
        packed_body=b"",
        body_digest=delivery or name,
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


def test_remotes_that_hang_hold_up_nobody_else(servers: Installation, tmp_path: Path) -> None:
    machine = builders.machine()
    hanging = {name: tracked(tmp_path, name) for name in ("hangs1", "hangs2", "hangs3")}
    lost, good, polled = (tracked(tmp_path, name) for name in ("lost", "good", "polled"))
    for block, repository in zip((block_list, block_objects, block_objects), hanging.values(), strict=True):
        block(repository)
    lost.path.rename(tmp_path / "away")
    for name in hanging:
        tell(name)
    servers.start(*DUTIES)
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


def test_a_hot_loop_is_none(servers: Installation, tmp_path: Path) -> None:
    """A project that fails at once is asked once in its pause, however many told of it."""
    lost = tracked(tmp_path, "lost")
    shutil.rmtree(lost.path)
    tell("lost")
    servers.start(*DUTIES)
    servers.until(lambda: Project.objects.get().failures == 1, "the failure is noted")
    time.sleep(3)
    assert Project.objects.get().failures == 1
    assert (tmp_path / "git.log").read_text().count("Check the address") == 1


def test_every_process_tells_how_it_fares(servers: Installation, tmp_path: Path) -> None:
    tracked(tmp_path, "good")
    tell("good")
    Project.objects.create(slug="gone", name="gone", url=str(tmp_path / "gone"), default_branch="main", suite="tiny")
    servers.environment["SPEEDTRACK_LOG_FORMAT"] = "json"
    servers.start(*DUTIES)
    servers.until(lambda: TaskTime.objects.filter(task="sync", outcome="succeeded").exists(), "sync is timed")
    servers.until(lambda: TaskTime.objects.filter(task="poll", outcome="succeeded").exists(), "poll is timed")
    age_s = heartbeats.age_s(heartbeats.DISPATCHER)
    assert age_s is not None and age_s < heartbeats.LATE_S
    lines = [line for line in (tmp_path / "git.log").read_text().splitlines() if line.startswith("{")]
    about, *_ = [found for found in map(json.loads, lines) if found.get("project") == "gone"]
    assert (about["task"], about["level"], about["logger"]) == ("poll", "warning", "speedtrack.runs.planning.pushes")


@pytest.mark.rabbitmq
@pytest.mark.timeout(900)
def test_rabbitmq_carries_the_nudges_and_may_lose_them_all(
    servers: Installation, tmp_path: Path, rabbitmq: RabbitMQ
) -> None:
    servers.environment["BROKER_URL"] = rabbitmq.url
    machine = builders.machine()
    repository = tracked(tmp_path, "pushed")
    servers.start(*DUTIES)
    pushes = Run.objects.filter(reason=Reason.PUSH)

    def push(number: int) -> None:
        repository.commit()
        tell("pushed", f"push-{number}")
        servers.until(lambda: pushes.count() == number, f"push {number} is planned")
        servers.until(lambda: rabbitmq.queue(machine.queue)[0] == 1, "one nudge waits for the machine")
        builders.work(machine, lambda sha, benchmark, trial: 5000.0 + trial)
        servers.until(lambda: not Series.objects.undetected().exists(), "detection has run")

    push(1)
    rabbitmq.stop()
    rabbitmq.start()  # its queues and the nudge of the machine have outlived it
    push(2)
    rabbitmq.stop()
    rabbitmq.forget()
    rabbitmq.start()
    push(3)
    MachineEvent.objects.create(machine=machine, kind=MachineEvent.Kind.LIFTED, why="by hand", untold=True)
    servers.until(lambda: any((tmp_path / "mail").glob("*")), "a mail is sent")
    assert all(process.poll() is None for process in servers.processes.values())
    assert "Traceback" not in servers.log("dispatcher").read_text()
