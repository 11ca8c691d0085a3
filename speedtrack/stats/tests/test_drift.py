import numpy as np
import pytest

from speedtrack.stats.changes.drift import FRESH, LEVEL, drift_since, fresh_step, has_grown


def medians(rng: np.random.Generator, per_commit: float, count: int) -> list[float]:
    """Medians of five trials with a spread of 1.7%, of commits each slower than the last."""
    levels = 100 * (1 + per_commit) ** np.arange(count)
    return [float(np.median(level * rng.normal(1, 0.017, 5))) for level in levels]


def first_seen(values: list[float]) -> int | None:
    """The commit at which the drift since the first level is seen."""
    for now in range(2 * LEVEL, len(values) + 1):
        if drift_since(values[:LEVEL], values[now - LEVEL : now], smallest_effect=0.01):
            return now - 1
    return None


@pytest.mark.parametrize("seed", range(10))
def test_small_steps_are_seen_before_they_sum_to_a_tenth(seed: int) -> None:
    at = first_seen(medians(np.random.default_rng(seed), 0.003, 60))
    assert at is not None
    assert 1.003**at < 1.10


def test_a_steady_level_drifts_seldom() -> None:
    seen = [first_seen(medians(np.random.default_rng(seed), 0.0, 160)) for seed in range(100)]
    assert sum(at is not None for at in seen) <= 10  # of 14,500 looks; each costs pairs, not a mail


def test_what_a_step_explains_is_no_drift() -> None:
    old, new = [100.0, 100.5, 99.5, 100.2, 99.8], [110.0, 110.5, 109.5, 110.2, 109.8]
    found = drift_since(old, new, smallest_effect=0.01)
    assert found is not None
    assert found.low < 1.1 < found.high
    assert drift_since(old, new, smallest_effect=0.01, explained=1.1) is None


def test_few_points_and_values_of_zero_are_answered() -> None:
    assert drift_since([1.0] * 4, [2.0] * 8, smallest_effect=0.01) is None
    assert drift_since([0.0] * 8, [0.0] * 8, smallest_effect=0.01) is None
    assert drift_since([0.0] * 8, [1.0] * 8, smallest_effect=0.01) is not None


@pytest.mark.parametrize(
    ("ratio", "before", "grown"), [(1.044, 1.03, False), (1.046, 1.03, True), (1.25, 1.2, False), (1.27, 1.2, True)]
)
def test_a_drift_is_looked_at_again_once_it_has_grown_by_half_or_by_a_twentieth(
    ratio: float, before: float, grown: bool
) -> None:
    assert has_grown(ratio, before) is grown


@pytest.mark.parametrize("seed", range(10))
def test_a_ramp_is_no_fresh_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert fresh_step(medians(rng, 0.0, 40) + medians(rng, 0.003, 30)) == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_step_is_fresh_until_it_should_have_been_suspected(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = medians(rng, 0.0, 60) + [1.06 * value for value in medians(rng, 0.0, 90)]
    assert all(1.045 < fresh_step(values[:now]) < 1.075 for now in range(66, 60 + FRESH))
    assert 0.98 < fresh_step(values) < 1.02


def test_lines_without_a_level_have_no_fresh_step() -> None:
    assert fresh_step([100.0] * 80) == 1
    assert fresh_step([100.0] * 8) == 1
    assert fresh_step([0.0] * 40 + [1.0] * 20) == 2  # one unit more
