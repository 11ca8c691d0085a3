from pathlib import Path
from typing import Any

import pytest

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.alerts.settling.verdicts import PAIRS
from speedtrack.notices.models import Outbox
from speedtrack.runs.models import Reason, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.tests import builders

from .conftest import World

Status = ChangePoint.Status
MORE = """
[[benchmark]]
name = "more-{n}"
why = "another read path"
workload = {{ test = "get", clients = {clients}, pipeline = 1, keys = {{ count = 1000 }}, values = {{ bytes = 32 }}, \
prefill = true, expect = {{ hit_rate = 1.0 }} }}
"""


@pytest.fixture
def wide(world: World, settings: Any, tmp_path: Path) -> World:
    """A world whose suite has five benchmarks, ten watched series in all."""
    text = builders.SUITE + "".join(MORE.format(n=n, clients=n + 10) for n in range(3))
    builders.use_suite(settings, tmp_path / "suites", text)
    return world


def pairs_measured(reason: Reason = Reason.CONFIRM) -> list[tuple[list[str], int]]:
    """Benchmarks and number of pairs of every paired run for this reason."""
    return [(run.benchmark_set.names, run.trials) for run in Run.objects.filter(reason=reason).order_by("id")]


def test_a_shift_of_the_machine_costs_one_small_round_and_alerts_nobody(wide: World) -> None:
    builders.track(wide.repository, emails=["dev@example.org"])

    def slower_machine(sha: str, benchmark: str, trial: int) -> float:
        """The machine is 5% slower by now; both sides of a pair are measured on it as it is."""
        paired = Run.objects.active().exclude(base=None).exists()
        slow = paired or wide.shas.index(sha) >= 7
        return 5000 * (1.05 if slow else 1) * wide.rng.gauss(1, 0.004)

    wide.until_quiet(slower_machine)
    assert set(ChangePoint.objects.values_list("status", flat=True)) == {Status.MACHINE}
    assert ChangePoint.objects.count() >= 5
    ((benchmarks, pairs),) = pairs_measured()
    assert len(benchmarks) == 1
    assert pairs == PAIRS.first
    assert not Alert.objects.exists()
    assert not Outbox.objects.exists()


def test_a_commit_that_slows_everything_down_is_one_alert_of_all_benchmarks(wide: World) -> None:
    builders.track(wide.repository, emails=["dev@example.org"])

    def slower_code(sha: str, benchmark: str, trial: int) -> float:
        return 5000 * (1.05 if wide.shas.index(sha) >= 7 else 1) * wide.rng.gauss(1, 0.004)

    wide.until_quiet(slower_code)
    alert = Alert.objects.get()
    assert alert.commit.sha == wide.shas[7]
    assert {cp.series.benchmark.name for cp in alert.change_points.all()} == {
        "get-p1",
        "set-p1",
        "more-0",
        "more-1",
        "more-2",
    }
    assert Outbox.objects.count() == 1
    assert [len(benchmarks) for benchmarks, _ in pairs_measured()] == [
        1,
        4,
    ]  # one spoke for all, then the others at once


def test_changes_for_which_nothing_is_left_to_measure_end_in_one_step(wide: World) -> None:
    """However many benchmarks a commit has slowed down: a step reads the pairs of all of them."""
    builders.track(wide.repository)

    def slower_code(sha: str, benchmark: str, trial: int) -> float:
        return 5000 * (1.05 if wide.shas.index(sha) >= 7 else 1) * wide.rng.gauss(1, 0.004)

    settling = ChangePoint.objects.settling()
    seen = 0
    while builders.work(wide.machine, slower_code):
        detection.detect()
        confirm.step()
        seen = max(seen, settling.count())
        assert Run.objects.unfinished().exists() or not settling.exists(), "no step waits for another step"
    assert seen == 10 and Alert.objects.get().commit.sha == wide.shas[7]


def test_what_moves_everywhere_but_builds_the_same_server_is_the_machine(wide: World) -> None:
    builders.track(wide.repository, pushed=True)  # newest first: none is linked to its parent
    while run := queue.claim(wide.machine):
        builders.send_build(run, run.commit, binary="the same server")
        for name in run.benchmark_set.names:
            level = 5000 * (1.05 if wide.shas.index(run.commit.sha) >= 7 else 1)
            values = [level * wide.rng.gauss(1, 0.004) for _ in range(run.trials)]
            results.accept_result(wide.machine, run.pk, builders.result(run, name, run.commit, values))
        queue.complete(wide.machine, run.pk, run.lease_token)
    wide.until_quiet()
    found = ChangePoint.objects.all()
    assert {cp.status for cp in found} == {Status.MACHINE}
    assert all("the same server" in cp.note for cp in found)
    assert pairs_measured() == []


def test_one_benchmark_that_moves_is_measured_at_once(wide: World) -> None:
    wide.factors = {wide.shas[7]: 1.3}
    builders.track(wide.repository)
    wide.until_quiet()
    assert Alert.objects.get().commit.sha == wide.shas[7]
    assert not ChangePoint.objects.exclude(spoken_for_by=None).exists()
