import math

import numpy as np
import pytest
from scipy.stats import binomtest

from speedtrack.stats.comparing.narrow import (
    MOST,
    CommitLevel,
    cautious_ratio,
    fewest_pairs,
    pairs_needed,
    place_commit,
    place_counts,
)

Pairs = list[tuple[float, float]]
FEWEST = fewest_pairs(0.005)


def pairs(rng: np.random.Generator, shift: float, n: int, noise: float, wild: float = 0.0) -> Pairs:
    """(base, commit) around 5000, each with its own noise; a share of them far off."""

    def side(level: float) -> list[float]:
        steps = rng.normal(0, noise, n) + rng.normal(0, 8 * noise, n) * (rng.random(n) < wild)
        return [5000 * math.exp(level + step) for step in steps]

    return list(zip(side(0), side(shift), strict=True))


def decide(rng: np.random.Generator, truth: float, ratio: float, noise: float, wild: float = 0.0) -> CommitLevel:
    """Take more pairs until the side is known."""
    measured: Pairs = []
    while len(measured) < MOST:
        measured += pairs(rng, truth, 8, noise, wild)
        if (side := place_commit(measured, ratio=ratio, error=0.01).side) != CommitLevel.UNKNOWN:
            return side
    return CommitLevel.UNKNOWN


@pytest.mark.parametrize("effect", [0.02, -0.03, 0.05, 0.2])
@pytest.mark.parametrize("wild", [0.0, 0.08])
def test_the_wrong_side_is_as_rare_as_stated_however_often_one_looks(effect: float, wild: float) -> None:
    rng = np.random.default_rng(5)
    ratio, tries = 1 + effect, 150
    wrong = sum(decide(rng, 0, ratio, 0.017, wild) == CommitLevel.NEW for _ in range(tries))
    wrong += sum(decide(rng, math.log(ratio), ratio, 0.017, wild) == CommitLevel.OLD for _ in range(tries))
    assert binomtest(wrong, 2 * tries, 0.01, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("slots", [0.5, 1.0, 2.0])
def test_slots_that_differ_by_as_much_as_the_change_place_nothing_wrongly(slots: float) -> None:
    """The noise is a twentieth of the change, and the order within a pair moves each step up or down by ``slots``."""
    rng = np.random.default_rng(7)
    change, error, tries, wrong = math.log(1.05), 0.005, 200, 0
    for shift, other in ((0.0, CommitLevel.NEW), (change, CommitLevel.OLD)):
        for _ in range(tries):
            steps = shift + slots * change * rng.choice([-1, 1], MOST) + rng.normal(0, change / 20, MOST)
            measured = [(100.0, 100 * math.exp(step)) for step in steps]
            counts = (FEWEST, 20, 40, 80, MOST)
            sides = (place_commit(measured[:count], ratio=1.05, error=error).side for count in counts)
            wrong += next((side for side in sides if side != CommitLevel.UNKNOWN), None) == other
    assert binomtest(wrong, 2 * tries, error, alternative="greater").pvalue > 0.001


def test_an_overstated_change_is_placed_by_its_cautious_end() -> None:
    """+2% that was confirmed as +2.8% [1.6%, 4.0%]: by half of 2.8% commits of the new level are taken for old ones."""
    careless, careful = 1.028, cautious_ratio(1.028, 1.016, 1.04)
    wrong = []
    for ratio in (careless, careful):
        rng = np.random.default_rng(5)
        wrong.append(sum(decide(rng, math.log(1.02), ratio, 0.024) == CommitLevel.OLD for _ in range(400)) / 400)
    assert wrong[1] < wrong[0] / 3


def test_the_cautious_end_is_nearer_to_no_change_on_both_sides() -> None:
    assert cautious_ratio(1.04, 1.02, 1.06) == pytest.approx(1.04 - 0.02 / 1.96)
    assert cautious_ratio(0.96, 0.94, 0.98) == pytest.approx(0.96 + 0.02 / 1.96)
    assert cautious_ratio(1.1, 1.1, 1.1) == 1.1


def test_a_commit_halfway_is_not_placed_by_few_pairs() -> None:
    rng = np.random.default_rng(2)
    answers = [place_commit(pairs(rng, math.log(1.1) / 2, 8, 0.02), ratio=1.1, error=0.001).side for _ in range(50)]
    assert answers.count(CommitLevel.UNKNOWN) > 25


def test_the_number_of_pairs_follows_noise_and_effect() -> None:
    rng = np.random.default_rng(3)
    quiet, loud = pairs(rng, 0, 40, 0.005), pairs(rng, 0, 40, 0.02)
    needed = [
        pairs_needed(quiet, ratio=1.1, error=0.005),
        pairs_needed(loud, ratio=1.1, error=0.005),
        pairs_needed(loud, ratio=1.03, error=0.005),
        pairs_needed(loud, ratio=1.0001, error=0.005),
    ]
    assert needed[0] == FEWEST
    assert needed == sorted(needed)
    assert needed[-1] == MOST // 3


def test_values_without_noise_are_placed_by_the_fewest_pairs() -> None:
    assert place_commit([(100.0, 110.0)] * FEWEST, ratio=1.1, error=0.005).side == CommitLevel.NEW
    assert place_commit([(100.0, 100.0)] * FEWEST, ratio=1.1, error=0.005).side == CommitLevel.OLD
    assert place_commit([(100.0, 110.0)] * (FEWEST - 1), ratio=1.1, error=0.005).side == CommitLevel.UNKNOWN


@pytest.mark.parametrize("effect", [0.005, -0.01, 0.3])
def test_four_counts_of_a_side_place_a_commit_as_seldom_wrongly_as_stated(effect: float) -> None:
    """The noise of counts is a twentieth of the change, half of it, or all of it."""
    rng, error, tries = np.random.default_rng(4), 0.002, 1000
    change = math.log1p(effect)
    for noise in (0.05, 0.5, 1.0):
        sides = {
            truth: [
                place_counts(pairs(rng, truth * change, 4, noise * abs(change)), ratio=1 + effect, error=error).side
                for _ in range(tries)
            ]
            for truth in (0, 1)
        }
        wrong = sides[0].count(CommitLevel.NEW) + sides[1].count(CommitLevel.OLD)
        assert binomtest(wrong, 2 * tries, error, alternative="greater").pvalue > 0.001
        if noise == 0.05:
            assert sides[0].count(CommitLevel.OLD) + sides[1].count(CommitLevel.NEW) > 1.9 * tries


def test_fewer_counts_place_nothing() -> None:
    assert place_counts([(100.0, 110.0)] * 3, ratio=1.1, error=0.005).side == CommitLevel.UNKNOWN
    assert place_counts([(100.0, 110.0)] * 4, ratio=1.1, error=0.005).side == CommitLevel.NEW


@pytest.mark.parametrize("ratio", [1.0995, 1.1005])
def test_a_level_that_is_known_less_exactly_than_pairs_are_is_that_level(ratio: float) -> None:
    """Counted instructions hardly vary, so every pair shows that the confirmed size was not exact."""
    for head, level in (
        (110.0, CommitLevel.NEW),
        (106.0, CommitLevel.NEW),
        (104.0, CommitLevel.OLD),
        (100.01, CommitLevel.OLD),
    ):
        assert place_commit([(100.0, head)] * 40, ratio=ratio, error=0.005).side == level
        assert place_counts([(100.0, head)] * 4, ratio=ratio, error=0.001).side == level


def test_values_of_zero_are_placed_on_a_linear_scale() -> None:
    assert place_commit([(0.0, 5.0), (10.0, 15.0)] * 5, ratio=1.5, error=0.01).side == CommitLevel.NEW


def test_a_change_without_halves_is_refused() -> None:
    with pytest.raises(ValueError, match="no halves"):
        place_commit([(1.0, 2.0)], ratio=1.0, error=0.01)


def test_no_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        place_commit([], ratio=1.1, error=0.01)
