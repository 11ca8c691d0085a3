"""When there are enough trials: the exact bootstrap of the median, and the decision."""

import random
from typing import Any

import numpy as np
import pytest
import scipy.stats

from runners.documents import parse_job
from runners.measuring.stopping import (
    CAP,
    FIXED,
    TARGET,
    expected,
    half_width,
    headline,
    median_interval,
    reason_to_stop,
    resampled_medians,
)
from runners.measuring.trials import Trial
from runners.tests.conftest import make_benchmark, make_job


def samples(n: int) -> list[float]:
    return random.Random(n).sample([100 * 1.01**k for k in range(100)], n)


def trials(values: list[float], metric: str = "server_cpu_ns_per_request") -> list[Trial]:
    return [Trial(n, n, "", 0.0, {metric: value}, (), {}) for n, value in enumerate(values)]


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 9, 12, 15, 40])
def test_the_exact_distribution_is_that_of_scipys_resamples(n: int) -> None:
    values = samples(n)
    drawn = scipy.stats.bootstrap(
        (values,), np.median, n_resamples=20_000, method="percentile", rng=np.random.default_rng(n)
    ).bootstrap_distribution
    exact = resampled_medians(sorted(values))
    assert sum(chance for _, chance in exact) == pytest.approx(1)
    for value in sorted(values):
        share = sum(chance for median, chance in exact if median <= value * (1 + 1e-12))
        assert share == pytest.approx(np.mean(drawn <= value * (1 + 1e-12)), abs=0.02)  # 20,000 draws: 5 sigma


@pytest.mark.parametrize("n", [5, 10, 40])
def test_the_interval_is_scipys(n: int) -> None:
    values = samples(n)
    wanted = scipy.stats.bootstrap(
        (values,), np.median, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert median_interval(values) == pytest.approx(tuple(wanted), rel=0.02)


def test_five_samples_have_their_range_and_one_has_no_interval() -> None:
    assert median_interval([3, 1, 2, 5, 4]) == (1, 5)
    assert half_width([98, 99, 100, 101, 102]) == pytest.approx(0.02)
    assert half_width([7.0]) is None and half_width([7.0, 7.0]) == 0


def test_the_interval_covers_the_median_about_as_often_as_it_says() -> None:
    chance = random.Random(4)
    covered = 0
    for _ in range(400):
        low, high = median_interval([chance.lognormvariate(0, 0.3) for _ in range(12)])
        covered += low <= 1 <= high
    assert 0.90 <= covered / 400 <= 1  # nominal 0.95; the percentile bootstrap of a median is a little liberal


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
    assert headline(trials([1.0], "throughput_rps")) == [1.0]
    assert headline(trials([1.0], "peak_rss_bytes")) == []
    mixed = [*trials([1.0]), *trials([2.0], "throughput_rps")]
    assert headline(mixed) == []


def test_a_benchmark_without_a_headline_runs_to_the_cap() -> None:
    job = parse_job(make_job(trials=5, most_trials=7))
    assert reason_to_stop(job, job.benchmarks[0], trials([1.0] * 6, "peak_rss_bytes")) is None
    assert reason_to_stop(job, job.benchmarks[0], trials([1.0] * 7, "peak_rss_bytes")) == CAP


def test_the_guess_of_what_is_to_come_follows_the_square_root() -> None:
    job = parse_job(make_job(trials=5, most_trials=30, benchmarks=[make_benchmark()]))
    benchmark = job.benchmarks[0]
    assert expected(job, benchmark, []) == 5
    assert expected(job, benchmark, trials([98.0, 99, 100, 101, 102])) == 20
    assert expected(job, benchmark, trials([90.0, 95, 100, 105, 110])) == 30


@pytest.mark.parametrize(("field", "value"), [("most_trials", 4), ("most_trials", "many")])
def test_a_job_that_contradicts_itself_is_refused(field: str, value: Any) -> None:
    with pytest.raises(Exception, match=r"job: .*most_trials"):
        parse_job(make_job(trials=5, **{field: value}))
