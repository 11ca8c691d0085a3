"""When there are enough trials: the interval of the median, and the decision."""

import json
import random
from typing import Any

import pytest
import scipy.stats

from runners.documents import parse_job
from runners.measuring.stopping import (
    CAP,
    FIXED,
    TARGET,
    expected_trials,
    half_width,
    headline_samples,
    median_interval,
    reason_to_stop,
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
        (9, [100.0, 104, 96, 102, 98], None),
        (9, [100.0, 104, 96, 102, 98, 103, 97, 105, 95], CAP),
        (5, [100.0, 104, 96, 102, 98], FIXED),
    ],
)
def test_trials_go_on_until_the_interval_is_narrow_enough_or_the_cap(
    most: int, values: list[float], reason: str | None
) -> None:
    job = parse_job(make_job(trials=5, most_trials=most))
    assert reason_to_stop(job, job.benchmarks[0], trials(values)) == reason


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
