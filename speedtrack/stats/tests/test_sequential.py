from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from speedtrack.stats.arrays import Array
from speedtrack.stats.sequential import FEWEST, _signs, _student, change_evidence, level_evidence, step_noise

LEVEL = 0.01
Noise = Callable[[np.random.Generator, tuple[int, int]], Array]
NOISES: dict[str, Noise] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails": lambda rng, size: rng.standard_t(2, size),
    "two levels": lambda rng, size: rng.choice([-1.0, 0.0, 1.0], size) + 0.01 * rng.normal(size=size),
    "growing": lambda rng, size: rng.normal(size=size) * np.exp(np.arange(size[1]) / 20),
    "bursts": lambda rng, size: rng.normal(size=size) * np.where(rng.random(size) < 0.1, 10, 1),
}


def crossed(evidence: Callable[[Array], Array], rows: Array) -> Array:
    """Which rows ever have enough evidence for the level, looked at after every second pair."""
    found = np.zeros(len(rows), dtype=bool)
    for n in range(FEWEST, rows.shape[1] + 1, 2):
        found |= evidence(rows[:, :n]) >= -math.log(LEVEL)
    return found


@pytest.mark.parametrize("effect", [0.1, 0.5, 3.0])
def test_bets_on_signs_are_fair_for_any_sizes(effect: float) -> None:
    """Over all sign patterns of ten sizes the mean of the evidence is 1: whatever the noise, nothing is gained."""
    sizes = np.array([0.3, 5.0, 0.01, 1.0, 1.1, 0.9, 40.0, 0.2, 1.3, 0.7])
    rows = sizes * np.array(list(itertools.product([-1.0, 1.0], repeat=len(sizes))))
    for n in (FEWEST, 8, 10):
        assert np.exp(_signs(rows[:, :n], effect)).mean() == pytest.approx(1)


@pytest.mark.parametrize("size", [1e-6, 1.0])
def test_students_t_is_fair_for_normal_noise_of_any_size(size: float) -> None:
    rows = size * np.random.default_rng(1).normal(size=(6000, 40))
    wrong = int(crossed(_student, rows).sum())
    assert 0 < wrong <= stats.binom.ppf(0.999, len(rows), LEVEL)


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("effect", [0.3, 1.0])
def test_the_level_holds_however_often_one_looks(kind: str, effect: float) -> None:
    rows = NOISES[kind](np.random.default_rng(2), (3000, 60))
    wrong = int(crossed(lambda some: change_evidence(some, effect), rows).sum())
    assert wrong <= stats.binom.ppf(0.999, len(rows), LEVEL)


def test_six_clear_pairs_are_enough_and_the_other_direction_never_is() -> None:
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
