"""How often does `settle` confirm a change of a given size, and how often one that is not there?

python research/settle_power.py [--cv 0.017] [--runs 2000] [--level 0.01]
Prints one row per number of pairs with a single look, then the whole re-measurement with several looks.
Trials are log-normal and independent; heavy: Student's t with 4 degrees of freedom, scaled to the same CV.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from speedtrack.stats.compare import Answer, fewest_pairs, settle

RATIOS = (1.0, 1.01, 1.03, 1.05)
ONE_LOOK = ((8,), (10,), (12,), (15,), (20,))
SEVERAL = ((10, 20), (10, 14, 20), (10, 20, 40), (12, 20, 40, 80))


def draw(rng: np.random.Generator, n: int, ratio: float, options: argparse.Namespace) -> list[tuple[float, float]]:
    noise = rng.standard_t(4, (n, 2)) / np.sqrt(2) if options.heavy else rng.normal(size=(n, 2))
    values = 100 * np.exp(options.cv * noise) * np.array([1.0, ratio])
    return [(float(base), float(head)) for base, head in values]


def answer(pairs: Sequence[tuple[float, float]], sizes: Sequence[int], level: float) -> tuple[Answer, int]:
    for look, n in enumerate(sizes, start=1):
        found = settle(pairs[:n], smallest_effect=0.01, level=level, looks=len(sizes), look=look, seed=look)
        if found.answer is not Answer.UNKNOWN:
            break
    return found.answer, n


def row(sizes: Sequence[int], options: argparse.Namespace) -> str:
    rng = np.random.default_rng(1)
    cells = []
    for ratio in RATIOS:
        answers = [answer(draw(rng, sizes[-1], ratio, options), sizes, options.level) for _ in range(options.runs)]
        different = sum(one is Answer.DIFFERENT for one, _ in answers) / options.runs
        same = sum(one is Answer.SAME for one, _ in answers) / options.runs
        cells.append(f"{100 * different:6.2f} {100 * same:6.2f} {np.mean([n for _, n in answers]):5.1f}")
    return f"{'+'.join(map(str, sizes)):>12} {fewest_pairs(options.level, len(sizes)):>4}  " + "   ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cv", type=float, default=0.017)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--level", type=float, default=0.01)
    parser.add_argument("--heavy", action="store_true")
    options = parser.parse_args()
    print(f"{'looks at':>12} {'min':>4}  " + "   ".join(f"{f'ratio {r}':^20}" for r in RATIOS))
    print(" " * 19 + "   ".join(["diff%  same% pairs"] * len(RATIOS)))
    for sizes in (*ONE_LOOK, *SEVERAL):
        print(row(sizes, options), flush=True)


if __name__ == "__main__":
    main()
