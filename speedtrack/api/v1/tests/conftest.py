"""A measured project, and people with tokens."""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from speedtrack.accounts import tokens
from speedtrack.accounts.models import Membership, Role, Scope
from speedtrack.alerts.models import Alert, Bisection, BisectionAnswer
from speedtrack.outside import document, taking
from speedtrack.outside.taking import Sender
from speedtrack.projects.models import Project
from speedtrack.runs.models import Canary, CanaryCheck, Import, Profile, Run
from speedtrack.web.tests.world import CPU, World, measured_world, slowed


@dataclass
class Program:
    """A person's program, or anybody's without a token."""

    client: Client
    token: str = ""

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        address = path if path.startswith("/") else f"/api/v1/{path}"
        kind = {"content_type": "application/json"} if raw else {}
        return self.client.generic(method, address, raw, headers=headers, **kind)

    def read(self, path: str, **headers: str) -> Any:
        """The document at an address, which is there."""
        answer = self.call("GET", path, **headers)
        assert answer.status_code == 200, answer.content
        return json.loads(answer.content)

    def write(self, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        answer = self.call(method, path, body, **headers)
        assert answer.status_code == status, answer.content
        return json.loads(answer.content)

    def refused(self, method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
        """The problem document of a refusal."""
        answer = self.call(method, path, body, **headers)
        assert answer.headers["Content-Type"] == "application/problem+json", answer.content
        found: dict[str, Any] = json.loads(answer.content)
        assert found["status"] == answer.status_code
        assert found["instance"] == answer.request["PATH_INFO"]
        assert found["title"] and found["detail"].endswith(".")
        assert found["type"].startswith("/api/v1/docs#problem-")
        return found


def program(name: str, *scopes: Scope, project: Project | None = None, role: Role | None = None) -> Program:
    """A program of a person of this name, who has this role in the project."""
    user, _ = User.objects.get_or_create(username=name)
    if project and role:
        Membership.objects.update_or_create(project=project, user=user, defaults={"role": role})
    _, text = tokens.issue(user, "a program", scopes or tuple(Scope), days=None)
    return Program(Client(raise_request_exception=False), text)


def evidence_of(made: World) -> None:
    """An import, a bisection with an answer, a profile and a check of a canary."""
    row = {"benchmark": "sort", "metric": "wall", "unit": "s", "better": "lower", "value": 1.5, "tags": {"job": "7"}}
    sent = {
        "schema": "speedtrack.points/1",
        "commit": made.shas[0],
        "machine": "ci",
        "measured_at": "2026-03-01T12:00Z",
    }
    batch = document.batch_of({**sent, "tool": "hyperfine", "results": [row]})
    taking.take(made.project, batch, Sender(Import.Door.COMMAND, name="ada", source="a.json"))
    run = Run.objects.filter(machine=made.machines[0], attempts__isnull=False).order_by("pk")[0]
    benchmark = run.benchmark_set.benchmarks.get(name="get-p1")
    ends = [made.commit(place) for place in range(4)]
    bisection = Bisection.objects.create(
        project=made.project,
        machine=run.machine,
        suite=run.suite,
        benchmark_set=run.benchmark_set,
        metric_name=CPU,
        before=ends[0],
        commit=ends[3],
        path=[one.pk for one in ends[1:]],
        ended_at=timezone.now(),
    )
    bisection.runs.add(run)
    for commit, answer in ((ends[3], "different"), (ends[2], "old")):
        BisectionAnswer.objects.create(
            bisection=bisection, benchmark=benchmark, commit=commit, answer=answer, ratio=1.2
        )
    Profile.objects.create(
        attempt=run.attempts.get(number=run.attempt),
        benchmark=benchmark,
        side="head",
        kind="samples",
        event="cycles",
        frequency_hz=99,
        samples=3,
        folded=zlib.compress(b"main;get 2\nmain 1\n"),
    )
    canary = Canary.objects.create(
        machine=run.machine, project=made.project, commit=ends[0], suite=run.suite, benchmark_set=run.benchmark_set
    )
    CanaryCheck.objects.create(canary=canary, run=run, at=timezone.now(), answer="steady", ratio=1.01, limit=0.05)


@pytest.fixture
def anybody(client: Client) -> Program:
    return Program(client)


@pytest.fixture
def kvd(db: None, settings: Any, tmp_path: Path) -> World:
    """Four measured commits."""
    return measured_world(settings, tmp_path)


@pytest.fixture
def slow(db: None, settings: Any, tmp_path: Path) -> tuple[World, Alert]:
    """Eight measured commits; the sixth made the server 20% slower, and an alert says so."""
    return slowed(settings, tmp_path)
