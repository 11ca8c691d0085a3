"""Evaluate detection and settling from the measurement to the named commit, and print (or write) the tables.

python -m research.detection_eval [--quick] [--harness FOLDER [--data FOLDER]] [--peers PYTHON] [--write FILE]
    [--lines N] [--seed N]

Generated lines are the project's own; with --harness those of that folder's generate.py (`synthetic`, `resampled`,
`labelled`), which add resampled noise of real histories and histories whose changes people confirmed; --data is where
it finds them. --peers is a Python in which requirements-peers.txt is installed. A run of the same arguments on the same
code gives the same tables, but for costs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from research.detection_eval import beside, cost, datasets, noise, report, settling, workers
from research.detection_eval.datasets import DataSet
from research.detection_eval.scores import score
from research.detection_eval.settling import Case

MARKS = ("<!-- detection-eval: begin -->", "<!-- detection-eval: end -->")
SPREADS, CHANGES = (0.01, 0.017, 0.02, 0.04), (0.01, 0.02, 0.03, 0.05)
NARROW = tuple(Case(change, 0.017) for change in (0.02, 0.03, 0.05, 0.10))
BETWEEN = (0.01, 0.017)  # of the runs of young lines


@dataclass(frozen=True)
class Extent:
    """How much of everything."""

    lines: int  # of the largest data set
    nulls: int  # suspicions without a change, over all spreads
    power: int  # suspicions of each change and spread
    narrowings: int
    young: int
    lengths: tuple[int, ...]


QUICK = Extent(lines=4, nulls=400, power=40, narrowings=60, young=20, lengths=(240, 1000))
WHOLE = Extent(lines=24, nulls=4000, power=200, narrowings=1000, young=60, lengths=(240, 1000, 10_000))


def main() -> None:
    options = arguments()
    extent = QUICK if options.quick else WHOLE
    sizes = datasets.sizes_for(options.lines or extent.lines)
    harness = datasets.generator_of(options.harness, options.data) if options.harness else None
    sets = datasets.own(sizes, options.seed, harness)
    if harness:
        sets += datasets.public(sizes, options.seed, harness)
    begun = time.monotonic()
    with workers.pool(workers.cores()) as executor:
        parts = evaluate(executor, sets, extent, options.seed, options.peers)
    text = "\n\n".join([heading(options, sets, time.monotonic() - begun), *parts])
    print(text)
    if options.write:
        write(options.write, text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under three minutes")
    parser.add_argument("--harness", type=Path, help="a folder with generate.py and harness.py")
    parser.add_argument("--data", type=Path, help="the histories that the harness reads")
    parser.add_argument("--peers", help="a Python that has the peers")
    parser.add_argument("--write", type=Path, help="a file in which the tables stand between two marks")
    parser.add_argument("--lines", type=int, help="generated lines with steps; other sets scale with them")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.data and not options.harness:
        parser.error("--data is read by the harness's generator: give --harness too")
    return options


def evaluate(
    executor: ProcessPoolExecutor, sets: Sequence[DataSet], extent: Extent, seed: int, peers: str | None
) -> list[str]:
    """The tables, in the order in which they are read."""
    records = workers.play(executor, sets, seed, say)
    scores = {name: score(found) for name, found in records.items()}
    failed = [record.line.id for found in records.values() for record in found if record.error]
    parts = [
        "### From a measurement to a confirmed change\n\n" + report.whole_way(scores),
        "### To the right commit\n\n" + report.commits_named(scores),
        "### Where true changes are lost\n\n" + report.losses(scores),
        "### Drift\n\n" + report.drift(records[datasets.DRIFT]),
        *([f"Detection failed on: {', '.join(failed)}."] if failed else []),
    ]
    say("settling")
    nulls = [Case(0.0, spread) for spread in (0.01, 0.017, 0.04)] + [Case(0.0, 0.017, heavy=True)]
    power = [Case(change, spread) for change in CHANGES for spread in SPREADS]
    rows = settling.power(executor, nulls, extent.nulls // len(nulls), seed)
    rows += settling.power(executor, power, extent.power, seed)
    parts.append("### Settling\n\n" + report.rounds(rows))
    narrowings = settling.narrowing(executor, NARROW, extent.narrowings, seed)
    parts.append(f"### Narrowing a range of {settling.RANGE}\n\n" + report.narrowed(narrowings))
    parts.append("### Lines of 12 commits, five trials of 0.5%\n\n" + report.young_lines(young(executor, extent, seed)))
    say("costs")
    points = [executor.submit(cost.of_a_point, length, 1, seed).result() for length in extent.lengths]
    points.append(executor.submit(cost.of_a_point, 1000, 20, seed).result())
    parts.append("### Cost of detection per new point\n\n" + report.costs(points))
    parts.insert(0, "### Beside the targets\n\n" + report.targets(scores, rows, narrowings, points))
    others = [one for one in sets if one.name in BESIDE]
    found = beside.history(executor, others)
    if peers:
        say("peers")
        found += beside.compare(peers, others, workers.cores())
    if found:
        parts.append("### Beside other detectors\n\n" + report.beside_peers(scores, found))
    return parts


BESIDE = (
    datasets.SYNTHETIC, datasets.SYNTHETIC_NONE, datasets.REAL, datasets.REAL_NONE, datasets.SAP, datasets.TALOS
)  # fmt: skip


def young(executor: ProcessPoolExecutor, extent: Extent, seed: int) -> dict[float, float]:
    """False suspicions per 1000 commits of lines that have just begun, by how much their runs differ."""
    sets = [DataSet(str(between), noise.young(extent.young, seed, between=between)) for between in BETWEEN]
    records = workers.play(executor, sets, seed, say)
    return {float(name): score(found).suspicions for name, found in records.items()}


def heading(options: argparse.Namespace, sets: Sequence[DataSet], seconds: float) -> str:
    commits = sum(len(line.values) for one in sets for line in one.lines)
    given = [word for word, value in (("QUICK=1", options.quick), (f"LINES={options.lines}", options.lines),
                                      ("HARNESS=…", options.harness), ("DATA=…", options.data),
                                      ("PEERS=1", options.peers)) if value]  # fmt: skip
    source = "the harness's generator and histories" if options.harness else "the project's own generator"
    lines = sum(len(one.lines) for one in sets)
    return (
        f"`{' '.join(['make detection-eval', *given])}`: seed {options.seed}, {commits} commits of {lines} lines from "
        f"{source}, {workers.cores()} processes, {seconds / 60:.0f} minutes."
    )


def write(file: Path, text: str) -> None:
    """Put the tables between the marks of a document."""
    document = file.read_text()
    if any(document.count(mark) != 1 for mark in MARKS):
        sys.exit(f"{file} must have each of the lines {' and '.join(MARKS)} once")
    before, rest = document.split(MARKS[0])
    file.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
