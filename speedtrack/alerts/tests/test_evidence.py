"""Many series of a machine move at once: what else was measured decides whether it was the machine or the code."""

import random
from collections.abc import Sequence

import pytest
from django.db.models import Max

from speedtrack.alerts.detection import common_mode, detection
from speedtrack.alerts.models import ChangePoint
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Attempt, Canary, CanaryCheck, Reason, Run, Series
from speedtrack.tests import builders
from speedtrack.tests.histories import History

Status = ChangePoint.Status
BENCHMARKS = [f"b{i}" for i in range(6)]
STEP = 40  # the commit at which all series of the machine become slower
SLOWER = 1.06


@pytest.fixture
def history(db: None) -> History:
    return History()


@pytest.fixture
def commits(history: History) -> list[Commit]:
    return history.commits(44)


def measure(history: History, series: Sequence[Series], commits: Sequence[Commit], level: float, seed: int = 1) -> None:
    rng = random.Random(f"{seed} {commits[0].pk} {level}")
    history.measure(series, {c.pk: [[level * rng.gauss(1, 0.003) for _ in range(5)] for _ in series] for c in commits})


def step(history: History, commits: Sequence[Commit]) -> list[Series]:
    """Six series of the machine that become slower at one commit."""
    series = [history.series(name) for name in BENCHMARKS]
    measure(history, series, commits[:STEP], 5000)
    measure(history, series, commits[STEP:], 5000 * SLOWER)
    return series


def decided() -> tuple[set[str], str]:
    """What became of the suspicions, and the note of one."""
    detection.detect()
    assert ChangePoint.objects.filter(commit=Commit.objects.get(subject=f"Change {STEP}")).count() == len(BENCHMARKS)
    common_mode.sort_out()
    answers = {cp.status if cp.spoken_for_by_id is None else "spoken for" for cp in ChangePoint.objects.all()}
    return answers, ChangePoint.objects.earliest("id").note


def test_without_evidence_the_clearest_one_speaks_for_all(history: History, commits: list[Commit]) -> None:
    step(history, commits)
    assert decided() == ({Status.SUSPECTED, "spoken for"}, "")
    assert ChangePoint.objects.filter(spoken_for_by=None).count() == 1


@pytest.mark.parametrize(("level", "answers"), [(1.0, {Status.MACHINE}), (SLOWER, {Status.SUSPECTED})])
def test_a_machine_that_measured_the_same_commits(
    history: History, commits: list[Commit], level: float, answers: set[str]
) -> None:
    step(history, commits)
    m2 = builders.machine("m2")
    others = [history.series(name, machine=m2) for name in BENCHMARKS[:3]]
    measure(history, others, commits[:STEP], 7000)
    measure(history, others, commits[STEP:], 7000 * level)
    Series.objects.filter(machine__name="m2").update(undetected_since=None)
    found, note = decided()
    assert found == answers
    assert ("other machines did not move" in note) == (answers == {Status.MACHINE})


@pytest.mark.parametrize(("ratio", "answers"), [(SLOWER, {Status.MACHINE}), (1.0, {Status.SUSPECTED, "spoken for"})])
def test_the_canary_of_the_machine(history: History, commits: list[Commit], ratio: float, answers: set[str]) -> None:
    series = [history.series(name) for name in BENCHMARKS]
    canary = Canary.objects.create(
        machine=history.machine,
        project=history.project,
        commit=commits[0],
        suite=history.suite,
        benchmark_set=history.benchmark_set,
        artifacts={},
    )
    measure(history, series, commits[:STEP], 5000)
    check(history, canary, series[0], 1.0)
    measure(history, series, commits[STEP:], 5000 * SLOWER)
    check(history, canary, series[0], ratio)
    found, note = decided()
    assert found == answers
    assert ("the canary moved at that time" in note) == (answers == {Status.MACHINE})


def check(history: History, canary: Canary, series: Series, ratio: float) -> None:
    """Three checks, after the last attempt so far."""
    at = Attempt.objects.aggregate(last=Max("ended_at"))["last"]
    for _ in range(3):
        run = Run.objects.create(
            project=history.project,
            commit=canary.commit,
            machine=history.machine,
            suite=history.suite,
            benchmark_set=canary.benchmark_set,
            canary=canary,
            reason=Reason.CANARY,
            trials=5,
            status="succeeded",
            round=1 + CanaryCheck.objects.count(),
        )
        CanaryCheck.objects.create(run=run, canary=canary, at=at, answer="steady", series=series, ratio=ratio)


@pytest.mark.parametrize(("level", "answers"), [(SLOWER, {Status.MACHINE}), (1.0, {Status.SUSPECTED, "spoken for"})])
def test_another_project_on_the_machine(
    history: History, commits: list[Commit], level: float, answers: set[str]
) -> None:
    series = [history.series(name) for name in BENCHMARKS]
    other = History("other")
    theirs, others = other.commits(12), [other.series(name) for name in BENCHMARKS[:2]]
    measure(history, series, commits[:STEP], 5000)
    measure(other, others, theirs[:8], 300)
    measure(history, series, commits[STEP:], 5000 * SLOWER)
    measure(other, others, theirs[8:], 300 * level)
    Series.objects.filter(project=other.project).update(undetected_since=None)
    found, note = decided()
    assert found == answers
    assert ("other projects on it moved at that time" in note) == (answers == {Status.MACHINE})


@pytest.mark.parametrize(("level", "answers"), [(SLOWER, {Status.MACHINE}), (1.0, {Status.SUSPECTED})])
def test_older_commits_that_were_measured_later(
    history: History, commits: list[Commit], level: float, answers: set[str]
) -> None:
    """History is filled in after the step: at the new level it is the machine's, at the old one the code's."""
    series = [history.series(name) for name in BENCHMARKS]
    filled = commits[24:36:3]
    measure(history, series, [c for c in commits[:STEP] if c not in filled], 5000)
    measure(history, series, commits[STEP:], 5000 * SLOWER)
    detection.detect()
    measure(history, series, filled, 5000 * level)
    Series.objects.update(undetected_since=None)
    found, note = decided()
    assert found == answers
    assert ("it follows the time of measuring" in note) == (answers == {Status.MACHINE})
