from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from speedtrack.stats.comparing.compare import ComparisonAnswer, settle_pairs
from speedtrack.stats.comparing.sequential import FEWEST
from speedtrack.stats.noise.floor import counts_floor, noise_floor, standard_shift

LEVEL, PLANNED = 0.01, 10
Pairs = list[tuple[float, float]]


def pairs_of(rng: np.random.Generator, n: int, deviation: float, shift: float = 0.0) -> Pairs:
    """Normal log ratios of sides at any level."""
    sides = 5000 * np.exp(rng.normal(0, 0.3, n))
    return [
        (float(base), float(base * math.exp(step)))
        for base, step in zip(sides, rng.normal(shift, deviation, n), strict=True)
    ]


def different(pairs: Pairs, shift: float) -> bool:
    ratio = math.exp(shift)
    found = settle_pairs(pairs, smallest_effect=ratio - 1, level=LEVEL, seed=1, suspected=ratio)
    return found.answer is ComparisonAnswer.DIFFERENT


@pytest.mark.parametrize("n", [PLANNED, 20])
def test_settle_sees_the_smallest_change_as_often_as_it_says(n: int) -> None:
    rng, deviation, rounds = np.random.default_rng(n), 0.004, 400
    shift = deviation * standard_shift(n, LEVEL)
    seen = sum(different(pairs_of(rng, n, deviation, shift), shift) for _ in range(rounds))
    assert seen / rounds == pytest.approx(0.8, abs=0.07)  # 3.5 standard errors of 400 rounds
    less = sum(different(pairs_of(rng, n, deviation, shift / 2), shift) for _ in range(rounds))
    assert less / rounds < 0.35


def test_a_level_that_is_never_reached_has_no_smallest_change() -> None:
    assert standard_shift(FEWEST - 1, LEVEL) == math.inf


def test_the_floor_of_known_noise() -> None:
    rng = np.random.default_rng(8)
    found = noise_floor(pairs_of(rng, 150, 0.005), level=LEVEL, planned_pairs=PLANNED, seed=1)
    assert found.deviation == pytest.approx(0.005, rel=0.2)
    assert found.smallest == pytest.approx(math.expm1(0.005 * standard_shift(PLANNED, LEVEL)), rel=0.2)
    assert found.low < found.ratio < found.high
    assert found.ratio == pytest.approx(1, abs=0.002)


def test_a_bias_is_told_from_chance() -> None:
    found = noise_floor(pairs_of(np.random.default_rng(2), 10, 0.003, 0.02), level=LEVEL, planned_pairs=10, seed=1)
    assert 1 < found.low < found.high


def test_few_pairs_say_nothing_and_equal_ones_have_no_noise() -> None:
    assert noise_floor([(5.0, 5.0)] * 4, level=LEVEL, planned_pairs=10, seed=1).smallest is None
    found = noise_floor([(5.0, 5.0)] * 5, level=LEVEL, planned_pairs=10, seed=1)
    assert (found.deviation, found.ratio, found.smallest) == (0, 1, 0)


def blocks(rng: np.random.Generator, n: int) -> Pairs:
    """Blocks of one build against itself: a slot effect and a drift that dwarf the noise, and heavy tails.

    As runners/measuring/pairs.py draws them: the slots for each block, the order of the two for each of four turns.
    """
    pairs, minute = [], 0.0
    for _ in range(n):
        slots = rng.permutation(2)
        sides = [0.03 * slots[side] + 0.004 * rng.standard_t(3) for side in range(2)]
        slices: list[list[float]] = [[], []]
        for _ in range(4):
            for side in rng.permutation(2):
                slices[side].append(sides[side] + 0.02 * math.sin(minute) + 0.01 * minute)
                minute += 0.05
        pairs.append((math.exp(float(np.mean(slices[0]))), math.exp(float(np.mean(slices[1])))))
    return pairs


def confirmed(pairs: Pairs, seed: int) -> bool:
    """A confirmation that is looked at after every third pair."""
    for n in range(FEWEST, len(pairs) + 1, 3):
        found = settle_pairs(pairs[:n], smallest_effect=0.001, level=LEVEL, seed=seed)
        if found.answer is not ComparisonAnswer.UNKNOWN:
            return found.answer is ComparisonAnswer.DIFFERENT
    return False


def test_the_floor_of_counts_is_the_largest_difference_within_a_pair() -> None:
    assert counts_floor([(4000.0, 4009.6)] * 4, level=LEVEL).smallest is None
    assert counts_floor([(4000.0, 4000.0)] * 5, level=LEVEL).smallest == 0
    # The third pair had other random bytes than the first, and both of its processes took another path for it.
    levels = [(4000.0, 4000.0), (4009.6, 4000.0), (4100.0, 4100.0), (4000.0, 4009.6), (4009.6, 4009.6)]
    found = counts_floor(levels, level=LEVEL)
    assert found.smallest == pytest.approx(0.0024) and found.ratio == 1
    assert found.low is not None and found.high is not None and found.low < 1 < found.high


def test_slots_and_drift_raise_no_false_alarms() -> None:
    rng, rounds = np.random.default_rng(6), 200
    alarms = sum(confirmed(blocks(rng, 3 * PLANNED), seed) for seed in range(rounds))
    assert alarms <= stats.binom.ppf(0.999, rounds, LEVEL)
