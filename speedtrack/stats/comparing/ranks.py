"""The exact p-value of a rank test with ties, over all permutations of the ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from speedtrack.stats.arrays import Array

EXACT_UP_TO = 120  # values in total; above, the normal approximation is exact enough


def midranks(values: Array) -> Array:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Array = (last - (counts - 1) / 2)[group]
    return ranks


def rank_sum_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p-value of the Mann-Whitney U test (Mann & Whitney 1947); 1.0 if a side is empty.

    Exact over all divisions of the pooled midranks for up to 120 values; normal with tie correction above.
    """
    if not len(a) or not len(b):
        return 1.0
    ranks = midranks(np.asarray([*a, *b], dtype=np.float64))
    total, mean = float(ranks[: len(a)].sum()), len(a) * (len(ranks) + 1) / 2
    if len(ranks) > EXACT_UP_TO:
        variance = len(a) * len(b) / (len(ranks) - 1) * float(((ranks - ranks.mean()) ** 2).mean())
        return _normal_p(abs(total - mean) - 0.5, variance)
    if len(ranks) == len(set(ranks.tolist())):
        return _p_without_ties(len(a), len(b), total)
    return _two_sided(_subset_sums(ranks, len(a)), total, mean)


def rank_sum_ps(before: Array, after: Array) -> list[float]:
    """``rank_sum_p`` of each row of two matrices."""
    pooled = np.concatenate([before, after], axis=1)
    n, size = before.shape[1], pooled.shape[1]
    if not n or size == n or size > EXACT_UP_TO:
        return [rank_sum_p(a, b) for a, b in zip(before, after, strict=True)]
    smaller = (pooled[:, :n, None] > pooled[:, None, :]).sum(axis=(1, 2))
    ordered = np.sort(pooled, axis=1)
    has_ties = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    return [
        rank_sum_p(a, b) if tied else _p_without_ties(n, size - n, float(total))
        for a, b, tied, total in zip(before, after, has_ties.tolist(), (smaller + n).tolist(), strict=True)
    ]


@lru_cache(maxsize=4096)
def _p_without_ties(a: int, b: int, total: float) -> float:
    return _two_sided(_subset_sums(np.arange(1.0, a + b + 1), a), total, a * (a + b + 1) / 2)


def _subset_sums(ranks: Array, size: int) -> Array:
    """Probability of each doubled rank sum of a random subset of the given size."""
    doubled = np.rint(2 * ranks).astype(int)
    chance = np.zeros((size + 1, int(doubled.sum()) + 1))
    chance[0, 0] = 1.0
    for index, rank in enumerate(doubled):
        for count in range(min(index + 1, size), 0, -1):
            chance[count, rank:] += chance[count - 1, : chance.shape[1] - rank]
    sums: Array = chance[size] / math.comb(len(ranks), size)
    return sums


def _two_sided(chance: Array, total: float, mean: float) -> float:
    distance = np.abs(np.arange(len(chance)) / 2 - mean)
    return min(1.0, float(chance[distance >= abs(total - mean) - 1e-9].sum()))


def _normal_p(distance: float, variance: float) -> float:
    if variance <= 0:
        return 1.0
    return min(1.0, 2 * NormalDist().cdf(-max(0.0, distance) / math.sqrt(variance)))
