"""How many pairs ways of settling a suspicion need, and how often each confirms a change that is not there.

python research/settle_power.py [--suspicions 4000] [--seed 1] [--only NAME,...]

Every suspicion is of a slowdown; pairs are measured until it is confirmed or refuted, 160 at most. For each method: of
suspicions without a change how many were confirmed (the stated level is 1%), over eight kinds of noise and five spreads
of a side, with the worst; then for normal noise how many of a true change, in how many pairs and runs on average.
`product` calls what the workers call. Needs no database; some minutes on one core.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.special import stdtr, stdtrit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from speedtrack.stats.arrays import Array
from speedtrack.stats.comparing import compare, sequential

MOST = 160  # pairs
LEVEL = 0.01
EFFECT = math.log1p(0.01)  # the smallest effect of server CPU per request
SUSPECTED = 0.02  # what the history is taken to have shown, at least
SPREADS = (0.002, 0.005, 0.01, 0.017, 0.04)  # of a side
CHANGES = (0.01, 0.02, 0.03, 0.05, 0.10, 0.20, 0.60)
POWER_SPREADS = (0.01, 0.014, 0.017, 0.04)
UNKNOWN, CONFIRMED, REFUTED = 0, 1, 2
Trials = Callable[[np.random.Generator, tuple[int, int]], Array]


def autocorrelated(rng: np.random.Generator, size: tuple[int, int]) -> Array:
    """Each trial is like the one before it (AR(1), 0.7)."""
    noise = rng.normal(size=size)
    for i in range(1, size[1]):
        noise[:, i] = 0.7 * noise[:, i - 1] + math.sqrt(1 - 0.7**2) * noise[:, i]
    return noise


def in_spells(rng: np.random.Generator, size: tuple[int, int]) -> Array:
    """Calm and noisy spells of some ten pairs."""
    phase = rng.uniform(0, 2 * math.pi, (size[0], 1))
    return rng.normal(size=size) * np.exp(0.6 * np.sin(np.arange(size[1]) / 9 + phase)) / 1.2


KINDS: dict[str, Trials] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails": lambda rng, size: rng.standard_t(3, size) / math.sqrt(3),
    "skewed": lambda rng, size: rng.exponential(size=size),
    "two levels": lambda rng, size: 2.1 * (rng.random(size) < 0.3) + 0.25 * rng.normal(size=size),
    "bursts": lambda rng, size: 0.6 * rng.normal(size=size) + 3.6 * (rng.random(size) < 0.05),
    "autocorrelated": autocorrelated,
    "drifting": lambda rng, size: rng.normal(size=size) + 0.05 * np.arange(size[1]),
    "spells": in_spells,
}


def steps(rng: np.random.Generator, kind: str, count: int, spread: float, change: float) -> Array:
    """The log ratios of the pairs of so many suspicions; which side of a pair comes first is drawn."""
    trials = spread * KINDS[kind](rng, (count, 2 * MOST)).reshape(count, MOST, 2)
    order = rng.choice([-1.0, 1.0], (count, MOST))
    log_ratios: Array = order * (trials[:, :, 1] - trials[:, :, 0]) + math.log1p(change)
    return log_ratios


@dataclass(frozen=True)
class Answers:
    """The answers to some suspicions after as many pairs, and after how many to look again."""

    answers: Array
    again: Array


@dataclass(frozen=True)
class Method:
    """A method of settling: its first look, and its answers for rows of n pairs, given the effect to look for."""

    first: int
    look: Callable[[Array, float], Answers]


def next_of(looks: Sequence[int], n: int) -> int:
    return next((look for look in looks if look > n), MOST)


def student_reaches(rows: Array) -> Array:
    """Half the width of the 95% interval of the mean."""
    n = rows.shape[1]
    reaches: Array = rows.std(axis=1, ddof=1) / math.sqrt(n) * stdtrit(n - 1, 0.975)
    return reaches


def by_interval(rows: Array, effect: float, confirmed: Array, looks: Sequence[int]) -> Answers:
    """A row is refuted if it is not confirmed and its interval excludes the effect."""
    refuted = rows.mean(axis=1) + student_reaches(rows) < effect
    answers = np.where(confirmed, CONFIRMED, np.where(refuted, REFUTED, UNKNOWN))
    return Answers(answers, np.full(len(rows), next_of(looks, rows.shape[1])))


DOUBLING = (10, 20, 40, 80, 160)


def rank_distances(rows: Array) -> Array:
    """How far the rank sum of each row's positive steps lies above its mean."""
    ranks, n = np.abs(rows).argsort(axis=1).argsort(axis=1) + 1, rows.shape[1]
    distances: Array = np.where(rows > 0, ranks, 0).sum(axis=1) - n * (n + 1) / 4
    return distances


@lru_cache
def rank_limit(n: int, level: float) -> float:
    """The distance that Wilcoxon's signed-rank test of both directions needs at a level; exact over all sign flips."""
    chance = np.ones(1)
    for rank in range(1, n + 1):
        chance = (np.append(chance, np.zeros(rank)) + np.append(np.zeros(rank), chance)) / 2
    distance = np.abs(np.arange(len(chance)) - n * (n + 1) / 4)
    return min(float(d) for d in np.unique(distance) if chance[distance >= d - 1e-9].sum() <= level)


def equal_spending(rows: Array, effect: float) -> Answers:
    """Wilcoxon's test of both directions at 10, 20, 40, 80 and 160 pairs, a fifth of the level each."""
    n = rows.shape[1]
    far = np.abs(rank_distances(rows)) >= rank_limit(n, LEVEL / len(DOUBLING))
    clear = (np.abs(rows.mean(axis=1)) >= EFFECT / 2) & (np.abs(rows.mean(axis=1)) > student_reaches(rows))
    return by_interval(rows, effect, far & clear & (rows.mean(axis=1) > 0), DOUBLING)


SPENDING = {8: 0.004, 12: 0.001, 16: 0.001, 24: 0.001, 36: 0.001, 54: 0.001, 80: 0.0005, 160: 0.0005}


def unequal_spending(rows: Array, effect: float) -> Answers:
    """Wilcoxon's test of the suspected direction, most of the level at the first look, after eight pairs."""
    n = rows.shape[1]
    far = rank_distances(rows) >= rank_limit(n, 2 * SPENDING[n])
    return by_interval(rows, effect, far & (rows.mean(axis=1) >= EFFECT / 2), tuple(SPENDING))


def early_bound(known_spread: float) -> Method:
    """Today's looks and one after five pairs, by Vysochanskij and Petunin's bound for a spread that is known."""

    def look(rows: Array, effect: float) -> Answers:
        if rows.shape[1] != 5:
            return equal_spending(rows, effect)
        # One-sided, unimodal: P(mean >= k s) <= 4 / 9 / (1 + k^2) (Mercadier & Strobel 2021); a tenth of the level.
        k = math.sqrt(4 / 9 / (LEVEL / 10) - 1)
        confirmed = rows.mean(axis=1) >= k * known_spread / math.sqrt(5)
        return by_interval(rows, -math.inf, confirmed, DOUBLING)

    return Method(5, look)


def early_student(rows: Array, effect: float) -> Answers:
    """The looks of `unequal_spending` after one of five pairs by Student's t at a fifth of the level."""
    if rows.shape[1] != 5:
        return unequal_spending(rows, effect)
    t = rows.mean(axis=1) / rows.std(axis=1, ddof=1) * math.sqrt(5)
    return by_interval(rows, -math.inf, stdtr(4, -t) <= LEVEL / 5, tuple(SPENDING))


FINE = (6, 9, 12, 16, 20, 25, 31, 38, 47, 58, 70, 80, 95, 110, 130, 160)


def likelihood_ratio(rows: Array, effect: float) -> Answers:
    """Wald's test with the noise estimated from the pairs."""
    evidence = sequential.level_evidence(rows, effect)
    answers = np.where(
        evidence >= -math.log(LEVEL), CONFIRMED, np.where(evidence <= math.log(compare.MISSED), REFUTED, UNKNOWN)
    )
    return Answers(answers, np.full(len(rows), next_of(FINE, rows.shape[1])))


def self_normalised(rows: Array, effect: float) -> Answers:
    """Mixture over bets exp(b x - b^2 x^2 / 2), fair for symmetric noise (de la Peña 1999): 8 powers of 2."""
    sums, squares = rows.sum(axis=1), (rows**2).sum(axis=1)
    usual = np.sqrt(squares / rows.shape[1])
    # The sizes of the first pairs set the scale of the bets; they say nothing about direction.
    scale = 1 / np.sqrt((rows[:, :6] ** 2).mean(axis=1))
    bets = [scale * 2.0**k for k in range(-5, 3)]
    evidence = np.logaddexp.reduce([b * sums - b**2 * squares / 2 for b in bets]) - math.log(len(bets))
    refuted = sequential.level_evidence(rows, effect) <= math.log(compare.MISSED)
    answers = np.where((evidence >= -math.log(LEVEL)) & (usual > 0), CONFIRMED, np.where(refuted, REFUTED, UNKNOWN))
    return Answers(answers, np.full(len(rows), next_of(FINE, rows.shape[1])))


def product(rows: Array, effect: float) -> Answers:
    """As the workers do: `sequential.change_evidence`, and further pairs as many as the evidence makes likely."""
    n = rows.shape[1]
    for_change, for_effect = sequential.change_evidence(rows, effect), sequential.level_evidence(rows, effect)
    confirmed = (for_change >= -math.log(LEVEL)) & (rows.mean(axis=1) >= EFFECT / 2)
    answers = np.where(confirmed, CONFIRMED, np.where(for_effect <= math.log(compare.MISSED), REFUTED, UNKNOWN))
    needed = [compare.pairs_left(float(a), float(b), n, LEVEL) for a, b in zip(for_change, for_effect, strict=True)]
    return Answers(answers, np.minimum(n + np.array(needed), MOST))


WAYS = {
    "equal spending (before)": Method(10, equal_spending),
    "unequal spending": Method(8, unequal_spending),
    "early bound, spread known": early_bound(math.sqrt(2) * 0.017),
    "early Student's t": Method(5, early_student),
    "Wald's, noise estimated": Method(FINE[0], likelihood_ratio),
    "self-normalised mixture": Method(FINE[0], self_normalised),
    "product": Method(sequential.FEWEST, product),
}


@dataclass(frozen=True)
class Power:
    """The shares of suspicions confirmed and refuted, and the mean numbers of pairs and of runs."""

    confirmed: float
    refuted: float
    pairs: float
    runs: float


def settle(method: Method, rows: Array, effect: float) -> Power:
    """Give each row pairs until it is confirmed or refuted."""
    at, runs = np.full(len(rows), method.first), np.ones(len(rows))
    answers = np.zeros(len(rows), dtype=int)
    for n in range(method.first, MOST + 1):
        now = np.flatnonzero((at == n) & (answers == UNKNOWN))
        if len(now):
            look = method.look(rows[now, :n], effect)
            answers[now] = look.answers
            on = (look.answers == UNKNOWN) & (n < MOST)
            at[now[on]] = look.again[on]
            runs[now[on]] += 1
    return Power(*(float(x.mean()) for x in (answers == CONFIRMED, answers == REFUTED, at, runs)))


def effect_of(change: float) -> float:
    return max(EFFECT, compare.EXCLUDED * math.log1p(max(SUSPECTED, change)))


def show(name: str, method: Method, options: argparse.Namespace) -> None:
    print(f"\n{name}\n  confirmed without a change, at a spread of {', '.join(f'{s:.1%}' for s in SPREADS)}")
    worst = 0.0
    for k, kind in enumerate(KINDS):
        cells = []
        for spread in SPREADS:
            rng = np.random.default_rng([options.seed, k])
            power = settle(method, steps(rng, kind, options.suspicions, spread, 0.0), effect_of(0.0))
            worst = max(worst, power.confirmed)
            cells.append(f"{power.confirmed:6.2%} {power.pairs:5.1f}/{power.runs:.1f}")
        print(f"  {kind:15}" + " ".join(cells), flush=True)
    print(f"  the worst: {worst:.2%}")
    for spread in POWER_SPREADS:
        cells = []
        for change in CHANGES:
            rng = np.random.default_rng([options.seed, 100])
            power = settle(method, steps(rng, "normal", options.suspicions // 4, spread, change), effect_of(change))
            cells.append(f"{change:.0%}: {power.confirmed:6.1%} {power.pairs:5.1f}/{power.runs:.1f}")
        print(f"  spread {spread:.1%}  " + "  ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--suspicions", type=int, default=4000, help="of each kind and spread; a quarter of each change"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=lambda names: names.split(","), default=list(WAYS))
    options = parser.parse_args()
    print("confirmed, then pairs / runs on average")
    for name in options.only:
        show(name, WAYS[name], options)


if __name__ == "__main__":
    main()
