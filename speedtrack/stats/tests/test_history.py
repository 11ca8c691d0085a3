import itertools
import math

import numpy as np
import pytest

from speedtrack.stats.changes import history
from speedtrack.stats.changes.changepoint import Point
from speedtrack.stats.changes.history import SeriesReplay, history_verdicts


def line(seed: int, steps: dict[int, float], n: int = 160, sigma: float = 0.015) -> list[Point]:
    """Single trials of normal noise about 100, with relative steps from these points on."""
    level = np.zeros(n)
    for at, ratio in steps.items():
        level[at:] += math.log(ratio)
    noise = np.random.default_rng(seed).normal(0, sigma, n)
    return [Point((float(v),)) for v in 100 * np.exp(level + noise)]


@pytest.mark.parametrize("seed", range(6))
def test_a_clear_step_is_found_at_its_place_and_its_size_is_told(seed: int) -> None:
    (found,) = history_verdicts(line(seed, {90: 1.08}), smallest_effect=0.01)
    assert abs(found.index - 90) <= 1
    assert found.first <= found.index <= found.last
    assert found.low < 1.08 < found.high
    assert 95 <= found.seen <= 105


def test_noise_alone_has_next_to_no_verdict() -> None:
    found = [verdict for seed in range(20) for verdict in history_verdicts(line(seed, {}), smallest_effect=0.01)]
    assert len(found) <= 1  # of 3200 points: 0.3 per 1000


def test_what_was_reported_stays_whatever_comes_later() -> None:
    points = line(3, {60: 1.1, 100: 0.9})
    replay, reports = SeriesReplay(), []
    for index, point in enumerate(points):
        reports.append(list(replay.push(index, point.values)))
    assert [len(report) for report in reports] == sorted(len(report) for report in reports)
    assert all(later[: len(report)] == report for report, later in itertools.pairwise(reports))
    assert [direction for _, direction in reports[-1]] == [1, -1]


def test_one_point_at_a_time_says_the_same_as_all_at_once() -> None:
    points = line(5, {60: 1.1, 120: 1.07})
    whole = history_verdicts(points, smallest_effect=0.01)
    single: list[history.HistoryVerdict] = []
    for seen in range(len(points)):
        settled = [one.index for one in single]
        single += history_verdicts(points[: seen + 1], smallest_effect=0.01, settled=settled, since=seen)
    assert single == whole
    assert len(whole) == 2


def test_a_wild_point_and_a_short_spike_are_no_change() -> None:
    points = line(1, {})
    for at in (50, 51, 52, 100):
        points[at] = Point((points[at].values[0] * 1.5,))
    assert history_verdicts(points, smallest_effect=0.01) == []


def test_a_step_below_the_smallest_effect_is_none() -> None:
    points = line(2, {80: 1.02}, sigma=0.002)
    assert history_verdicts(points, smallest_effect=0.05) == []
    assert len(history_verdicts(points, smallest_effect=0.01)) == 1


def test_a_level_visited_twice_before_must_last_longer_than_its_visits() -> None:
    steps = {30: 1.1, 34: 1 / 1.1, 50: 1.1, 54: 1 / 1.1, 90: 1.1}
    found = history_verdicts(line(4, steps), smallest_effect=0.01)
    assert [abs(one.index - 90) <= 1 for one in found] == [True]


@pytest.mark.parametrize("values", [[5.0] * 60, [0.0] * 60, [-3.0, 2.0] * 30, [], [1.0]])
def test_odd_series_have_no_verdict(values: list[float]) -> None:
    assert history_verdicts([Point((value,)) for value in values], smallest_effect=0.01) == []


def test_a_step_from_zero_is_told_on_the_linear_scale() -> None:
    (found,) = history_verdicts([Point((0.0,))] * 40 + [Point((4.0,))] * 40, smallest_effect=0.01)
    assert found.index == 40
    assert found.ratio > 1
