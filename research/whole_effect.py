"""What the whole effect of a commit costs and finds: pairs of thirteen benchmarks, judged together.

python research/whole_effect.py [--suites 400] [--seed 1] [--block 1.2]

For each kind of noise, the share of suites without a change in which any benchmark was told to have moved (stated: 5%);
then, by the spread of a side, how many of 1, 4 or 13 benchmarks that are 3% slower are told, and how many of those told
stood still. `product` takes the rounds of the workers; `ten pairs` is one round of ten. --block: seconds of a pair.
Needs no database; some minutes on one core.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import django
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")
django.setup()

from research.settle_power import KINDS  # noqa: E402 - models: only once Django is set up
from speedtrack.alerts.pairs.suites import FALSE_SHARE, is_open  # noqa: E402
from speedtrack.alerts.settling.whole import FIRST, MORE, ROUNDS  # noqa: E402
from speedtrack.stats.arrays import Array  # noqa: E402
from speedtrack.stats.comparing import sequential  # noqa: E402
from speedtrack.stats.comparing.compare import (  # noqa: E402
    MISSED,
    Comparison,
    ComparisonAnswer,
    benjamini_hochberg,
    settle_pairs,
)

BENCHMARKS, SMALLEST, CHANGE = 13, 0.01, 0.03
SPREADS = (0.007, 0.01, 0.014)  # of a side
WAYS = {"ten pairs": (10, 0, 1), "product": (FIRST, MORE, ROUNDS)}


@dataclass(frozen=True)
class SuiteVerdict:
    """The benchmarks of a suite told to have moved, and the pairs that took."""

    moves: list[bool]
    pairs: int
    rounds: int


def measured(steps: Array, first: int, further: int, rounds: int) -> SuiteVerdict:
    """Judge the benchmarks, a row of steps each, in rounds."""
    counts, number = [first] * len(steps), 1
    while True:
        comparisons = [judged(row[:count], seed) for seed, (row, count) in enumerate(zip(steps, counts, strict=True))]
        accepted = benjamini_hochberg([comparison.p for comparison in comparisons], FALSE_SHARE)
        moves = [
            comparison.answer == ComparisonAnswer.DIFFERENT and is_shown
            for comparison, is_shown in zip(comparisons, accepted, strict=True)
        ]
        undecided = [
            not is_told and is_open(comparison) for is_told, comparison in zip(moves, comparisons, strict=True)
        ]
        if number == rounds or not any(undecided):
            return SuiteVerdict(moves, sum(counts), number)
        counts = [count + further * is_undecided for count, is_undecided in zip(counts, undecided, strict=True)]
        number += 1


def judged(steps: Array, seed: int) -> Comparison:
    """The answer of `settle_pairs`; without its intervals, which take longest, where the evidence is too small."""
    rows, effect = np.array([steps, -steps]), math.log1p(SMALLEST)
    p = math.exp(min(0.0, math.log(2) - float(sequential.change_evidence(rows, effect).max())))
    if p <= FALSE_SHARE:
        pairs = [(1.0, math.exp(step)) for step in steps]
        return settle_pairs(pairs, smallest_effect=SMALLEST, level=FALSE_SHARE, seed=seed)
    is_same = float(sequential.level_evidence(rows, effect).max()) <= math.log(MISSED)
    answer = ComparisonAnswer.SAME if is_same else ComparisonAnswer.UNKNOWN
    return Comparison(answer, 1.0, 1.0, 1.0, p, FALSE_SHARE, (len(steps), len(steps)))


def suites_of(rng: np.random.Generator, kind: str, count: int, spread: float, moved_count: int) -> Array:
    """The steps of so many suites: pairs of benchmarks of which the first ones moved by CHANGE."""
    most = FIRST + MORE * ROUNDS
    trials = spread * KINDS[kind](rng, (count * BENCHMARKS, 2 * most)).reshape(count, BENCHMARKS, most, 2)
    order = rng.choice([-1.0, 1.0], (count, BENCHMARKS, most))
    changes = np.where(np.arange(BENCHMARKS) < moved_count, math.log1p(CHANGE), 0.0)
    steps: Array = order * (trials[..., 1] - trials[..., 0]) + changes[:, None]
    return steps


def show(title: str, verdicts: Sequence[SuiteVerdict], moved_count: int, block_s: float) -> str:
    true = sum(sum(verdict.moves[:moved_count]) for verdict in verdicts)
    false = [sum(verdict.moves[moved_count:]) for verdict in verdicts]
    shares = [wrong / max(1, sum(verdict.moves)) for wrong, verdict in zip(false, verdicts, strict=True)]
    pairs = np.array([verdict.pairs for verdict in verdicts])
    power = f"{true / len(verdicts) / moved_count:6.1%}" if moved_count else "     -"
    return (
        f"  {title:10} power {power}  false share {np.mean(shares):6.2%}  pairs {pairs.mean():5.1f}"
        f" (95%: {np.quantile(pairs, 0.95):.0f})  {pairs.mean() * block_s:4.0f} s"
        f"  rounds {np.mean([verdict.rounds for verdict in verdicts]):.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--block", type=float, default=1.2)
    options = parser.parse_args()
    cases = [(kind, 0.01, 0) for kind in KINDS] + [("normal", s, m) for m in (1, 4, 13) for s in SPREADS]
    for number, (kind, spread, moved_count) in enumerate(cases):
        print(f"{kind}, spread {spread:.1%}, {moved_count} of {BENCHMARKS} moved by {CHANGE:.0%}")
        steps = suites_of(np.random.default_rng([options.seed, number]), kind, options.suites, spread, moved_count)
        for title, rounds in WAYS.items():
            print(show(title, [measured(suite, *rounds) for suite in steps], moved_count, options.block), flush=True)


if __name__ == "__main__":
    main()
