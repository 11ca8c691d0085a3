"""What machine time buys: the shipped suites fit into their time, and the rule and the lines that are played."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from research import machine_time
from research.machine_time import MOST, Deviations, Split, SplitResult, recorded, trials_until
from runners.measuring.stopping import DOUBT


@pytest.mark.parametrize("suite", machine_time.SHIPPED)
def test_a_commit_of_a_shipped_suite_takes_two_minutes_after_the_build(suite: str) -> None:
    assert machine_time.planned_s(suite, machine_time.fewest_trials(suite)) <= 120


@pytest.mark.parametrize(
    ("workload", "seconds"),
    [
        ({"warmup_s": 0.2, "duration_s": 0.6}, 0.8),
        ({"warmup_s": 0.2, "warmup_most_s": 5.0, "duration_s": 0.6}, 1.7),
    ],
)
def test_a_load_that_warms_up_until_steady_takes_the_slices_that_are_judged(
    workload: dict[str, float], seconds: float
) -> None:
    assert machine_time.load_s(workload) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("spread", "doubt", "least", "most"),
    [(0.002, DOUBT, 5, 5.5), (0.05, DOUBT, 5, 5.5), (0.05, math.inf, 14.5, 15), (0.008, DOUBT, 5.5, 9)],
)
def test_calm_and_futile_benchmarks_take_the_fewest_trials(
    spread: float, doubt: float, least: float, most: float
) -> None:
    rows = np.exp(spread * np.random.default_rng(1).normal(size=(100, MOST)))
    assert least <= np.mean([trials_until(row, doubt) for row in rows]) <= most


def test_slices_give_what_shorter_windows_would_have_measured(tmp_path: Path) -> None:
    slices = {"width_ms": 100, "requests": [100] * 3 + [50] * 12, "server_cpu_ns": [1000] * 15}
    row = {"benchmark": "get", "seconds": 3.0, "flags": [], "warmup_s": 1.1, "window_s": 1.5, "slices": slices}
    (tmp_path / "trials").write_text(json.dumps(row) + "\n")
    [trial] = recorded(tmp_path / "trials")["get"]
    assert trial.cpu[0.3] == 10 and trial.cpu[1.5] == pytest.approx(15_000 / 900)


def test_a_calm_line_shows_every_change_and_no_other() -> None:
    calm = Deviations({window_s: np.array([-0.001, 0.0, 0.001]) for window_s in machine_time.WINDOWS_S})
    outcome = SplitResult()
    for seed in range(3):
        machine_time.play(Split("short", 0.6, 0.2, doubt=DOUBT), calm, seed, 150, outcome)
    assert outcome.changes == 6 and outcome.hits >= 5 and outcome.false == 0
    assert outcome.commits == 450 and outcome.trials == 5 * 450
