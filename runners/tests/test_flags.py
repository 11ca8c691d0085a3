"""Which flagged trials are repeated, and what is kept: a real run whose trials are flagged by a rule."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from runners import job as job_module
from runners.control import Control
from runners.documents import parse_job
from runners.job import Execution, Place, Trial
from runners.tests.conftest import make_benchmark, make_job

Rule = Callable[[int], tuple[str, ...]]


class Rehearsal(Execution):
    """An execution whose trials are not measured: the n-th one has the flags the rule gives it."""

    rule: Rule

    def _measured(self, place: Place, chance: random.Random) -> Trial:
        return Trial(
            place.number,
            self.order,
            "",
            0.0,
            {"server_cpu_ns_per_request": 1.0, "throughput_rps": 1.0, "latency_us_p50": 1.0, "latency_us_p99": 1.0},
            self.rule(self.order),
            {},
        )


class Lines:
    def line(self, phase: str, text: str) -> None:
        return


def rehearse(rule: Rule, **changes: Any) -> job_module.Course:
    job = parse_job(make_job(**changes))
    execution = Rehearsal(job, None, Control(), Lines(), lambda progress: None)  # type: ignore[arg-type]
    execution.rule = rule
    courses = execution._courses()
    course = courses["get-p1"]
    for number in range(job.trials):
        execution._round(course, number, random.Random(1))
    return course


def test_a_clean_repeat_replaces_a_flagged_trial() -> None:
    course = rehearse(lambda order: ("steal",) if order == 0 else (), trials=2)
    assert [(trial.order, trial.flags) for trial in course.trials["head"]] == [(1, ()), (2, ())]


def test_a_trial_that_stays_flagged_is_kept_with_its_flags() -> None:
    course = rehearse(lambda order: ("steal",), trials=3)
    assert [(trial.order, trial.flags) for trial in course.trials["head"]] == [
        (0, ("steal",)),
        (2, ("steal",)),
        (4, ("steal",)),
    ]
    assert course.repeats_left == 0


def test_a_driver_at_its_limit_is_believed_after_one_repeat() -> None:
    course = rehearse(lambda order: ("client_bound",), trials=5)
    assert len(course.trials["head"]) == 5 and course.repeats_left == 4


def test_a_flag_on_one_side_repeats_the_pair() -> None:
    sides = [{"side": "head", "sha": "a" * 40}, {"side": "base", "sha": "b" * 40}]
    course = rehearse(lambda order: ("delayed",) if order == 1 else (), trials=1, sides=sides)
    assert sorted(trials[0].order for trials in course.trials.values()) == [2, 3]


def test_the_order_is_seeded_and_every_round_has_every_benchmark_once() -> None:
    benchmarks = parse_job(make_job(benchmarks=[make_benchmark(f"b{n}") for n in range(4)])).benchmarks

    def order(seed: int) -> list[tuple[int, str]]:
        return [(number, one.name) for number, one in job_module.schedule(benchmarks, 5, random.Random(seed))]

    assert order(1) == order(1) and order(1) != order(2)
    for number in range(5):
        assert sorted(name for place, name in order(1) if place == number) == ["b0", "b1", "b2", "b3"]


@pytest.mark.parametrize("trials", [1, 7])
def test_repeats_are_bounded_by_the_number_of_trials(trials: int) -> None:
    asked: list[int] = []
    rehearse(lambda order: asked.append(order) or ("unsteady",), trials=trials)  # type: ignore[func-returns-value]
    assert len(asked) == 2 * trials
