"""How often pairs confirm a change of a given size, or one that is not there, and where the narrowing ends.

These call `stats.compare` and `stats.narrow` with the rounds and levels of the workers; no database.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from speedtrack.stats.comparing.compare import Comparison

Pairs = list[tuple[float, float]]
EFFECT = 0.01  # the smallest effect of server CPU per request
SUSPECTED = 0.02  # what the history is taken to have shown, at least
RANGE = 8  # commits that may be the cause
AT_ONCE = 50


@dataclass(frozen=True)
class Case:
    """A change of a size between two sides, each with a spread; ``heavy``: Student's t with 4 degrees of freedom."""

    change: float
    spread: float
    heavy: bool = False


@dataclass(frozen=True)
class Rounds:
    """How often the pairs of a case gave each answer, of ``runs``; ``pairs``: how many were measured on average."""

    case: Case
    runs: int
    different: float
    same: float
    unknown: float
    pairs: float


@dataclass(frozen=True)
class NarrowingResult:
    """Where the narrowing of a range ended: at the right commit, at another one, or at a range with the right one."""

    case: Case
    runs: int
    right: float
    wrong: float
    wide: float
    pairs: float


def draw(rng: np.random.Generator, count: int, case: Case, is_changed: bool = True) -> Pairs:
    noise = rng.standard_t(4, (count, 2)) / math.sqrt(2) if case.heavy else rng.normal(size=(count, 2))
    values = 100 * np.exp(case.spread * noise) * np.array([1.0, 1 + case.change * is_changed])
    return [(float(base), float(head)) for base, head in values]


def confirm_once(case: Case, rng: np.random.Generator, suspected: float) -> tuple[Comparison, Pairs]:
    """The answer after all rounds that the workers would measure, and the pairs of those."""
    from speedtrack.alerts.settling.verdicts import LEVEL, PAIRS
    from speedtrack.stats.comparing import compare

    pairs, count = Pairs(), PAIRS.first
    while True:
        pairs += draw(rng, count, case)
        n = len(pairs)
        for_change, for_effect = evidence_of(pairs, suspected)
        if for_change >= -math.log(LEVEL) or for_effect <= math.log(compare.MISSED) or n >= PAIRS.most:
            comparison = compare.settle_pairs(pairs, smallest_effect=EFFECT, level=LEVEL, seed=n, suspected=suspected)
            if comparison.answer != compare.ComparisonAnswer.UNKNOWN or n >= PAIRS.most:
                return comparison, pairs
        if n < PAIRS.usual:
            count = min(compare.pairs_left(for_change, for_effect, n, LEVEL), PAIRS.usual - n)
        else:
            count = PAIRS.most - n


def evidence_of(pairs: Pairs, suspected: float) -> tuple[float, float]:
    """The evidence by which `settle_pairs` decides on a slowdown, without the interval, which takes most time."""
    from speedtrack.stats.comparing import compare, sequential

    steps = np.array([[math.log(head / base) for base, head in pairs]])
    effect = max(math.log1p(EFFECT), compare.EXCLUDED * math.log(suspected))
    return float(sequential.change_evidence(steps, effect)[0]), float(sequential.level_evidence(steps, effect)[0])


def rounds_of(case: Case, runs: int, seed: int | list[int]) -> list[tuple[str, int]]:
    """The answers of so many suspicions of a slowdown; run in a process of its own."""
    rng = np.random.default_rng(seed)
    outcomes = [confirm_once(case, rng, 1 + max(SUSPECTED, case.change)) for _ in range(runs)]
    return [(str(comparison.answer), len(pairs)) for comparison, pairs in outcomes]


def confirmed(case: Case, rng: np.random.Generator) -> tuple[float, Pairs]:
    """The ratio to place by and the pairs of a confirmed suspicion; those that were not confirmed are drawn again."""
    from speedtrack.stats.comparing import narrow

    while True:
        comparison, pairs = confirm_once(case, rng, 1 + max(SUSPECTED, case.change))
        if comparison.answer == "different" and comparison.ratio > 1:
            return narrow.cautious_ratio(comparison.ratio, comparison.low, comparison.high), pairs


def narrow_once(case: Case, rng: np.random.Generator) -> tuple[str, int]:
    """Narrow a range whose change is confirmed, as `narrowing.narrow` does; how it ended, and with how many pairs."""
    from speedtrack.stats.comparing import bisect, narrow

    first, last, spent = 0, RANGE, 0  # the change lies after ``first``, and up to ``last``
    cause = int(rng.integers(1, RANGE + 1))
    ratio, confirming = confirmed(case, rng)
    error = bisect.error_per_step(RANGE - 1)
    while last - first > 1:
        middle, pairs = first + (last - first) // 2, Pairs()
        side = bisect.CommitLevel.UNKNOWN
        while side == bisect.CommitLevel.UNKNOWN and len(pairs) < narrow.MOST:
            count = max(narrow.pairs_needed(confirming, ratio=ratio, error=error), len(pairs))
            pairs += draw(rng, count, case, is_changed=middle >= cause)
            side = narrow.place_commit(pairs, ratio=ratio, error=error).side
        spent += len(pairs)
        if side == bisect.CommitLevel.UNKNOWN:
            break
        first, last = (first, middle) if side == bisect.CommitLevel.NEW else (middle, last)
    if not first < cause <= last:
        return "wrong", spent
    return ("right" if last - first == 1 else "wide"), spent


def narrowings_of(case: Case, runs: int, seed: int | list[int]) -> list[tuple[str, int]]:
    rng = np.random.default_rng(seed)
    return [narrow_once(case, rng) for _ in range(runs)]


Answers = list[tuple[str, int]]


def in_parts(
    executor: ProcessPoolExecutor, verb: Callable[[Case, int, list[int]], Answers], case: Case, runs: int, seed: int
) -> Answers:
    """All answers of a case, worked out in parts by the processes of the pool."""
    sizes = [min(AT_ONCE, runs - begin) for begin in range(0, runs, AT_ONCE)]
    key = int(1e6 * case.change) + int(1e5 * case.spread)
    jobs = [executor.submit(verb, case, size, [seed, key, i]) for i, size in enumerate(sizes)]
    return [answer for job in jobs for answer in job.result()]


def power(executor: ProcessPoolExecutor, case: Case, runs: int, seed: int) -> Rounds:
    answers = in_parts(executor, rounds_of, case, runs, seed)
    different, same, unknown = (share(answers, answer) for answer in ("different", "same", "unknown"))
    return Rounds(case, runs, different, same, unknown, mean_pairs(answers))


def narrowing(executor: ProcessPoolExecutor, case: Case, runs: int, seed: int) -> NarrowingResult:
    answers = in_parts(executor, narrowings_of, case, runs, seed)
    right, wrong, wide = (share(answers, answer) for answer in ("right", "wrong", "wide"))
    return NarrowingResult(case, runs, right, wrong, wide, mean_pairs(answers))


def share(answers: Sequence[tuple[str, int]], outcome: str) -> float:
    return sum(answer == outcome for answer, _ in answers) / len(answers)


def mean_pairs(answers: Sequence[tuple[str, int]]) -> float:
    return sum(pairs for _, pairs in answers) / len(answers)
