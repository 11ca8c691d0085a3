"""What more trials and pairs would show, against simulations of lines with known noise that share no code with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from speedtrack.stats.changes.changepoint import Point, suspect_shifts
from speedtrack.stats.changes.explain import smallest_visible_change
from speedtrack.stats.changes.trials import MOST, LevelTrials
from speedtrack.stats.comparing.compare import ComparisonAnswer, settle_pairs
from speedtrack.stats.noise.floor import CONFIRMING, pairs_to_confirm, standard_shift

POINTS, EFFECT, SEEDS = 80, 0.001, 12
MARGIN = 1.3  # what is just visible is suspected half of the time
Rng = np.random.Generator
Array = np.typing.NDArray[np.float64]


def simulated(rng: Rng, of_runs: float, of_trials: float, trials: int, points: int = POINTS) -> Array:
    """Logarithms of trials, a row per commit: each run has its own level, around which its trials scatter."""
    return rng.normal(0, of_runs, (points, 1)) + rng.normal(0, of_trials, (points, trials))


def line_of(samples: Array) -> LevelTrials:
    """The line of simulated trials: medians, with the errors by their intervals: two order statistics, or the range."""
    trials, ordered = samples.shape[1], np.sort(samples, axis=1)
    cut = max(int(binom.ppf(0.025, trials, 0.5)) - 1, 0)
    error = (ordered[:, trials - 1 - cut] - ordered[:, cut]) / 2 / 1.96
    return LevelTrials(np.median(samples, axis=1).tolist(), error.tolist(), trials, EFFECT)


@pytest.mark.parametrize(("of_runs", "of_trials"), [(0.0, 0.02), (0.003, 0.02), (0.02, 0.005)])
@pytest.mark.parametrize("more", [20, 80])
def test_what_more_trials_would_show_is_what_a_line_with_them_shows(
    of_runs: float, of_trials: float, more: int
) -> None:
    """Predicted from lines of five trials, measured on lines with more: within 10%, with 16 times as many 20%."""
    predicted, measured = [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        predicted.append(line_of(simulated(rng, of_runs, of_trials, 5)).visible(more))
        line = line_of(simulated(rng, of_runs, of_trials, more))
        seen = smallest_visible_change(line.level, line.error, smallest_effect=EFFECT)
        assert seen
        measured.append(seen.smallest)
    assert np.mean(predicted) == pytest.approx(np.mean(measured), rel=0.1 if more == 20 else 0.2)


def test_a_change_is_suspected_with_the_trials_that_it_is_said_to_take_and_not_without() -> None:
    """Steps of half of what five trials show, in lines with five trials and in lines with as many as it takes."""
    with_more = without = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(100 + seed)
        line = line_of(simulated(rng, 0.0, 0.02, 5))
        step = line.visible(5) / 2
        trials = line.fewest(step / MARGIN) or MOST  # none: by chance the line looks as if its runs differed
        assert trials > 10
        with_more += is_suspected(rng, step, trials)
        without += is_suspected(rng, step, 5)
    assert with_more >= 10 and without <= 4


def is_suspected(rng: Rng, step: float, trials: int) -> bool:
    samples = simulated(rng, 0.0, 0.02, trials, POINTS + 32)
    samples[POINTS:] += math.log1p(step)
    shifts = suspect_shifts([Point(tuple(100 * np.exp(row))) for row in samples], smallest_effect=EFFECT)
    return any(abs(shift.index - POINTS) <= 6 for shift in shifts)


def test_no_number_of_trials_averages_the_noise_of_builds_away() -> None:
    line = line_of(simulated(np.random.default_rng(5), 0.02, 0.005, 5))
    limit = line.visible(math.inf)
    assert 0.9 * line.visible(5) < limit < line.visible(5)
    assert line.fewest(limit / 1.01) is None
    assert line.visible(MOST) == pytest.approx(limit, rel=0.01)


def test_fewest_is_the_first_that_shows_the_change_and_never_below_what_there_is() -> None:
    line = line_of(simulated(np.random.default_rng(6), 0.001, 0.02, 5))
    wanted = line.visible(5) / 2
    trials = line.fewest(wanted)
    assert trials and line.visible(trials) <= 1.001 * wanted < line.visible(trials - 1)
    assert line.fewest(1.0) == 5


@pytest.mark.parametrize("error", [math.nan, 0.0])
def test_without_noise_within_runs_nothing_is_said(error: float) -> None:
    line = LevelTrials([0.0, 0.01] * 10, [error] * 20, 1, EFFECT)
    assert (line.noise, line.visible(100), line.fewest(0.01)) == (None, math.inf, None)


@pytest.mark.parametrize("n", [8, 12, 20])
def test_the_table_of_pairs_is_that_of_the_shifts(n: int) -> None:
    assert standard_shift(n, 0.01) == pytest.approx(CONFIRMING[n], rel=0.001)


@pytest.mark.parametrize("share", [0.7, 0.4])
def test_so_many_pairs_confirm_a_change_four_times_out_of_five(share: float) -> None:
    """Against pairs of two builds whose processes differ, simulated; ten pairs confirm a change of 1.889 deviations."""
    rng, deviation, rounds = np.random.default_rng(9), 0.01, 150
    paired = math.expm1(deviation * CONFIRMING[10])
    pairs = pairs_to_confirm(share * paired, paired, 10)
    assert 10 < pairs < 100
    ratio = 1 + share * paired
    seen = 0
    for _ in range(rounds):
        steps = rng.normal(math.log(ratio), deviation, pairs)
        found = settle_pairs(
            [(1.0, math.exp(step)) for step in steps], smallest_effect=ratio - 1, level=0.01, seed=1, suspected=ratio
        )
        seen += found.answer is ComparisonAnswer.DIFFERENT
    assert seen / rounds == pytest.approx(0.8, abs=0.12)


def test_pairs_follow_the_table_and_the_square_beyond_it() -> None:
    assert pairs_to_confirm(0.02, 0.02, 10) == 10
    ends = [math.expm1(0.01 * shift) for shift in (1.889, 0.327, 0.327 / 2)]
    assert [pairs_to_confirm(end, ends[0], 10) for end in ends] == [10, 200, 800]
    assert pairs_to_confirm(1.0, 0.001, 10) == 7
