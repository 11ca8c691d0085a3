from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from speedtrack.stats.arrays import Array
from speedtrack.stats.comparing.sequential import FEWEST, change_evidence, level_evidence, step_noise

LEVEL = 0.01
Noise = Callable[[np.random.Generator, tuple[int, int]], Array]
SUSPICIONS = 10_000  # so many that 1.75% of them are told from 1%
LOOKS = (6, 7, 8, 9, 11, 14, 20, 30)  # pairs


def slots(effect: float) -> Noise:
    """One slot of a pair differs from the other by so many deviations of the noise; which side has it is drawn."""
    return lambda rng, size: effect * rng.choice([-1.0, 1.0], size) + rng.normal(size=size)


def autocorrelated(rng: np.random.Generator, size: tuple[int, int]) -> Array:
    """Each step is like the one before it (AR(1), 0.7), its sign drawn by the order of its pair."""
    found = rng.normal(size=size)
    for i in range(1, size[1]):
        found[:, i] = 0.7 * found[:, i - 1] + math.sqrt(1 - 0.7**2) * found[:, i]
    return found * rng.choice([-1.0, 1.0], size)


def aborted(rng: np.random.Generator, size: tuple[int, int]) -> Array:
    """Slow trials end before their time, so that their pairs are missing."""
    sides = rng.exponential(size=(*size, 2))
    kept = (sides < 2).all(axis=2)
    order = np.argsort(~kept, axis=1, kind="stable")
    steps = np.where(kept, sides[..., 1] - sides[..., 0], 0.0)
    return np.take_along_axis(steps, order, axis=1)


NOISES: dict[str, Noise] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails": lambda rng, size: rng.standard_t(2, size),
    "Cauchy": lambda rng, size: rng.standard_cauchy(size),
    "two levels": lambda rng, size: rng.choice([-1.0, 0.0, 1.0], size) + 0.01 * rng.normal(size=size),
    "a level that is seldom visited": lambda rng, size: (
        0.1 * rng.normal(size=size) + np.diff(rng.random((*size, 2)) < 0.1, axis=2)[..., 0] * rng.choice([-1, 1], size)
    ),
    "growing": lambda rng, size: rng.normal(size=size) * np.exp(np.arange(size[1]) / 20),
    "bursts": lambda rng, size: rng.normal(size=size) * np.where(rng.random(size) < 0.1, 10, 1),
    "drifting": lambda rng, size: (0.3 * np.arange(size[1]) + rng.normal(size=size)) * rng.choice([-1.0, 1.0], size),
    "autocorrelated": autocorrelated,
    "aborted": aborted,
    **{f"slots of {effect:g}": slots(effect) for effect in (0.5, 3.0, 15.0, 1000.0)},
}


def crossed(evidence: Callable[[Array], Array], rows: Array, level: float = LEVEL) -> Array:
    """Which rows ever have enough evidence for the level, looked at more and more seldom."""
    found = np.zeros(len(rows), dtype=bool)
    for n in (n for n in LOOKS if FEWEST <= n <= rows.shape[1]):
        found |= evidence(rows[:, :n]) >= -math.log(level)
    return found


SIZES = {
    "equal": [1.0] * 11,
    "nearly equal": [1.0, 1.001, 0.999, 1.002, 0.998, 1.0005, 0.9995, 1.003, 0.997, 1.0015, 0.9985],
    "unequal": [0.3, 5.0, 0.01, 1.0, 1.1, 0.9, 40.0, 0.2, 1.3, 0.7, 2.0],
    "growing": [1.5**k for k in range(11)],
}


def all_orders(sizes: Sequence[float]) -> Array:
    return np.array(sizes) * np.array(list(itertools.product([-1.0, 1.0], repeat=len(sizes))))


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("effect", [0.1, 0.5, 3.0])
def test_the_evidence_is_fair_for_any_sizes(kind: str, effect: float) -> None:
    """Over all orders of the pairs its mean is 1: whatever the noise and the slots, nothing is gained."""
    rows = all_orders(SIZES[kind])
    for n in (FEWEST, 8, 11):
        assert np.exp(change_evidence(rows[:, :n], effect)).mean() == pytest.approx(1)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("level", [0.05, 0.01, 0.002])
def test_of_all_orders_of_the_pairs_at_most_the_level_is_confirmed(kind: str, level: float) -> None:
    for effect in (0.01, 0.3, 3.0):
        confirmed = crossed(lambda some, by=effect: change_evidence(some, by), all_orders(SIZES[kind]), level)  # type: ignore[misc]
        assert confirmed.mean() <= level


def test_no_pairs_give_more_evidence_than_their_signs_allow() -> None:
    for n in (FEWEST, 12, 40):
        rows = np.array([[1.0] * n, list(np.linspace(0.99, 1.01, n)), [1e9] * n, list(np.arange(1.0, n + 1))])
        assert (change_evidence(rows, 0.01) <= n * math.log(2) + 1e-9).all()


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("effect", [0.3, 1.0])
def test_the_level_holds_however_often_one_looks(kind: str, effect: float) -> None:
    rows = NOISES[kind](np.random.default_rng(2), (SUSPICIONS, LOOKS[-1]))
    wrong = int(crossed(lambda some: change_evidence(some, effect), rows).sum())
    assert wrong <= stats.binom.ppf(0.999, SUSPICIONS, LEVEL)


def test_so_many_suspicions_show_a_level_of_1_75_per_cent() -> None:
    assert stats.binom.cdf(stats.binom.ppf(0.999, SUSPICIONS, LEVEL), SUSPICIONS, 0.0175) < 0.001


def test_seven_clear_pairs_are_enough_and_the_other_direction_never_is() -> None:
    rows = 0.2 + 0.024 * np.random.default_rng(3).normal(size=(200, FEWEST))
    assert (change_evidence(rows, 0.05) >= -math.log(LEVEL)).mean() > 0.98
    assert (change_evidence(-rows, 0.05) < 0).all()


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_evidence_does_not_depend_on_the_unit(scale: float) -> None:
    rows = np.random.default_rng(4).normal(0.3, 1, (50, 30))
    assert change_evidence(scale * rows, scale * 0.5) == pytest.approx(change_evidence(rows, 0.5))
    assert level_evidence(scale * rows, scale * 0.5) == pytest.approx(level_evidence(rows, 0.5))


def test_one_outlier_takes_little_evidence_away() -> None:
    rows = np.random.default_rng(5).normal(1, 1, (1, 40))
    wild = rows.copy()
    wild[0, 30] = -1e6
    assert change_evidence(wild, 1.0)[0] > change_evidence(rows, 1.0)[0] - 8
    assert level_evidence(wild, 1.0)[0] > level_evidence(rows, 1.0)[0] - 8


def test_equal_steps_have_an_answer_in_numbers() -> None:
    for steps in (0.0, 0.2, 1e9, -5.0):
        rows = np.full((1, 12), steps)
        assert np.isfinite([change_evidence(rows, 0.01)[0], level_evidence(rows, 0.01)[0]]).all()
    assert level_evidence(np.zeros((1, 6)), 0.01)[0] < -100
    assert change_evidence(np.full((1, 6), 0.2), 0.01)[0] > 4


def test_the_noise_of_rows_is_that_of_each_row() -> None:
    rows = np.random.default_rng(6).normal(size=(20, 11))
    assert step_noise(rows) == pytest.approx([float(step_noise(row)) for row in rows])
