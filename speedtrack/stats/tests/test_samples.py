"""Counts of samples: what differs is told from the chance of sampling."""

import numpy as np
import pytest

from speedtrack.stats.comparing.samples import differing_counts


def test_few_samples_show_nothing_and_many_do() -> None:
    assert differing_counts([0, 0, 100, 100], [4, 40, 110, 200], 1.0, 1.0, 0.01) == [False, True, False, True]


def test_a_sample_of_each_side_stands_for_its_own_cost() -> None:
    """Twice the samples at half the cost are the same cost."""
    assert differing_counts([500, 500], [1000, 500], 1.0, 0.5, 0.01) == [False, True]


@pytest.mark.parametrize(("base", "head"), [([], []), ([0], [0])])
def test_without_samples_nothing_differs(base: list[int], head: list[int]) -> None:
    assert differing_counts(base, head, 1.0, 1.0, 0.01) == [False] * len(base)


def test_the_chance_of_any_false_difference_is_below_the_level() -> None:
    random = np.random.default_rng(7)
    rates = random.uniform(0.5, 80, 60)
    false = sum(any(differing_counts(*random.poisson(rates, (2, 60)).tolist(), 1.0, 1.0, 0.05)) for _ in range(400))
    assert false <= 30  # 20 are expected at most
