"""A tracked and measured repository, made through the verbs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext

from speedtrack.accounts import members
from speedtrack.accounts.models import Role
from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert
from speedtrack.alerts.settling import confirm
from speedtrack.alerts.triage import muting
from speedtrack.projects.models import Annotation, Commit, Project
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.planning import pushes
from speedtrack.runs.queue import queue
from speedtrack.tests import builders, worlds

HOSTILE = "<script>alert(1)</script> & \"quotes\" 'single'"
CPU = "server_cpu_ns_per_request"


@dataclass
class World:
    """One repository with its project; ``shas`` from the oldest on, ``slow`` those that need 20% more CPU."""

    repository: builders.Repository
    project: Project
    machines: list[Machine]
    shas: list[str]
    slow: set[str] = field(default_factory=set)

    def speed(self, sha: str, benchmark: str, trial: int) -> float:
        base = 5000.0 if benchmark == "get-p1" else 7000.0
        place = self.shas.index(sha) if sha in self.shas else 0
        return base * (1.2 if sha in self.slow else 1.0) * (1 + 0.0005 * ((trial * 3 + place * 7) % 5))

    def measure(self) -> None:
        """Work until nothing waits, as all machines, and let detection see what was measured."""
        for machine in self.machines:
            builders.work(machine, self.speed)
        detection.detect()

    def push(self, count: int, subject: str = "", slow: bool = False) -> list[str]:
        """New commits, planned."""
        new = [self.repository.commit(subject) for _ in range(count)]
        self.shas += new
        if slow:
            self.slow |= set(new)
        pushes.sync_and_plan(self.project)
        return new

    def settle(self) -> Alert | None:
        """Detect, confirm and raise; the newest alert."""
        for _ in range(6):
            detection.detect()
            confirm.step()
            self.measure()
        return Alert.objects.order_by("-pk").first()

    def commit(self, place: int) -> Commit:
        return Commit.objects.get(project=self.project, sha=self.shas[place])

    def fail(self, error: str = "build failed: make exited with code 2") -> Run:
        """Claim the next run of the first machine, and fail its build."""
        run = queue.claim(self.machines[0])
        assert run
        builders.send_build(run, run.commit, succeeded=False)
        queue.fail(self.machines[0], run.pk, FailureReport(token=run.lease_token, kind="permanent", error=error))
        return run


def world(settings: Any, directory: Path, commits: int = 4, machines: int = 1, name: str = "kvd") -> World:
    """A repository whose commits all wait to be measured."""
    builders.use_suite(settings, directory / "suites")
    boxes = [builders.machine(f"{name}-m{i + 1}") for i in range(machines)]
    repository = builders.Repository(directory / name)
    shas = repository.commits(commits)
    tracked = builders.track(repository)
    return World(repository, tracked.project, boxes, shas)


def slowed(settings: Any, directory: Path) -> tuple[World, Alert]:
    """A world with a confirmed slowdown, by a commit with a hostile subject."""
    made = world(settings, directory, commits=5)
    made.measure()
    made.push(1, HOSTILE, slow=True)
    made.push(2, slow=True)
    made.measure()
    alert = made.settle()
    assert alert
    return made, alert


def inhabited(settings: Any, directory: Path) -> World:
    """The world of ``slowed`` with a member of each role, a stranger, an operator, a note, a mute and a bisection."""
    made, alert = slowed(settings, directory)
    for role in Role:
        members.give_role(made.project, User.objects.create_user(role.value), role)
    User.objects.create_user("stranger")
    ada = User.objects.create_superuser("operator", "o@example.org")
    Annotation.objects.create(project=made.project, commit=alert.commit, text="a note", author=ada)
    muting.mute(made.project, muting.MuteRequest("", "", made.machines[0], "noisy", 3), ada)
    bisecting.start(made.commit(1), made.commit(-1), made.machines[0])
    return made


def measured(settings: Any, directory: Path) -> World:
    """A world of four measured commits."""
    made = world(settings, directory)
    made.measure()
    return made


@worlds.shared
def kvd(settings: Any, directory: Path) -> World:
    """Four measured commits. Where tests use it, their conftest imports it."""
    return measured(settings, directory)


@worlds.shared
def slow(settings: Any, directory: Path) -> tuple[World, Alert]:
    """Eight measured commits; the sixth made the server 20% slower, and an alert says so."""
    return slowed(settings, directory)


@worlds.shared
def peopled(settings: Any, directory: Path) -> World:
    """The world of ``inhabited``."""
    return inhabited(settings, directory)


@contextmanager
def counted() -> Iterator[CaptureQueriesContext]:
    with CaptureQueriesContext(connection) as context:
        yield context


def html_of(response: HttpResponse) -> str:
    """A page as templates may wrap it anywhere: with whitespace collapsed, and none before the end of a tag.

    Words that explain themselves are plain words.
    """
    html = re.sub(r"\s+", " ", response.content.decode()).replace(" >", ">")
    return re.sub(r'<a class="term"[^>]*>(.*?)</a>', r"\1", html)


def queries(client: Client, address: str) -> int:
    """How many queries a page takes, once caches are warm."""
    assert client.get(address).status_code == 200
    with counted() as context:
        client.get(address)
    return len(context)
