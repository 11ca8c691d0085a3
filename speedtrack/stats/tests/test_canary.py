"""The canary's test, by simulation. The figures are those of seeded noise: they do not depend on the machine."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from speedtrack.stats.noise.canary import FEWEST, IN_A_ROW, CanaryAnswer, judge_canary

Array = NDArray[np.float64]
EFFECT = 0.02


def moved(values: Array) -> int | None:
    """The index of the canary run at which the machine is quarantined; None: never."""
    history: list[float] = []
    off = 0
    for place, value in enumerate(values):
        off = off + 1 if judge_canary(history, float(value), EFFECT).answer == CanaryAnswer.OFF else 0
        if off == IN_A_ROW:
            return place
        if not off:
            history.append(float(value))
    return None


def noise(kind: str, sigma: float, seed: int, n: int) -> Array:
    chance = np.random.default_rng(seed)
    draw: dict[str, Callable[[], Array]] = {
        "normal": lambda: chance.standard_normal(n),
        "heavy": lambda: chance.standard_t(4, n) / np.sqrt(2),
        "spikes": lambda: chance.standard_normal(n) + 8 * (chance.random(n) < 0.03),
    }
    return np.asarray(1000 * np.exp(sigma * draw[kind]()))


def test_little_history_says_nothing() -> None:
    verdict = judge_canary([100.0] * (FEWEST - 1), 200.0, EFFECT)
    assert (verdict.answer, round(verdict.ratio, 9), verdict.limit) == (CanaryAnswer.LEARNING, 2.0, None)
    assert judge_canary([], 5.0, EFFECT).ratio == 1.0


def test_equal_values_leave_the_smallest_effect_as_the_limit() -> None:
    history = [100.0] * FEWEST
    assert judge_canary(history, 101.9, EFFECT).answer == CanaryAnswer.STEADY
    assert judge_canary(history, 102.1, EFFECT).answer == CanaryAnswer.OFF
    assert judge_canary(history, 97.0, EFFECT).answer == CanaryAnswer.OFF
    assert judge_canary(history, 102.1, EFFECT).limit == pytest.approx(EFFECT)


def test_noise_widens_the_limit_and_odd_values_hardly_do() -> None:
    steady = list(noise("normal", 0.01, 1, 40))
    odd = [*steady[:30], *[2000.0] * 5, *steady[30:]]
    plain, spoilt = judge_canary(steady, 1000.0, EFFECT), judge_canary(odd, 1000.0, EFFECT)
    assert plain.limit and spoilt.limit
    assert 0.03 < plain.limit < spoilt.limit < 1.6 * plain.limit


@pytest.mark.parametrize("kind", ["normal", "heavy", "spikes"])
@pytest.mark.parametrize("sigma", [0.002, 0.02])
def test_a_steady_machine_is_not_quarantined(kind: str, sigma: float) -> None:
    """100 machines, 120 canaries each (ten days of one every two hours): at most one is ever held to have moved."""
    assert sum(moved(noise(kind, sigma, seed, 120)) is not None for seed in range(100)) <= 1


@pytest.mark.parametrize(("step", "sigma", "least"), [(0.03, 0.002, 1.0), (0.03, 0.004, 0.8), (0.05, 0.006, 0.9)])
def test_a_step_is_found_as_soon_as_it_can_be(step: float, sigma: float, least: float) -> None:
    found = 0
    for seed in range(200):
        values = noise("normal", sigma, seed, 40 + IN_A_ROW)
        values[40:] *= 1 + step
        found += moved(values) == 39 + IN_A_ROW
    assert found >= least * 200


@pytest.mark.parametrize(("slope", "most"), [(0.0001, 1.03), (0.0005, 1.06)])
def test_a_slow_drift_is_found(slope: float, most: float) -> None:
    """A level that followed the newest values would never show it."""
    for seed in range(20):
        values = noise("normal", 0.002, seed, 400) * (1 + slope * np.arange(400))
        place = moved(values)
        assert place is not None and 1 + slope * place < most


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        judge_canary([1.0] * FEWEST, float("nan"), EFFECT)
