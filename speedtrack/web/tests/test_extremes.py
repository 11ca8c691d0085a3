"""Every public page can show whatever a runner may send within its bounds."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.benchmarks.metrics import METRICS, Direction
from speedtrack.runs.documentfields import EARLIEST, LARGEST, LARGEST_INTEGER, LARGEST_SIZE, LONGEST_S, SMALLEST
from speedtrack.runs.documents import LogPiece
from speedtrack.runs.models import Machine, Reason, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.results import profiles, results
from speedtrack.tests import builders
from speedtrack.web.drawing.small.plots import CanaryDot, CanaryPlot, Forest
from speedtrack.web.tests.world import World, world

MEASURED = [name for name in METRICS if name not in ("build_seconds", "binary_bytes")]
NUMBERLESS = re.compile(r"(?<![a-z-])(nan|inf|infinity)(?![a-z])", re.IGNORECASE)
FACTS = {"a": 2.0**64, "b": -1e-100, "c": {"d": [0, 2**64, "x" * 10_000]}, "load_average": 2.0**64}


def extreme(metric: str, slow: bool) -> float:
    """The fastest or the slowest value that a metric may have."""
    better_high = METRICS[metric].better == Direction.HIGHER
    return LARGEST[METRICS[metric].unit] if slow != better_high else SMALLEST


def trials(run: Run, slow: bool, mixed: bool) -> list[dict[str, Any]]:
    made = builders.trials(
        [{metric: extreme(metric, slow ^ (mixed and i % 2 == 1)) for metric in MEASURED} for i in range(run.trials)]
    )
    late = timezone.now() + timedelta(hours=23)
    for i, trial in enumerate(made):
        trial |= {
            "order": LARGEST_INTEGER - i,
            "seconds": LONGEST_S * (i % 2),
            "quiet": FACTS,
            "server": FACTS,
            "started_at": str((EARLIEST, late)[i % 2]),
            "driver": FACTS,
        }
    return made


def play(run: Run, slow: set[str], mixed: set[str]) -> None:
    """Build, measure and complete a run, with extreme values in every place."""
    machine = run.machine
    progress = {"done": LARGEST_INTEGER, "total": 0, "now": "x" * 200}
    queue.renew(machine, run.pk, queue.Renewal(token=run.lease_token, progress=progress))
    queue.keep_log(
        machine, run.pk, LogPiece(token=run.lease_token, seq=LARGEST_INTEGER, phase="measure", text="x" * 10**6)
    )
    for side, commit in builders.sides_of(run):
        is_slow, is_mixed = commit.sha in slow, commit.sha in mixed
        size = LARGEST_SIZE if is_slow else 0
        artifacts = {"kvd": {"digest": builders.digest_of_binary(commit.sha), "bytes": size, "loaded_bytes": size}}
        builders.send_build(
            run,
            commit,
            side=side,
            artifacts=artifacts,
            seconds=LONGEST_S * is_slow,
            environment=builders.environment() | {"recorded": FACTS},
            ccache={"hits": 0, "misses": LARGEST_INTEGER},
        )
        for name in builders.measured(run):
            if run.reason == Reason.PROFILE:
                profile(run, name, commit, side)
                continue
            stopping = {
                "reason": "cap",
                "half_width": LARGEST[""],
                "target": LARGEST[""],
                "trials": run.trials,
                "thrown_out": LARGEST_INTEGER,
            }
            result = builders.result(
                run, name, commit, [1.0], side=side, trials=trials(run, is_slow, is_mixed), stopping=stopping
            )
            results.accept_result(machine, run.pk, result)
    queue.complete(machine, run.pk, run.lease_token)


def profile(run: Run, name: str, commit: Any, side: str) -> None:
    most, ns = (999_999_999, LARGEST["ns"]) if side == "head" else (0, SMALLEST)
    folded = "".join(f"{'f;' * 199}f{i} {most}\n" for i in range(20)) + f"main;{side} {most}\n"
    builders.send_profile(run, name, commit, folded=folded, samples=most and LARGEST_INTEGER, cpu_ns_per_request=ns)


def play_all(machine: Machine, slow: set[str], mixed: set[str]) -> None:
    while run := queue.claim(machine):
        play(run, slow, mixed)


@pytest.fixture
def extremes(db: None, settings: Any, tmp_path: Any) -> World:
    """A line that jumps from the fastest values to the slowest, one commit with both, and a canary's line."""
    made = world(settings, tmp_path, commits=6)
    machine = made.machines[0]
    play_all(machine, set(), {made.shas[2]})
    slow = set(made.push(3))
    play_all(machine, slow, {made.shas[2]})
    for _ in range(4):
        detection.detect()
        confirm.step()
        play_all(machine, slow, {made.shas[2]})
    run = Run.objects.filter(commit__sha=made.shas[6], reason=Reason.PUSH).get()
    profiles.plan_profile(profiles.question_of_run(run), by_hand=True)
    play_all(machine, slow, set())
    return made


def addresses(made: World) -> list[str]:
    line = "/p/kvd/timeline"
    lines = [f"{line}/{'get-p1' if metric in MEASURED else 'build'}/{metric}" for metric in METRICS]
    return [
        "/",
        "/p/kvd/",
        "/p/kvd/alerts/",
        "/alerts/",
        "/queue/",
        *(f"/p/kvd/?metric={metric}" for metric in METRICS),
        *(f"{each}{form}" for each in lines for form in ("", "?last=2", ".json", ".csv", ".svg", ".svg?y=log")),
        *(f"/p/kvd/c/{sha}/" for sha in made.shas),
        *(f"/alerts/{alert.pk}/" for alert in Alert.objects.all()),
        *(f"/machines/{machine.name}{form}" for machine in made.machines for form in ("/", ".json")),
        *(f"/runs/{run.pk}/{part}" for run in Run.objects.all() for part in ("", "?part=live", "log", "reproduce.sh")),
    ]


def test_every_page_shows_the_most_extreme_values_that_are_accepted(client: Client, extremes: World) -> None:
    assert ChangePoint.objects.exists()
    assert Run.objects.filter(reason=Reason.CONFIRM, status="succeeded").exists()
    wrong = []
    client.raise_request_exception = False
    for address in addresses(extremes):
        answer = client.get(address)
        text = (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()
        if answer.status_code >= 500 or (found := NUMBERLESS.search(text)):
            wrong.append((address, answer.status_code, found and text[max(0, found.start() - 60) : found.end() + 20]))
    assert wrong == []


@pytest.mark.parametrize("ratio", [1e-24, 1e24])
def test_a_drawing_has_few_ticks_however_far_its_values_are(ratio: float) -> None:
    assert len(Forest.of([(ratio, ratio, ratio)]).ticks) < 10
    assert len(CanaryPlot.of([CanaryDot(ratio, ratio, "off", "")]).ticks) < 10
