from pathlib import Path
from typing import Any

import pytest

from speedtrack.runs.models import Machine
from speedtrack.runs.tracking import Tracked
from speedtrack.tests import builders


@pytest.fixture(scope="session")
def three_commits(tmp_path_factory: pytest.TempPathFactory) -> builders.Repository:
    """A repository that no test changes."""
    repository = builders.Repository(tmp_path_factory.mktemp("shared") / "repository")
    repository.commits(3)
    return repository


@pytest.fixture
def machine(db: None) -> Machine:
    return builders.machine("m1")


@pytest.fixture
def suites(tmp_path: Path, settings: Any) -> Path:
    builders.use_suite(settings, tmp_path / "suites")
    return tmp_path / "suites"


@pytest.fixture
def tracked(machine: Machine, three_commits: builders.Repository, suites: Path) -> Tracked:
    """The three commits tracked, each queued on machine m1."""
    return builders.track(three_commits)


@pytest.fixture
def repository(tmp_path: Path, suites: Path) -> builders.Repository:
    """A repository of this test's own, with two commits."""
    repository = builders.Repository(tmp_path / "repository")
    repository.commits(2)
    return repository
