import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.notices.telling import tell_subscribers
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.models import Machine, Reason, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.tests import builders, worlds


@dataclass
class World:
    """A tracked repository on one machine, and a runner to be played. ``factors``: sha -> slower from there on."""

    repository: builders.Repository
    machine: Machine
    shas: list[str] = field(default_factory=list)
    factors: dict[str, float] = field(default_factory=dict)
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    noise: float = 0.01
    only: str = "get-p1"

    def speed(self, sha: str, benchmark: str, trial: int) -> float:
        """Server CPU in ns per request: 5000, times the factors of all commits up to this one, and noise."""
        level = 5000.0
        for changed, factor in self.factors.items():
            if benchmark == self.only and self.shas.index(sha) >= self.shas.index(changed):
                level *= factor
        return level * self.rng.gauss(1, self.noise)

    def queue_confirmation(self) -> None:
        """Track the repository, measure its commits, and queue the pairs of what is then suspected."""
        builders.track(self.repository)
        builders.work(self.machine, self.speed)
        detection.detect()
        confirm.step()

    def until_quiet(self, speed: Callable[[str, str, int], float] | None = None) -> list[Run]:
        """Work, detect and settle until nothing is left to do."""
        runs: list[Run] = []
        for _ in range(40):
            done = builders.work(self.machine, speed or self.speed)
            detection.detect()
            confirm.step()
            tell_subscribers()
            runs += done
            settling = ChangePoint.objects.settling().exists()  # the dispatcher lets these be looked at again, too
            if not done and not settling and not Run.objects.unfinished().exists():
                return runs
        raise AssertionError("the suspicions never come to rest")


def make_world(settings: Any, directory: Path) -> World:
    builders.use_suite(settings, directory / "suites")
    world = World(builders.Repository(directory / "repository"), builders.machine())
    world.shas = world.repository.commits(12)
    return world


@pytest.fixture
def world(db: None, tmp_path: Path, settings: Any) -> World:
    return make_world(settings, tmp_path)


@worlds.shared
def steady(settings: Any, directory: Path) -> World:
    """A world whose commits are all measured, and equally fast."""
    world = make_world(settings, directory)
    builders.track(world.repository)
    world.until_quiet()
    return world


def make_slowed(settings: Any, directory: Path, at: int, **wishes: Any) -> tuple[World, Alert]:
    """A world with the alert that one of its commits is slower by 30%. ``wishes``: how it is tracked."""
    world = make_world(settings, directory)
    world.factors = {world.shas[at]: 1.3}
    builders.track(world.repository, pushed=True, **wishes)
    world.until_quiet()
    return world, Alert.objects.get()


@worlds.shared
def slowed(settings: Any, directory: Path) -> tuple[World, Alert]:
    """A world with the alert that its eighth commit is slower by 30%."""
    return make_slowed(settings, directory, at=7)


def paired_runs() -> list[tuple[str, str, str]]:
    """The runs that settle suspicions: the whole effect of a named commit comes after them."""
    settling = Run.objects.exclude(base=None).exclude(reason=Reason.EFFECT)
    runs = settling.order_by("id").select_related("base", "commit")
    return [(run.reason, run.base.sha, run.commit.sha) for run in runs]


def finish(world: World, run: Run, binary: str | None = None, **changes: Any) -> None:
    linked = builders.send_build(run, run.commit, binary=binary, **changes)
    for name in [] if linked else run.benchmark_set.names:
        values = [world.speed(run.commit.sha, name, trial) for trial in range(run.trials)]
        results.accept_result(world.machine, run.pk, builders.result(run, name, run.commit, values))
    queue.complete(world.machine, run.pk, run.lease_token)


def failure(run: Run, error: str) -> FailureReport:
    return FailureReport(token=run.lease_token, kind="permanent", error=error)
