from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from speedtrack.stats.comparing.ranks import midranks, rank_sum_p

tied = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=5)


@pytest.mark.parametrize(("n", "m", "shift"), [(3, 4, 0.0), (5, 5, 1.0), (8, 12, 0.5), (30, 40, 0.2)])
def test_rank_sum_is_the_exact_mann_whitney(n: int, m: int, shift: float) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=n), rng.normal(shift, size=m)
    assert rank_sum_p(a.tolist(), b.tolist()) == pytest.approx(stats.mannwhitneyu(a, b, method="exact").pvalue)


@given(tied, tied)
def test_rank_sum_with_ties_is_the_share_of_divisions_as_far_out(a: list[float], b: list[float]) -> None:
    ranks = stats.rankdata(a + b)
    sums = np.array([sum(ranks[list(chosen)]) for chosen in itertools.combinations(range(len(ranks)), len(a))])
    out = np.abs(sums - sums.mean()) >= abs(ranks[: len(a)].sum() - sums.mean()) - 1e-9
    assert rank_sum_p(a, b) == pytest.approx(out.mean())


def test_rank_sum_of_many_values_is_the_usual_approximation() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 30, 90).astype(float), rng.integers(1, 31, 80).astype(float)
    expected = stats.mannwhitneyu(a, b, method="asymptotic").pvalue
    assert rank_sum_p(a.tolist(), b.tolist()) == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.integers(0, 5).map(float), min_size=1, max_size=20))
def test_midranks_are_those_of_scipy(values: list[float]) -> None:
    assert midranks(np.array(values)).tolist() == stats.rankdata(values).tolist()


def test_nothing_to_rank_is_no_surprise() -> None:
    assert rank_sum_p([], [1.0]) == 1.0
    assert rank_sum_p([1.0] * 100, [1.0] * 100) == 1.0
