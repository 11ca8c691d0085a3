"""A measured project, and people with tokens."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from speedtrack.accounts import tokens
from speedtrack.accounts.models import Membership, Role, Scope
from speedtrack.alerts.models import Alert
from speedtrack.projects.models import Project
from speedtrack.web.tests.world import World, slowed, world


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


@pytest.fixture
def anybody(client: Client) -> Program:
    return Program(client)


@pytest.fixture
def kvd(db: None, settings: Any, tmp_path: Path) -> World:
    """Four measured commits."""
    made = world(settings, tmp_path)
    made.measure()
    return made


@pytest.fixture
def slow(db: None, settings: Any, tmp_path: Path) -> tuple[World, Alert]:
    """Eight measured commits; the sixth made the server 20% slower, and an alert says so."""
    return slowed(settings, tmp_path)
