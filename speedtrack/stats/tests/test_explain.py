import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedtrack.stats.changes.changepoint import Point, suspect_shifts
from speedtrack.stats.changes.explain import (
    LevelLine,
    Limit,
    explain_place,
    smallest_visible_change,
    smallest_visible_changes,
)
from speedtrack.stats.noise.noise import APART, SHARE, line_noise


def line(n: int, step: float = 0.0, at: int = 0, spread: float = 0.01, seed: int = 1) -> list[Point]:
    """Points of five trials; each point has a level of its own, with a step from ``at`` on."""
    rng = random.Random(seed)
    points = []
    for i in range(n):
        level = 100 * (1 + rng.gauss(0, spread)) * (1 + step if i >= at else 1)
        points.append(Point(tuple(level * (1 + rng.gauss(0, 0.003)) for _ in range(5))))
    return points


@pytest.mark.parametrize("seed", range(8))
def test_where_suspect_saw_a_shift_the_reason_is_suspicious(seed: int) -> None:
    points = line(80, step=0.08, at=50, seed=seed)
    shift = next(shift for shift in suspect_shifts(points) if abs(shift.index - 50) <= 2)
    reason = explain_place(points, shift.index, smallest_effect=0.01)
    assert reason and reason.suspicious
    assert reason.score >= shift.score * 0.99 or reason.agreement > 0.9
    assert 1.05 < reason.ratio < 1.11


@pytest.mark.parametrize("seed", range(8))
def test_where_suspect_saw_nothing_no_place_is_suspicious(seed: int) -> None:
    points = line(60, spread=0.001, seed=seed)
    assert suspect_shifts(points) == []
    reasons = [explain_place(points, place, smallest_effect=0.01) for place in range(1, 60)]
    assert not any(reason.suspicious for reason in reasons if reason)


@pytest.mark.parametrize(
    ("spread", "step", "limit"),
    [(0.0001, 0.005, Limit.EFFECT), (0.02, 0.02, Limit.NOISE)],
)
def test_the_reason_names_what_it_did_not_exceed(spread: float, step: float, limit: Limit) -> None:
    rng = random.Random(3)
    level = [100 * (1 + rng.gauss(0, spread)) * (1 + step if i >= 40 else 1) for i in range(60)]
    points = [Point((value,)) for value in level]
    reason = explain_place(points, 40, smallest_effect=0.03)
    assert reason and not reason.suspicious and reason.limited_by == limit


def test_single_trials_of_a_young_line_are_held_against_nothing() -> None:
    points = [Point((100.0,))] * 3 + [Point((150.0,))] * 3
    reason = explain_place(points, 3, smallest_effect=0.01)
    assert reason and not reason.suspicious and reason.limited_by == Limit.HISTORY


@pytest.mark.parametrize("place", [0, 5, 99, -1])
def test_no_place_has_no_reason(place: int) -> None:
    assert explain_place(line(5), place, smallest_effect=0.01) is None


def test_after_a_shift_only_the_new_level_counts() -> None:
    points = line(90, step=0.3, at=30)
    without = explain_place(points, 60, smallest_effect=0.01)
    since = explain_place(points, 60, smallest_effect=0.01, since=30)
    assert without and since
    assert abs(since.ratio - 1) < abs(without.ratio - 1) + 0.02 and not since.suspicious
    assert explain_place(points, 30, smallest_effect=0.01, since=30) is None


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.03])
def test_a_change_as_large_as_the_sight_is_suspected_and_one_of_a_third_is_not(spread: float) -> None:
    found = {1.3: 0, 0.33: 0}
    for seed in range(10):
        before = line(60, spread=spread, seed=seed)
        levels = [math.log(sorted(point.values)[2]) for point in before]
        seen = smallest_visible_change(levels, [math.nan] * 60, smallest_effect=0.001)
        assert seen
        for times in found:
            step = times * seen.smallest
            rng = random.Random(seed + 100)
            after = [
                Point(tuple(100 * (1 + step) * (1 + rng.gauss(0, spread)) for _ in range(1)))
                for _ in range(seen.after * 2)
            ]
            shifts = suspect_shifts([*before, *after], smallest_effect=0.001)
            found[times] += any(shift.seen >= 60 and shift.index >= 55 for shift in shifts)
    assert found[1.3] >= 8 and found[0.33] <= 2


def test_a_line_of_one_point_sees_nothing() -> None:
    assert smallest_visible_change([1.0], [0.1], smallest_effect=0.01) is None


level_lines = st.builds(
    lambda points, is_rounded, effect: LevelLine(
        [round(level, 1) if is_rounded else level for level, _ in points], [error for _, error in points], effect
    ),
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 0.1) | st.just(math.nan)), max_size=90),
    st.booleans(),
    st.floats(0.0001, 0.1),
)


@given(st.lists(level_lines, max_size=5))
def test_many_lines_at_once_see_what_each_sees_by_itself(lines: list[LevelLine]) -> None:
    """Shorter lines are filled up to the longest one."""
    for alone, change in zip(lines, smallest_visible_changes(lines * 15), strict=False):
        assert change == smallest_visible_change(alone.level, alone.error, smallest_effect=alone.smallest_effect)


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_one_level_has_one_mode_and_the_size_that_it_has(seed: int) -> None:
    rng = random.Random(seed)
    noise = line_noise([rng.gauss(0, 0.02) for _ in range(100)], [0.004] * 100)
    assert noise and noise.modes is None
    assert 0.012 < noise.between < 0.03 and noise.within == pytest.approx(0.004)
    assert noise.runs_differ_more


def test_two_levels_by_turns_are_found_and_a_step_is_not_taken_for_them() -> None:
    rng = random.Random(1)
    turns = [(0.1 if (i // 7) % 2 else 0.0) + rng.gauss(0, 0.005) for i in range(60)]
    noise = line_noise(turns, [math.nan] * 60)
    assert noise and noise.modes == pytest.approx(0.1, abs=0.01)
    step = [(0.1 if i > 30 else 0.0) + rng.gauss(0, 0.005) for i in range(60)]
    once = line_noise(step, [math.nan] * 60)
    assert once and once.modes is None


def test_gaussian_noise_is_hardly_ever_called_two_levels() -> None:
    rng = random.Random(5)
    lines = [[rng.gauss(0, 1) for _ in range(40)] for _ in range(300)]
    assert sum(line_noise(line, [math.nan] * 40).modes is not None for line in lines) <= 3  # type: ignore[union-attr]


def modes_by_two_variances(values: list[float]) -> float | None:
    """The same answer by its definition: of all splits, the one with the least variance within."""
    ordered, n = np.sort(values), len(values)
    least = max(2, math.ceil(SHARE * n))
    at = min(range(least, n - least + 1), key=lambda k: np.var(ordered[:k]) * k + np.var(ordered[k:]) * (n - k))
    low, high = ordered[:at], ordered[at:]
    apart, spread = high.mean() - low.mean(), math.sqrt((low.var(ddof=1) + high.var(ddof=1)) / 2)
    turns = np.count_nonzero(np.diff(np.array(values) > (low.mean() + high.mean()) / 2))
    return float(apart) if apart > APART * spread and turns >= 3 else None


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(16, 120),
    gap=st.floats(0, 12),
    share=st.floats(0, 1),
    level=st.sampled_from([0.0, 8.5, -3e4]),
)
def test_two_levels_are_those_of_the_split_with_the_least_variance_within(
    seed: int, n: int, gap: float, share: float, level: float
) -> None:
    rng = np.random.default_rng(seed)
    values = (level + 0.01 * (rng.normal(size=n) + gap * (rng.random(n) < share))).tolist()
    noise = line_noise(values, [math.nan] * n)
    wanted = modes_by_two_variances(values)
    assert noise and noise.modes == (wanted if wanted is None else pytest.approx(wanted, rel=1e-9))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_few_points_have_no_noise(n: int) -> None:
    assert line_noise([1.0] * n, [0.1] * n) is None


def test_a_constant_line_has_none() -> None:
    noise = line_noise([1.0] * 30, [0.0] * 30)
    assert noise and (noise.between, noise.within, noise.modes) == (0.0, 0.0, None)
