"""Whether counts of samples differ by more than the chance of sampling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def differing_counts(
    base: Sequence[int], head: Sequence[int], base_cost: float, head_cost: float, level: float
) -> list[bool]:
    """Whether each pair of counts shows another cost, in all pairs together at this level.

    Counts of samples are Poisson. ``base_cost`` and ``head_cost``: the cost that a sample of each side stands for. If
    both sides cost the same, then of the samples of a pair those of the base are binomial (the conditional test of two
    Poisson means, Przyborowski and Wilenski 1940; both tails count twice the smaller one). Bonferroni's correction
    counts the pairs that have a sample.
    """
    from scipy.special import bdtr, bdtrc  # here: processes that are idle need not hold scipy

    before, after = np.asarray(base, dtype=int), np.asarray(head, dtype=int)
    total = before + after
    share = head_cost / (base_cost + head_cost)
    chance = 2 * np.minimum(bdtr(before, total, share), bdtrc(before - 1, total, share))
    return list((chance * max(1, np.count_nonzero(total)) <= level) & (total > 0))
