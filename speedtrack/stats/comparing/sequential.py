"""Sequential tests for and against a change that hold after any number of pairs, so measuring can stop early.

Rows are suspicions, columns the steps of their pairs in the order in which they were measured: head less base on a
`Scale`. ``effect`` is a distance on it, above zero. To test a change downwards, turn the signs of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from speedtrack.stats.arrays import Array
from speedtrack.stats.summary import MAD_TO_SIGMA

FEWEST = 7  # pairs needed for any evidence: six equal signs come by chance once in 64 times, so never at 1%
FEWEST_UNDIRECTED = FEWEST + 1  # if both directions are tested: each has half of the level
CLIP = 2.5  # standard deviations to which outliers are clipped
BOLDNESS = 0.8  # the share of the mean so far that is bet on if it exceeds the effect
STAKE = 1.5  # standard deviations to which bets clip steps: a single outlier must not decide
SIZES_TO_SIGMA = 2.5  # of the median absolute deviation of a normal variable's sizes: 1 / 0.3995
APART = 1.5  # deviations from zero above which the usual size of the first steps is itself bet on
ALIKE = 0.5  # of the usual size: each of the first steps must then be at least this large
LEAST = 1e-9  # noise of steps that are all equal
MOST_EXPONENT = 600.0  # so that no factor overflows


def change_evidence(rows: Array, effect: float) -> Array:
    """Natural logarithm of the evidence that each row has moved upwards, instead of downwards or not.

    For rows without a change it exceeds log(1 / level) at any time at all with at most the probability ``level`` (Ville
    1939), because it is a martingale that starts at 1. As the order within each pair is random, each step without a
    change is as likely as its opposite, given all sizes and all steps before it. That holds for any noise, any drift of
    the machine, and any difference between the slots of a pair. So 2 / (1 + exp(-2 b x)) is a fair bet on the step x
    with any b that depends only on sizes and earlier steps (Ramdas et al. 2020, Admissible anytime-valid sequential
    inference must rely on nonnegative martingales, section 5). With b = change / variance it is the likelihood ratio of
    a normal change.

    n pairs give at most 2^n. No evidence that is valid for all symmetric noise gives more: n equal signs have the
    probability 2^-n, even if all steps have the same size.
    """
    evidence = np.zeros(len(rows))
    for begin, end in _bets(rows.shape[1]):
        sigma, change = _by_earlier(rows[:, :begin], effect) if begin else _by_sizes(np.abs(rows[:, :end]), effect)
        clipped = np.clip(rows[:, begin:end] / sigma[:, None], -STAKE, STAKE)
        exponents = np.minimum(2 * change / sigma, MOST_EXPONENT)[:, None] * clipped
        evidence += (math.log(2) - np.logaddexp(0, -exponents)).sum(axis=1)
    return evidence


def level_evidence(rows: Array, effect: float) -> Array:
    """Logarithm of the likelihood ratio of a change by the effect against none, for normal noise (Wald 1945).

    The noise is estimated from the pairs, and raised while there are few. They are clipped to CLIP standard deviations
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


def _by_earlier(past: Array, effect: float) -> tuple[Array, Array]:
    """The likely noise and change, from earlier steps."""
    return _clipped_deviation(past), np.maximum(effect, BOLDNESS * past.mean(axis=1))


def _by_sizes(sizes: Array, effect: float) -> tuple[Array, Array]:
    """The likely noise and change, from the sizes of the first steps.

    If these are close together and far from zero, the cause is either a change or the slots; if it is the slots, the
    signs will differ, whatever the bet.
    """
    usual = np.median(sizes, axis=1)
    sigma = np.maximum(SIZES_TO_SIGMA * np.median(np.abs(sizes - usual[:, None]), axis=1), LEAST)
    is_apart = (usual > APART * sigma) & (sizes.min(axis=1) > ALIKE * usual)
    return sigma, np.where(is_apart, np.maximum(effect, BOLDNESS * usual), effect)


def _bets(n: int) -> Iterator[tuple[int, int]]:
    """The ranges of steps of one bet: the first pairs together, by their sizes; then a few, by earlier pairs."""
    begin, end = 0, FEWEST
    while begin < n:
        yield begin, min(end, n)
        begin, end = end, end + max(2, end // 8)
