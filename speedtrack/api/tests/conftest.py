import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from speedtrack import __version__
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.scheduling.versions import PROTOCOL
from speedtrack.tests import builders

CLAIM = {"version": __version__, "protocol": PROTOCOL}


@dataclass
class Runner:
    """A machine that speaks HTTP."""

    machine: Machine
    token: str
    client: Client

    def post(self, path: str, body: Any = None, token: str | None = None) -> HttpResponse:
        """Make a call; ``body`` is JSON, or bytes to be sent unchanged."""
        raw = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        return self.client.post(
            f"/api/runner/{path}",
            raw,
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.token if token is None else token}"},
        )

    def get(self, path: str) -> HttpResponse:
        return self.client.get(f"/api/runner/{path}", headers={"Authorization": f"Bearer {self.token}"})

    def claim(self) -> dict[str, Any]:
        answer = self.post("claim", CLAIM)
        assert answer.status_code == 200
        job: dict[str, Any] = json.loads(answer.content)
        return job


def error(answer: HttpResponse) -> str:
    """The error message of an answer that has no other key."""
    document = json.loads(answer.content)
    assert list(document) == ["error"]
    return str(document["error"])


@pytest.fixture
def runner(db: None, client: Client) -> Runner:
    token = registering.add_machine("m1")
    return Runner(Machine.objects.get(), token, client)


@pytest.fixture(scope="session")
def two_commits(tmp_path_factory: pytest.TempPathFactory) -> builders.Repository:
    """A repository that no test changes."""
    repository = builders.Repository(tmp_path_factory.mktemp("shared") / "repository")
    repository.commits(2)
    return repository


@pytest.fixture
def tracked(runner: Runner, two_commits: builders.Repository, tmp_path: Path, settings: Any) -> Tracked:
    """Two commits, tracked and queued."""
    builders.use_suite(settings, tmp_path / "suites")
    return builders.track(two_commits)


@pytest.fixture
def run(runner: Runner, tracked: Tracked) -> Run:
    """A run that the runner has claimed."""
    return Run.objects.get(pk=runner.claim()["run"])


@pytest.fixture
def document(run: Run) -> dict[str, Any]:
    """A valid measurement of that run; tests make it invalid."""
    result = builders.result(run, "get-p1", run.commit, [5.0, 6.0, 7.0, 8.0, 9.0])
    found: dict[str, Any] = result.model_dump(mode="json", by_alias=True)
    return found
