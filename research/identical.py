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
    finished_count = whole_lines(options.file)
    with tempfile.TemporaryDirectory(prefix="speedtrack-identical-") as home:
        bench = noise.LocalRunner(Path(home), options.program.absolute(), "UNUSED")
        gate = replace(bench.tools.gate, patience_s=PATIENCE_S)
        bench.tools = replace(bench.tools, gate=gate)
        for seed in range(finished_count, options.comparisons):
            document = comparison(bench, options, seed)
            with options.file.open("a") as file:
                file.write(json.dumps(document) + "\n")


def whole_lines(file: Path) -> int:
    """How many comparisons the file has. Cuts off a line that an interruption left unfinished."""
    if not file.exists():
        return 0
    text = file.read_bytes()
    complete_lines = text[: text.rfind(b"\n") + 1]
    if complete_lines != text:
        file.write_bytes(complete_lines)
    return complete_lines.count(b"\n")


def comparison(bench: noise.LocalRunner, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    job = noise.job(options.server, ("base", "head"), [noise.benchmark("p16", "get", 16, options)])
    job = replace(job, seed=seed * noise.MOST)
    runner = bench.runner(job, {"base": noise.NEVER, "head": noise.NEVER}, seed)
    began, load = time.monotonic(), os.getloadavg()[0]
    blocks = settle(runner, job.benchmarks[0], began + options.budget, seed)
    return {
        "server": options.server,
        "comparison": seed,
        "seconds": round(time.monotonic() - began, 2),
        "load_average": load,
        "kept": {metric: answer(kept(blocks, metric), metric, seed) for metric in JUDGED},
        "all": {metric: answer([block.values[metric] for block in blocks], metric, seed) for metric in JUDGED},
        "pairs": [block.values | {"flags": sorted(block.flags)} for block in blocks],
    }


def settle(runner: TrialRunner, benchmark: Benchmark, until_s: float, seed: int) -> list[MeasuredPair]:
    """Rounds of pairs until every metric has an answer, or the time is up."""
    blocks: list[MeasuredPair] = []
    attempt_count, round_size = 0, noise.FIRST
    while round_size and attempt_count < noise.MOST:
        for number in range(attempt_count, min(attempt_count + round_size, noise.MOST)):
            if time.monotonic() > until_s:
                return blocks
            blocks += measured_block(runner, benchmark, number)
            attempt_count += 1
        round_size = max(next_round(kept(blocks, metric), metric, seed) for metric in JUDGED)
    return blocks


def measured_block(runner: TrialRunner, benchmark: Benchmark, number: int) -> Iterator[MeasuredPair]:
    """One block; none if the machine was too busy for the servers to have a turn."""
    try:
        yield MeasuredPair.of(pairs.measure_pair(runner, benchmark, number))
    except Transient as error:
        print(f"pair {number}: {error}", file=sys.stderr, flush=True)


def kept(blocks: list[MeasuredPair], metric: str) -> list[tuple[float, float]]:
    """The pairs that the product would judge."""
    return [block.values[metric] for block in blocks if not block.flags & METRICS[metric].voided_by]


def next_round(values: list[tuple[float, float]], metric: str, seed: int) -> int:
    if values and answer(values, metric, seed)["answer"] != ComparisonAnswer.UNKNOWN:
        return 0
    return pairs_to_settle(values, smallest_effect=METRICS[metric].smallest_effect, level=noise.LEVEL)


def answer(values: list[tuple[float, float]], metric: str, seed: int) -> dict[str, Any]:
    if not values:
        return {"answer": ComparisonAnswer.UNKNOWN, "pairs": 0}
    effect = METRICS[metric].smallest_effect
    verdict = settle_pairs(values, smallest_effect=effect, level=noise.LEVEL, seed=seed)
    return {
        "answer": verdict.answer,
        "pairs": len(values),
        "ratio": round(verdict.ratio, 5),
        "interval": [round(verdict.low, 5), round(verdict.high, 5)],
        "p": verdict.p,
    }


def report(options: argparse.Namespace) -> None:
    lines = [json.loads(line) for file in options.files for line in file.read_text().splitlines()]
    if not lines:
        raise SystemExit("no comparison is finished yet")
    loads = sorted(line["load_average"] for line in lines)
    print(
        f"{len(lines)} comparisons, {sum(len(line['pairs']) for line in lines)} pairs, median "
        f"{median(line['seconds'] for line in lines):.1f} s each; load average {loads[0]:.1f} to {loads[-1]:.1f}, "
        f"median {median(loads):.1f}"
    )
    print(f"stated: at most {noise.LEVEL:.0%} are called different")
    print(f"{'':>26} different  same  unknown  pairs (median)  95% of estimates within")
    for selection in ("kept", "all"):
        for metric in JUDGED:
            answers = [line[selection][metric] for line in lines]
            count = Counter(row["answer"] for row in answers)
            apart = sorted(abs(row["ratio"] - 1) for row in answers if row["pairs"])
            print(
                f"{noise.METRICS[metric] + ', ' + selection + ' pairs':>26} {count['different']:>9} {count['same']:>5} "
                f"{count['unknown']:>8} {median(row['pairs'] for row in answers):>15.0f}"
                f"{apart[int(0.95 * len(apart))] if apart else 0:>17.2%}"
            )

    blocks = [pair for line in lines for pair in line["pairs"]]
    strings = [blocks[at : at + options.strung] for at in range(0, len(blocks), options.strung)]
    strings = [string for string in strings if len(string) == options.strung]
    print(f"{len(strings)} comparisons of {options.strung} of these pairs each, looked at after every pair:")
    for metric in JUDGED:
        ever = sum(
            ever_different([pair[metric] for pair in string], metric, seed) for seed, string in enumerate(strings)
        )
        print(f"{noise.METRICS[metric]:>26} {ever:>9} were ever different")


def ever_different(values: list[tuple[float, float]], metric: str, seed: int) -> bool:
    looks = range(sequential.FEWEST, len(values) + 1)
    return any(answer(values[:n], metric, seed)["answer"] == ComparisonAnswer.DIFFERENT for n in looks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    subcommands = parser.add_subparsers(required=True)
    measuring = subcommands.add_parser("measure")
    measuring.add_argument("server", choices=noise.COMMANDS)
    measuring.add_argument("program", type=Path)
    measuring.add_argument("file", type=Path)
    measuring.add_argument("--comparisons", type=int, default=400)
    measuring.add_argument("--budget", type=float, default=8.0, help="seconds for a comparison")
    measuring.add_argument("--seconds", type=float, default=0.1, help="window of a side of a block")
    measuring.add_argument("--warmup", type=float, default=0.05)
    measuring.add_argument("--keys", type=int, default=5_000)
    measuring.set_defaults(verb=measure)
    reporting = subcommands.add_parser("report")
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
