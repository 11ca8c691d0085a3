from pathlib import Path
from typing import Any

import pytest

from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Canary, Machine
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.tests.canaries import LEVEL, let_pass, measure_canary
from speedtrack.stats.noise.canary import FEWEST
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


@pytest.fixture
def canary_auto(settings: Any) -> None:
    """The first head that a machine has measured becomes its canary."""
    settings.CANARY_AUTO = True


@pytest.fixture
def watched(canary_auto: None, tracked: Tracked, machine: Machine) -> Canary:
    """Machine m1 with three commits to measure, and a canary whose level is known."""
    machines.set_canary("m1", tracked.project.slug, None, [])
    for place in range(FEWEST):
        measure_canary(machine, LEVEL + place % 3)
        let_pass(hours=3)
    return Canary.objects.get()
