"""Many comparisons at once, the mean of their ratios, and histograms of latencies."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedtrack.stats.comparing.compare import IndependentSets, compare_many, compare_samples
from speedtrack.stats.comparing.totals import mean_ratio
from speedtrack.stats.histogram import Histogram, decode
from speedtrack.tests.latencies import encoded

GOLDEN = Path(__file__).resolve().parents[3] / "runners" / "driver" / "tests" / "golden" / "speedbench.v1.json"
values = st.one_of(st.integers(95, 105).map(float), st.floats(1.0, 300.0))
Trials = tuple[float, ...]
sides = st.tuples(*(st.lists(values, min_size=1, max_size=9).map(tuple) for _ in range(2)))


@given(st.lists(st.tuples(sides, st.floats(0.001, 0.2)), max_size=6))
def test_many_comparisons_at_once_answer_as_one_by_one(
    asked: list[tuple[tuple[Trials, Trials], float]],
) -> None:
    sets = [IndependentSets(*both, effect, seed) for seed, (both, effect) in enumerate(asked)]
    for one, found in zip(sets, compare_many(sets), strict=True):
        alone = compare_samples(one.before, one.after, smallest_effect=one.smallest_effect, seed=one.seed)
        assert (found.answer, found.n) == (alone.answer, alone.n)
        shown, expected = ([c.ratio, c.low, c.high, c.p] for c in (found, alone))
        assert shown == pytest.approx(expected, rel=1e-12)


def test_values_of_zero_are_compared_as_one_by_one() -> None:
    one = IndependentSets((0.0, 0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 2.0, 1.0, 1.0), 0.05, 3)
    assert compare_many([one]) == [compare_samples(one.before, one.after, smallest_effect=0.05, seed=3)]


def test_the_mean_of_ratios_is_geometric_and_surer_than_each() -> None:
    found = mean_ratio([(2.0, 1.8, 2.2), (0.5, 0.45, 0.55), (0.0, -1.0, 1.0)])
    assert found
    assert found.n == 2
    assert found.ratio == pytest.approx(1.0)
    assert 0.9 < found.low < 0.94
    assert mean_ratio([(0.0, 0.0, 0.0)]) is None


def test_histograms_of_the_driver_have_the_percentiles_that_it_reports() -> None:
    shares = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
    for test in json.loads(GOLDEN.read_text())["tests"]:
        found = decode(test["latency_hdr_v2"])
        assert found.total == pytest.approx(test["requests"], rel=0.001)  # and those that were under way
        reported = [1000 * test["latency_us"][name] for name in shares]
        assert found.quantiles(list(shares.values())).tolist() == pytest.approx(reported, rel=0.004)


def test_merged_histograms_hold_all_values() -> None:
    some = [Histogram(np.array([1.0, 5.0]), np.array([2.0, 2.0])), Histogram(np.array([3.0]), np.array([4.0]))]
    merged = Histogram.merged(some)
    assert merged.total == 8
    assert merged.quantiles([0.0, 0.25, 0.5, 1.0]).tolist() == [1.0, 1.0, 3.0, 5.0]


def test_every_value_of_a_histogram_has_a_logarithm() -> None:
    assert decode(encoded([0, 0, 1, 2047, 2048, 10**13])).values.tolist() == pytest.approx(
        [1, 1, 2047, 2049, 1e13], rel=0.001
    )
    with pytest.raises(ValueError, match="too large"):
        decode(encoded([10**18]))


@pytest.mark.parametrize("text", ["", "HISTFAAA", "not base64 ✓", "AAAA" * 20, "HISTFAAACVF4nD1YD2Sc2RbPd2d"])
def test_what_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a compressed HdrHistogram"):
        decode(text)
