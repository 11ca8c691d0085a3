"""Several workers for each duty, on several hosts, and two dispatchers: each duty is done, once, by whoever is free."""

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runners.tests.broker_servers import Valkey
from speedtrack.notices.models import Outbox
from speedtrack.processes import devstack
from speedtrack.projects.models import Delivery, Project
from speedtrack.runs.models import Machine, MachineEvent, Reason, Run, Series
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository
from speedtrack.tests.installation import Installation, server_environment
from speedtrack.tests.real_system import fsck_faults

pytestmark = pytest.mark.django_db(transaction=True)
HOSTS = ("north", "south", "west")
PROJECTS = 6


def on_host(arguments: list[str], host: str) -> list[str]:
    """The arguments of a process as it would run on another host: Celery knows workers by their names."""
    return [argument.replace("@%h", f"@{host}") if "@" in argument else argument for argument in arguments]


@pytest.fixture
def hosts(tmp_path: Path, settings: Any, broker_url: str) -> Iterator[Installation]:
    builders.use_suite(settings, tmp_path / "suites")
    settings.MIRRORS = tmp_path / "mirrors"
    environment = server_environment(tmp_path, broker_url, LOG_LEVEL="INFO", POLL_EVERY_S="3600")
    hosts = Installation(tmp_path, dict(environment))
    for host in HOSTS:
        for name in ("worker", "git", "notify", "dispatcher"):
            argv = on_host(devstack.PROCESSES[name], host)
            hosts.commands[f"{name}-{host}"] = ["info" if word == "warning" else word for word in argv]
    try:
        yield hosts
    finally:
        hosts.stop()


def tell(name: str, number: int) -> None:
    Delivery.objects.create(
        project=Project.objects.get(slug=name),
        provider="github",
        delivery_id=f"{name}-{number}",
        event="push",
        headers={},
        packed_body=b"",
        body_digest=f"{name}-{number}",
    )


def received(hosts: Installation) -> Counter[tuple[str, str]]:
    """How many nudges each worker got, by task and host."""
    found: Counter[tuple[str, str]] = Counter()
    for host in HOSTS:
        for name in ("worker", "git", "notify"):
            log = hosts.log(f"{name}-{host}").read_text()
            found.update((task, host) for task in re.findall(r"Task speedtrack\.tasks\.(\w+)\[\S+\] received", log))
    return found


def work_once(hosts: Installation, repositories: dict[str, Repository], number: int) -> None:
    """Commits in all repositories, told of all at once, and measured; mails for operators."""
    before = Run.objects.count()
    for repository in repositories.values():
        repository.commit()
    for name in repositories:
        tell(name, number)
    MachineEvent.objects.create(
        machine=Machine.objects.get(), kind=MachineEvent.Kind.LIFTED, why=f"round {number}", untold=True
    )
    hosts.until(lambda: Run.objects.count() == before + PROJECTS, f"all pushes are planned, round {number}")
    builders.work(Machine.objects.get(), lambda sha, benchmark, trial: 5000.0 + trial)
    hosts.until(lambda: not Series.objects.undetected().exists(), "detection has looked at all series")
    hosts.until(lambda: Outbox.objects.filter(sent_at__isnull=False).count() == number, "each mail is sent")
    hosts.until(lambda: not Delivery.objects.filter(status="received").exists(), "all deliveries are processed")


def check_once(rounds: int) -> None:
    assert Run.objects.filter(reason=Reason.PUSH).count() == rounds * PROJECTS
    assert Outbox.objects.count() == rounds and not Outbox.objects.exclude(attempts=1).exists()
    assert set(Project.objects.values_list("failures", "error")) == {(0, "")}
    assert fsck_faults() == []


@pytest.fixture
def repositories(tmp_path: Path, hosts: Installation) -> dict[str, Repository]:
    found = {}
    for number in range(PROJECTS):
        found[f"p{number}"] = Repository(tmp_path / f"p{number}")
        found[f"p{number}"].commits(1)
        builders.track(found[f"p{number}"], last=0)
    builders.machine()
    Machine.objects.get().projects.set(Project.objects.all())
    return found


def test_workers_of_three_hosts_share_the_duties_and_a_new_broker_stops_none(
    hosts: Installation, repositories: dict[str, Repository], broker: Valkey, tmp_path: Path
) -> None:
    hosts.start(*hosts.commands.keys() - devstack.PROCESSES.keys())
    work_once(hosts, repositories, 1)
    for number in (2, 3):
        broker.stop()
        broker.start()
        work_once(hosts, repositories, number)
    check_once(rounds=3)
    assert len(list((tmp_path / "mail").iterdir())) == 3
    tasks = {task for task, _ in received(hosts)}
    assert {"sync", "detect", "notify"} <= tasks, "no duty is starved"


def test_a_dispatcher_that_hangs_or_dies_is_followed_by_another(
    hosts: Installation, repositories: dict[str, Repository]
) -> None:
    """One leads; its lock ends with its session, so that the next one leads within a second."""
    hosts.start(*(f"dispatcher-{host}" for host in HOSTS), *(f"{name}-north" for name in ("worker", "git", "notify")))
    work_once(hosts, repositories, 1)
    for number, host in enumerate(HOSTS[:2], start=2):
        hosts.kill(f"dispatcher-{host}")
        work_once(hosts, repositories, number)
    check_once(rounds=3)


def test_a_host_that_freezes_with_a_duty_holds_up_no_other_project(
    hosts: Installation, repositories: dict[str, Repository]
) -> None:
    """Its nudge is lost with it; the dispatcher sends another, which a worker of another host gets."""
    names = [f"{name}-{host}" for name in ("worker", "git", "notify") for host in HOSTS[:2]]
    hosts.start("dispatcher-north", *names)
    work_once(hosts, repositories, 1)
    frozen = [hosts.processes[f"{name}-north"] for name in ("worker", "git", "notify")]
    for process in frozen:
        os.killpg(process.pid, signal.SIGSTOP)
    try:
        time.sleep(1)
        work_once(hosts, repositories, 2)
    finally:
        for process in frozen:
            os.killpg(process.pid, signal.SIGCONT)
    check_once(rounds=2)
