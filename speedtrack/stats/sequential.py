"""Sequential tests for and against a change that hold after any number of pairs, so measuring can stop early.

Rows are suspicions, columns the steps of their pairs in the order in which they were measured: head less base on a
`Scale`. ``effect`` is a distance on it, above zero. A change downwards is asked about with the steps' signs turned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from speedtrack.stats.arrays import Array
from speedtrack.stats.summary import MAD_TO_SIGMA

FEWEST = 6  # pairs before anything is known
CLIP = 2.5  # standard deviations to which outliers are clipped
SIGNS = 0.8  # of the level is for the signs, the rest for Student's t
BOLDNESS = 0.8  # of the mean so far that is bet on where it exceeds the effect
STAKE = 1.5  # standard deviations to which steps are clipped in bets: a single outlier must not decide
SIZES_TO_SIGMA = 2.5  # of the median absolute deviation of a normal variable's sizes: 1 / 0.3995
REACH = 5.0  # of the changes that Student's t looks for, in standard deviations of a pair
LEAST = 1e-9  # noise of steps that are all equal
MOST_EXPONENT = 600.0  # so that no factor overflows


def change_evidence(rows: Array, effect: float) -> Array:
    """Natural logarithm of the evidence that each row has moved upwards, rather than not or downwards.

    For rows without a change it exceeds log(1 / level) at any time at all with at most the probability ``level``.
    Both parts are martingales that start at 1 (Ville 1939), and the level is divided among them:

    *Signs.* As the order within each pair is random, each step without a change is as likely as its opposite, given
    all sizes, whatever the noise and however the machine drifts. So 2 / (1 + exp(-2 b x)) is a fair bet on the step x
    with any b that depends only on sizes and earlier steps (Ramdas et al. 2020, Admissible anytime-valid sequential
    inference must rely on nonnegative martingales, section 5). With b = effect / variance it is the likelihood ratio
    of a normal change by the effect. n pairs give at most 2^n.

    *Student's t*, for changes that are large beside the noise: the Bayes factor of a normal prior for change / noise
    (Gönen et al. 2005), which is a martingale for normal noise of any size (Pérez-Ortiz et al. 2024, E-statistics,
    group invariance and anytime-valid testing). Six pairs may give any amount.
    """
    return np.maximum(math.log(SIGNS) + _signs(rows, effect), math.log(1 - SIGNS) + _student(rows))


def level_evidence(rows: Array, effect: float) -> Array:
    """Logarithm of the likelihood ratio of a change by the effect against none, for normal noise (Wald 1945).

    The noise is estimated from the pairs and raised while they are few. They are clipped to CLIP standard deviations
    from half of the effect.
    """
    sigma = step_noise(rows)[:, None]
    evidence: Array = (np.clip((rows - effect / 2) / sigma, -CLIP, CLIP) * effect / sigma).sum(axis=1)
    return evidence


def step_noise(steps: Array) -> Array:
    """Standard deviation along the last axis, with steps clipped to CLIP robust deviations; raised for few pairs.

    The factor is the square root of (n + 1) / (n - 2): it gives a predicted step the variance of Student's t.
    """
    n = steps.shape[-1]
    if n < 3:
        reach: Array = np.maximum(np.ptp(steps, axis=-1), LEAST)
        return reach
    raised: Array = _clipped_deviation(steps) * math.sqrt((n + 1) / (n - 2))
    return raised


def _clipped_deviation(steps: Array) -> Array:
    middle = np.median(steps, axis=-1, keepdims=True)
    reach = CLIP * MAD_TO_SIGMA * np.median(np.abs(steps - middle), axis=-1, keepdims=True)
    clipped = np.where(reach > 0, np.clip(steps, middle - reach, middle + reach), steps)
    deviation: Array = np.maximum(clipped.std(axis=-1, ddof=1), LEAST)
    return deviation


def _signs(rows: Array, effect: float) -> Array:
    evidence = np.zeros(len(rows))
    for begin, end in _bets(rows.shape[1]):
        if begin:
            past = rows[:, :begin]
            sigma, change = _clipped_deviation(past), np.maximum(effect, BOLDNESS * past.mean(axis=1))
        else:
            sizes = np.abs(rows[:, :end])
            apart = np.abs(sizes - np.median(sizes, axis=1, keepdims=True))
            sigma, change = np.maximum(SIZES_TO_SIGMA * np.median(apart, axis=1), LEAST), np.full(len(rows), effect)
        clipped = np.clip(rows[:, begin:end] / sigma[:, None], -STAKE, STAKE)
        exponents = np.minimum(2 * change / sigma, MOST_EXPONENT)[:, None] * clipped
        evidence += (math.log(2) - np.logaddexp(0, -exponents)).sum(axis=1)
    return evidence


def _bets(n: int) -> Iterator[tuple[int, int]]:
    """The first pairs are bet on together, by their sizes; later ones a few at a time, by the pairs before them."""
    begin, end = 0, FEWEST
    while begin < n:
        yield begin, min(end, n)
        begin, end = end, end + max(2, end // 8)


def _student(rows: Array) -> Array:
    n = rows.shape[1]
    mean, deviation = rows.mean(axis=1), np.maximum(rows.std(axis=1, ddof=1), LEAST)
    spread = 1 + n * REACH**2
    t_squared = n * (mean / deviation) ** 2 / (n - 1)
    evidence: Array = n / 2 * (np.log1p(t_squared) - np.log1p(t_squared / spread)) - math.log(spread) / 2
    return np.where(mean > 0, evidence, -MOST_EXPONENT)
