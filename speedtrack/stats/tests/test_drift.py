import numpy as np
import pytest

from speedtrack.stats.drift import LEVEL, drifted, has_grown


def medians(rng: np.random.Generator, per_commit: float, count: int) -> list[float]:
    """Medians of five trials with a spread of 1.7%, of commits each slower than the last."""
    levels = 100 * (1 + per_commit) ** np.arange(count)
    return [float(np.median(level * rng.normal(1, 0.017, 5))) for level in levels]


def first_seen(values: list[float]) -> int | None:
    """The commit at which the drift since the first level is seen."""
    for now in range(2 * LEVEL, len(values) + 1):
        if drifted(values[:LEVEL], values[now - LEVEL : now], smallest_effect=0.01):
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
    found = drifted(old, new, smallest_effect=0.01)
    assert found is not None
    assert found.low < 1.1 < found.high
    assert drifted(old, new, smallest_effect=0.01, explained=1.1) is None


def test_few_points_and_values_of_zero_are_answered() -> None:
    assert drifted([1.0] * 4, [2.0] * 8, smallest_effect=0.01) is None
    assert drifted([0.0] * 8, [0.0] * 8, smallest_effect=0.01) is None
    assert drifted([0.0] * 8, [1.0] * 8, smallest_effect=0.01) is not None


@pytest.mark.parametrize(
    ("ratio", "before", "grown"), [(1.044, 1.03, False), (1.046, 1.03, True), (1.25, 1.2, False), (1.27, 1.2, True)]
)
def test_a_drift_is_looked_at_again_once_it_has_grown_by_half_or_by_a_twentieth(
    ratio: float, before: float, grown: bool
) -> None:
    assert has_grown(ratio, before) is grown
