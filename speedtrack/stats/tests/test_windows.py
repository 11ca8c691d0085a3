from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage, stats

from speedtrack.stats.arrays import Array
from speedtrack.stats.changes.windows import (
    AFTER,
    MEAN_ROOT_NORMAL,
    Sensitivity,
    _largest,
    newest_means,
    quanta,
    rolling_means,
    shifts,
    trial_errors,
    yardsticks,
)

NOISE = np.random.default_rng(1).normal(size=400)


@pytest.mark.parametrize(("width", "trim"), [(1, 0.28), (5, 0.28), (40, 0.2), (64, 0.0)])
def test_rolling_means_are_trimmed_means(width: int, trim: float) -> None:
    level = NOISE[:100]
    means = rolling_means(level, width, trim)
    for end in range(1, 101):
        assert means[end - 1] == pytest.approx(stats.trim_mean(level[max(0, end - width) : end], trim))


def test_shifts_compare_the_newest_points_with_those_before() -> None:
    level = np.array([1.0] * 20 + [3.0] * 10)
    table = shifts(level, newest_means(level, 0.28), Sensitivity())
    column = AFTER.tolist().index(4)
    assert table.size[23, column] == 2.0
    assert table.size[19, column] == 0.0
    assert np.isnan(table.size[3, column])
    assert table.weight[23, column] == pytest.approx((1 / 4 + 1 / 20) ** -0.5)


def test_largest_is_the_sliding_maximum_of_the_rows_before() -> None:
    values = np.abs(NOISE).reshape(100, 4)
    top = _largest(values, 37)
    expected = ndimage.maximum_filter1d(values, 37, axis=0, origin=18, mode="constant")
    assert top[0].tolist() == [0.0] * 4
    assert np.array_equal(top[1:], expected)


def test_mean_root_of_a_normal_variable() -> None:
    assert stats.norm.expect(lambda x: np.sqrt(abs(x)), lb=-12, ub=12) == pytest.approx(MEAN_ROOT_NORMAL, rel=1e-3)


def test_yardsticks_grow_with_the_noise_and_with_serial_correlation() -> None:
    sensitivity = Sensitivity()

    def last(level: Array) -> Array:
        table = shifts(level, newest_means(level, sensitivity.trim), sensitivity)
        limits: Array = yardsticks(table, np.empty((0, len(AFTER))), sensitivity)[-1]
        return limits

    white = last(NOISE)
    assert last(3 * NOISE) == pytest.approx(3 * white)
    smooth = ndimage.uniform_filter1d(NOISE, 7)
    column = AFTER.tolist().index(8)
    assert last(smooth / smooth.std())[column] > 1.3 * white[column]


def test_yardsticks_use_nothing_that_came_later() -> None:
    sensitivity = Sensitivity()
    past = np.empty((0, len(AFTER)))
    whole, part = NOISE.copy(), NOISE[:300]
    whole[300:] += 50
    tables = [shifts(level, newest_means(level, 0.28), sensitivity) for level in (whole, part)]
    early, late = (yardsticks(table, past, sensitivity)[:300] for table in tables)
    assert np.array_equal(early, late, equal_nan=True)


def test_trial_errors_add_up_over_windows() -> None:
    errors = trial_errors(np.array([3.0, 3.0, 3.0, 3.0, 4.0]), before=40)
    assert errors[4, 0] == pytest.approx((4.0**2 + 3.0**2 / 4) ** 0.5)
    assert np.isnan(errors[0, 0])
    assert np.isnan(trial_errors(np.array([3.0, np.nan, 3.0, 3.0]), before=2)[2, 0])
    assert not np.isnan(trial_errors(np.array([np.nan, 3.0, 3.0, 3.0]), before=2)[3, 0])


def test_quanta_are_the_smallest_steps_once_there_were_some() -> None:
    assert quanta(np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0, 2.0])).tolist() == [0, 0, 0, 0, 0, 1.0, 1.0]
    assert quanta(np.array([5.0] * 10 + [6.0] * 10)).tolist() == [0.0] * 20
