"""When there are enough trials: the interval of the median, and the decision."""

import json
import random
from typing import Any

import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.documents import parse_job
from runners.measuring.stopping import (
    CAP,
    DOUBT,
    FIXED,
    FUTILE,
    TARGET,
    expected_trials,
    half_width,
    headline_samples,
    median_interval,
    reason_to_stop,
    stop_decision,
)
from runners.measuring.trials import Trial
from runners.tests.conftest import HERE, make_benchmark, make_job


def samples(n: int) -> list[float]:
    return random.Random(n).sample([100 * 1.01**k for k in range(300)], n)


def trials(values: list[float], metric: str = "server_cpu_ns_per_request") -> list[Trial]:
    return [Trial(n, n, "", 0.0, {metric: value}, (), {}) for n, value in enumerate(values)]


@pytest.mark.parametrize("n", [6, 7, 8, 9, 12, 15, 40, 200])
def test_the_interval_is_scipys(n: int) -> None:
    values = samples(n)
    assert median_interval(values) == tuple(scipy.stats.quantile_test(values, p=0.5).confidence_interval(0.95))


def test_the_interval_is_that_of_the_server() -> None:
    """The server's tests read the same golden file."""
    for row in json.loads((HERE / "golden" / "median-intervals.json").read_text()):
        assert median_interval(row["samples"]) == (row["low"], row["high"])


def test_five_samples_have_their_range_and_one_has_no_interval() -> None:
    assert median_interval([3, 1, 2, 5, 4]) == (1, 5)
    assert half_width([98, 99, 100, 101, 102]) == pytest.approx(0.02)
    assert half_width([7.0]) is None and half_width([7.0, 7.0]) == 0


@pytest.mark.parametrize(
    ("most", "values", "reason"),
    [
        (9, [100.0] * 4, None),
        (9, [100.0, 100.5, 101, 99.5, 100], TARGET),
        (9, [100.0, 102, 98, 101, 99], None),
        (9, [100.0, 102, 98, 101, 99, 102, 98, 101, 99], CAP),
        (15, [100.0, 103, 98, 101, 99], None),
        (15, [100.0, 104, 96, 102, 98], FUTILE),
        (5, [100.0, 104, 96, 102, 98], FIXED),
    ],
)
def test_trials_go_on_until_the_interval_is_narrow_enough_or_the_cap(
    most: int, values: list[float], reason: str | None
) -> None:
    job = parse_job(make_job(trials=5, most_trials=most))
    assert reason_to_stop(job, job.benchmarks[0], trials(values)) == reason


@settings(max_examples=200)
@given(
    st.lists(st.floats(1.0, 1e6), min_size=1, max_size=20),
    st.integers(1, 20),
    st.integers(0, 20),
    st.floats(0.001, 0.5),
)
def test_a_benchmark_ends_as_futile_only_between_the_fewest_trials_and_the_most(
    values: list[float], fewest: int, more: int, target: float
) -> None:
    """And only if the interval, narrowed by the root of the number of trials, would miss its target by half of it."""
    wanted = make_benchmark() | {"target": target}
    job = parse_job(make_job(trials=fewest, most_trials=fewest + more, benchmarks=[wanted]))
    benchmark = job.benchmarks[0]
    reason = reason_to_stop(job, benchmark, trials(values))
    if len(values) < fewest:
        assert reason is None
        return
    if more and len(values) >= job.most_trials:
        assert reason in {TARGET, CAP}
    if reason == FUTILE:
        decision = stop_decision(job, reason, benchmark, trials(values), 0)
        assert decision.half_width is not None and decision.half_width_at_most is not None
        assert len(values) < job.most_trials == decision.most_trials
        assert decision.half_width > decision.half_width_at_most > DOUBT * target
        assert decision.half_width_at_most == pytest.approx(
            decision.half_width * (len(values) / job.most_trials) ** 0.5
        )


@given(st.lists(st.floats(50.0, 200.0), min_size=5, max_size=14), st.floats(0.001, 0.1), st.floats(1.0, 10.0))
def test_a_looser_target_makes_no_benchmark_futile(values: list[float], target: float, looser: float) -> None:
    def reason(wanted: float) -> str | None:
        job = parse_job(make_job(trials=5, most_trials=15, benchmarks=[make_benchmark() | {"target": wanted}]))
        return reason_to_stop(job, job.benchmarks[0], trials(values))

    assert reason(target) == FUTILE or reason(target * looser) != FUTILE


def test_a_futile_benchmark_says_what_the_most_trials_would_give() -> None:
    job = parse_job(make_job(trials=5, most_trials=15))
    decision = stop_decision(job, FUTILE, job.benchmarks[0], trials([100.0, 107, 93, 102, 98]), 0)
    assert str(decision) == "5 trials, median ±7.00% (target ±1.00%): 15 would give about ±4.04%"
    narrow = stop_decision(job, TARGET, job.benchmarks[0], trials([100.0] * 5), 1)
    assert (narrow.most_trials, narrow.half_width_at_most) == (None, None)
    assert str(narrow) == "5 trials, 1 thrown out, median ±0.00% (target ±1.00%): close enough"


def test_the_headline_is_the_steadiest_metric_that_every_trial_has() -> None:
    assert headline_samples(trials([1.0], "throughput_rps")) == [1.0]
    assert headline_samples(trials([1.0], "peak_rss_bytes")) == []
    mixed = [*trials([1.0]), *trials([2.0], "throughput_rps")]
    assert headline_samples(mixed) == []


def test_a_benchmark_without_a_headline_runs_to_the_cap() -> None:
    job = parse_job(make_job(trials=5, most_trials=7))
    assert reason_to_stop(job, job.benchmarks[0], trials([1.0] * 6, "peak_rss_bytes")) is None
    assert reason_to_stop(job, job.benchmarks[0], trials([1.0] * 7, "peak_rss_bytes")) == CAP


def test_the_expected_number_of_trials_follows_the_square_root() -> None:
    job = parse_job(make_job(trials=5, most_trials=30, benchmarks=[make_benchmark()]))
    benchmark = job.benchmarks[0]
    assert expected_trials(job, benchmark, []) == 5
    assert expected_trials(job, benchmark, trials([98.0, 99, 100, 101, 102])) == 20
    assert expected_trials(job, benchmark, trials([90.0, 95, 100, 105, 110])) == 30


@pytest.mark.parametrize(("field", "value"), [("most_trials", 4), ("most_trials", "many")])
def test_a_job_that_contradicts_itself_is_refused(field: str, value: Any) -> None:
    with pytest.raises(Exception, match=r"job: .*most_trials"):
        parse_job(make_job(trials=5, **{field: value}))
