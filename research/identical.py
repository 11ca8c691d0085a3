"""How often a program is called different from itself: comparisons as suspicions are settled, each of fresh processes.

python research/identical.py measure SERVER PROGRAM FILE [--comparisons 400] [--budget 8]
python research/identical.py report FILE... [--strung 40]

SERVER: kvd, redis or memcached; PROGRAM: its binary. Each comparison is a line of JSON in FILE with all of its pairs;
`measure` goes on after the last whole line, so it may be interrupted. A comparison ends when every metric has its
answer, or after `--budget` seconds. A change is looked for in both directions, with half of the level for each.

Every answer is given twice: by the pairs that the product would keep (none of the flags that void the metric), and by
all pairs, however the machine was disturbed. As few pairs can hardly be called different, `report` also strings all
pairs together, in their order, to comparisons of `--strung` pairs, and looks after each pair: a comparison counts as
different if it ever was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from research import noise
from runners.documents import Benchmark
from runners.errors import Permanent, Transient
from runners.measuring import pairs
from runners.measuring.trials import Trial, TrialRunner
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.stats.comparing import sequential
from speedtrack.stats.comparing.compare import ComparisonAnswer, pairs_to_settle, settle_pairs

JUDGED = (noise.CPU, noise.RATE)  # the metrics whose changes are mailed
PATIENCE_S = 1.0  # that a comparison waits for a quiet machine, at most


@dataclass(frozen=True)
class MeasuredPair:
    """One pair: base and head by metric, and the flags of either side."""

    values: dict[str, tuple[float, float]]
    flags: frozenset[str]

    @classmethod
    def of(cls, sides: dict[str, Trial]) -> MeasuredPair:
        base, head = sides["base"], sides["head"]
        values = {metric: (base.metrics[metric], head.metrics[metric]) for metric in JUDGED}
        return cls(values, frozenset(base.flags) | frozenset(head.flags))


def measure(options: argparse.Namespace) -> None:
    done = whole_lines(options.file)
    with tempfile.TemporaryDirectory(prefix="speedtrack-identical-") as home:
        bench = noise.LocalRunner(Path(home), options.program.absolute(), "UNUSED")
        gate = replace(bench.tools.gate, patience_s=PATIENCE_S)
        bench.tools = replace(bench.tools, gate=gate)
        for seed in range(done, options.comparisons):
            one = comparison(bench, options, seed)
            with options.file.open("a") as file:
                file.write(json.dumps(one) + "\n")


def whole_lines(file: Path) -> int:
    """How many comparisons the file has. Cuts off a line that an interruption left unfinished."""
    if not file.exists():
        return 0
    text = file.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        file.write_bytes(whole)
    return whole.count(b"\n")


def comparison(bench: noise.LocalRunner, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    asked = noise.job(options.server, ("base", "head"), [noise.benchmark("p16", "get", 16, options)])
    asked = replace(asked, seed=seed * noise.MOST)
    runner = bench.runner(asked, {"base": noise.NEVER, "head": noise.NEVER}, seed)
    began, load = time.monotonic(), os.getloadavg()[0]
    blocks = settle(runner, asked.benchmarks[0], began + options.budget, seed)
    return {
        "server": options.server,
        "comparison": seed,
        "seconds": round(time.monotonic() - began, 2),
        "load_average": load,
        "kept": {metric: answer(kept(blocks, metric), metric, seed) for metric in JUDGED},
        "all": {metric: answer([one.values[metric] for one in blocks], metric, seed) for metric in JUDGED},
        "pairs": [one.values | {"flags": sorted(one.flags)} for one in blocks],
    }


def settle(runner: TrialRunner, one: Benchmark, until_s: float, seed: int) -> list[MeasuredPair]:
    """Rounds of pairs until every metric has an answer, or the time is up."""
    blocks: list[MeasuredPair] = []
    tried, wanted = 0, noise.FIRST
    while wanted and tried < noise.MOST:
        for number in range(tried, min(tried + wanted, noise.MOST)):
            if time.monotonic() > until_s:
                return blocks
            blocks += measured_block(runner, one, number)
            tried += 1
        wanted = max(next_round(kept(blocks, metric), metric, seed) for metric in JUDGED)
    return blocks


def measured_block(runner: TrialRunner, one: Benchmark, number: int) -> Iterator[MeasuredPair]:
    """One block; none if the machine was too busy for the servers to have a turn."""
    try:
        yield MeasuredPair.of(pairs.measure_pair(runner, one, number))
    except Transient as error:
        print(f"pair {number}: {error}", file=sys.stderr, flush=True)


def kept(blocks: list[MeasuredPair], metric: str) -> list[tuple[float, float]]:
    """The pairs that the product would judge."""
    return [one.values[metric] for one in blocks if not one.flags & METRICS[metric].voided_by]


def next_round(values: list[tuple[float, float]], metric: str, seed: int) -> int:
    if values and answer(values, metric, seed)["answer"] != ComparisonAnswer.UNKNOWN:
        return 0
    return pairs_to_settle(values, smallest_effect=METRICS[metric].smallest_effect, level=noise.LEVEL)


def answer(values: list[tuple[float, float]], metric: str, seed: int) -> dict[str, Any]:
    if not values:
        return {"answer": ComparisonAnswer.UNKNOWN, "pairs": 0}
    effect = METRICS[metric].smallest_effect
    found = settle_pairs(values, smallest_effect=effect, level=noise.LEVEL, seed=seed)
    return {
        "answer": found.answer,
        "pairs": len(values),
        "ratio": round(found.ratio, 5),
        "interval": [round(found.low, 5), round(found.high, 5)],
        "p": found.p,
    }


def report(options: argparse.Namespace) -> None:
    lines = [json.loads(line) for file in options.files for line in file.read_text().splitlines()]
    if not lines:
        raise SystemExit("no comparison is finished yet")
    loads = sorted(one["load_average"] for one in lines)
    print(
        f"{len(lines)} comparisons, {sum(len(one['pairs']) for one in lines)} pairs, median "
        f"{median(one['seconds'] for one in lines):.1f} s each; load average {loads[0]:.1f} to {loads[-1]:.1f}, "
        f"median {median(loads):.1f}"
    )
    print(f"stated: at most {noise.LEVEL:.0%} are called different")
    print(f"{'':>26} different  same  unknown  pairs (median)  95% of estimates within")
    for way in ("kept", "all"):
        for metric in JUDGED:
            found = [one[way][metric] for one in lines]
            count = Counter(one["answer"] for one in found)
            apart = sorted(abs(one["ratio"] - 1) for one in found if one["pairs"])
            print(
                f"{noise.METRICS[metric] + ', ' + way + ' pairs':>26} {count['different']:>9} {count['same']:>5} "
                f"{count['unknown']:>8} {median(one['pairs'] for one in found):>15.0f}"
                f"{apart[int(0.95 * len(apart))] if apart else 0:>17.2%}"
            )

    blocks = [pair for one in lines for pair in one["pairs"]]
    strings = [blocks[at : at + options.strung] for at in range(0, len(blocks), options.strung)]
    strings = [one for one in strings if len(one) == options.strung]
    print(f"{len(strings)} comparisons of {options.strung} of these pairs each, looked at after every pair:")
    for metric in JUDGED:
        ever = sum(ever_different([pair[metric] for pair in one], metric, seed) for seed, one in enumerate(strings))
        print(f"{noise.METRICS[metric]:>26} {ever:>9} were ever different")


def ever_different(values: list[tuple[float, float]], metric: str, seed: int) -> bool:
    looks = range(sequential.FEWEST, len(values) + 1)
    return any(answer(values[:n], metric, seed)["answer"] == ComparisonAnswer.DIFFERENT for n in looks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(required=True)
    measuring = ways.add_parser("measure")
    measuring.add_argument("server", choices=noise.COMMANDS)
    measuring.add_argument("program", type=Path)
    measuring.add_argument("file", type=Path)
    measuring.add_argument("--comparisons", type=int, default=400)
    measuring.add_argument("--budget", type=float, default=8.0, help="seconds for a comparison")
    measuring.add_argument("--seconds", type=float, default=0.1, help="window of a side of a block")
    measuring.add_argument("--warmup", type=float, default=0.05)
    measuring.add_argument("--keys", type=int, default=5_000)
    measuring.set_defaults(verb=measure)
    reporting = ways.add_parser("report")
    reporting.add_argument("files", type=Path, nargs="+")
    reporting.add_argument("--strung", type=int, default=40)
    reporting.set_defaults(verb=report)
    options = parser.parse_args()
    try:
        options.verb(options)
    except Permanent as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
