from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from speedtrack.stats.levels import medians
from speedtrack.stats.summary import Estimate, outer_rank, summarize

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


def test_value_is_the_median() -> None:
    assert summarize([3.0, 1.0, 2.0]).value == 2.0
    assert summarize([4.0, 1.0, 2.0, 3.0]).value == 2.5


def test_one_sample_is_its_own_interval() -> None:
    assert summarize([7.0]) == Estimate(7.0, 7.0, 7.0, 1)


def test_two_samples_span_their_range() -> None:
    assert summarize([8.0, 6.0]) == Estimate(7.0, 6.0, 8.0, 2)


def test_equal_samples_have_no_width() -> None:
    assert summarize([5.0] * 9) == Estimate(5.0, 5.0, 5.0, 9)


def test_interval_is_that_by_which_a_runner_stops() -> None:
    """The runner's tests use the same golden file."""
    golden = Path(__file__).parents[3] / "runners" / "tests" / "golden" / "median-intervals.json"
    for row in json.loads(golden.read_text()):
        estimate = summarize(row["samples"])
        assert (estimate.low, estimate.high) == (row["low"], row["high"])


@pytest.mark.parametrize("n", [6, 7, 8, 9, 15, 20, 33, 100, 1000])
def test_interval_is_the_narrowest_exact_one(n: int) -> None:
    samples = [float(x) for x in range(n)]
    low, high = np.asarray(stats.quantile_test(samples, q=0, p=0.5).confidence_interval(0.95))
    estimate = summarize(samples)
    assert (estimate.low, estimate.high) == (low, high)


def test_interval_covers_the_true_median_of_skewed_samples() -> None:
    rng = np.random.default_rng(1)
    true = stats.expon.median()
    covered = 0
    for _ in range(400):
        estimate = summarize(rng.exponential(size=9).tolist())
        covered += estimate.low <= true <= estimate.high
    exact = 1 - 2 * stats.binom.cdf(outer_rank(9, 0.95), 9, 0.5)
    assert abs(covered / 400 - exact) < 4 * math.sqrt(exact * (1 - exact) / 400)


@given(numbers)
def test_order_of_samples_does_not_matter_and_the_interval_holds_the_value(samples: list[float]) -> None:
    estimate = summarize(samples)
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate == summarize(samples[::-1])


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [math.inf]])
def test_what_was_not_measured_is_refused(samples: list[float]) -> None:
    with pytest.raises(ValueError):
        summarize(samples)


@given(st.lists(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=6), max_size=12))
def test_medians_of_many_points_are_those_of_each(points: list[list[float]]) -> None:
    assert medians([value for point in points for value in point], list(map(len, points))) == list(map(median, points))
