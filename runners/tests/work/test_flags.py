"""Which flagged trials are repeated, and which are kept: a real run whose trials are flagged by a rule."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from runners.documents import Benchmark, parse_job
from runners.machine.environment import Environment
from runners.measuring.trials import Trial
from runners.processes.control import Control
from runners.tests.conftest import make_benchmark, make_job
from runners.work.execution import BenchmarkState, Execution

HEADLINE = "server_cpu_ns_per_request"
Rule = Callable[[int], tuple[str, ...]]


class Rehearsal(Execution):
    """An execution whose trials are not measured: the n-th one has the flags the rule gives it."""

    rule: Rule
    noise: dict[str, float]

    def _measure_round(self, benchmark: Benchmark, number: int) -> dict[str, Trial]:
        sides = self.runner.rng.sample(self.job.sides, len(self.job.sides))
        return {side.side: self.one(benchmark, number) for side in sides}

    def one(self, benchmark: Benchmark, number: int) -> Trial:
        order = self.runner.next_order()
        return Trial(
            number,
            order,
            "",
            0.0,
            {HEADLINE: self.runner.rng.gauss(100, self.noise[benchmark.name])},
            self.rule(order),
            {"benchmark": benchmark.name},
        )

    def _send(self, state: BenchmarkState, environment: Environment) -> None:
        return


class Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, phase: str, text: str) -> None:
        self.lines.append(text)


def rehearse(
    rule: Rule, noise: dict[str, float] | None = None, lines: Lines | None = None, **changes: Any
) -> list[BenchmarkState]:
    job, log = parse_job(make_job(**changes)), lines or Lines()
    execution = Rehearsal(job, None, Control(), log, lambda progress: None)  # type: ignore[arg-type]
    execution.rule, execution.noise = rule, defaultdict(float, noise or {})
    execution._measure(None)  # type: ignore[arg-type]
    return execution.states


def test_a_clean_repeat_replaces_a_flagged_trial() -> None:
    [state] = rehearse(lambda order: ("steal",) if order == 0 else (), trials=2)
    assert [(trial.order, trial.flags) for trial in state.trials["head"]] == [(1, ()), (2, ())]


def test_a_trial_that_stays_flagged_is_kept_with_its_flags() -> None:
    [state] = rehearse(lambda order: ("steal",), trials=3)
    assert [(trial.order, trial.flags) for trial in state.trials["head"]] == [
        (0, ("steal",)),
        (2, ("steal",)),
        (4, ("steal",)),
    ]
    assert state.repeats_left == 0


def test_a_driver_at_its_limit_causes_one_repeat() -> None:
    [state] = rehearse(lambda order: ("client_bound",), trials=5)
    assert len(state.trials["head"]) == 5 and state.repeats_left == 4


def test_a_flag_that_voids_nothing_causes_no_repeat_and_stays() -> None:
    [state] = rehearse(lambda order: ("client_delayed",), trials=5, repeat_for=["steal"])
    assert [(trial.order, trial.flags) for trial in state.trials["head"]] == [
        (n, ("client_delayed",)) for n in range(5)
    ]
    assert (state.repeats_left, state.thrown_out) == (5, 0)


def test_a_repeat_counts_as_clean_if_its_flags_void_nothing() -> None:
    [state] = rehearse(
        lambda order: ("client_delayed", "steal") if order == 0 else ("client_delayed",), trials=1, repeat_for=["steal"]
    )
    assert [(trial.order, trial.flags) for trial in state.trials["head"]] == [(1, ("client_delayed",))]


def test_only_flags_that_void_are_the_reason_of_a_repeat() -> None:
    lines = Lines()
    rehearse(lambda order: ("client_delayed", "steal"), trials=1, repeat_for=["steal"], lines=lines)
    assert [text for text in lines.lines if "repeated" in text] == ["get-p1, trial 1: repeated because it was steal"]


def test_a_flag_on_one_side_repeats_the_pair() -> None:
    sides = [{"side": "head", "sha": "a" * 40}, {"side": "base", "sha": "b" * 40}]
    [state] = rehearse(lambda order: ("delayed",) if order == 1 else (), trials=1, sides=sides)
    assert sorted(trials[0].order for trials in state.trials.values()) == [2, 3]


def test_the_order_is_seeded_and_every_round_has_every_benchmark_once() -> None:
    benchmarks = [make_benchmark(f"b{n}") for n in range(4)]

    def order(seed: int) -> list[str]:
        states = rehearse(lambda order: (), trials=5, benchmarks=benchmarks, seed=seed)
        trials = [(trial.order, trial.driver["benchmark"]) for state in states for trial in state.trials["head"]]
        return [name for _, name in sorted(trials)]

    assert order(1) == order(1) and order(1) != order(2)
    for place in range(0, 20, 4):
        assert sorted(order(1)[place : place + 4]) == ["b0", "b1", "b2", "b3"]


@pytest.mark.parametrize("trials", [1, 7])
def test_repeats_are_bounded_by_the_number_of_trials(trials: int) -> None:
    asked: list[int] = []
    rehearse(lambda order: asked.append(order) or ("unsteady",), trials=trials)  # type: ignore[func-returns-value]
    assert len(asked) == 2 * trials


def test_a_benchmark_that_is_steady_leaves_the_rounds_and_the_others_go_on() -> None:
    benchmarks = [make_benchmark("steady"), make_benchmark("uneven"), make_benchmark("wild")]
    noise = {"uneven": 1.2, "wild": 20.0}
    steady, uneven, wild = rehearse(lambda order: (), noise, trials=5, most_trials=8, benchmarks=benchmarks)
    assert (steady.stopped, steady.rounds) == ("target", 5) and (uneven.stopped, uneven.rounds) == ("cap", 8)
    assert (wild.stopped, wild.rounds) == ("futile", 5)
    assert [trial.order for trial in uneven.trials["head"][5:]] == [15, 16, 17]
