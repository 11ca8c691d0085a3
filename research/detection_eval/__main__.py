"""Evaluate detection and settling from the measurement to the named commit, and print (or write) the tables.

python -m research.detection_eval [--quick] [--harness FOLDER [--data FOLDER]] [--peers PYTHON] [--write FILE]
    [--lines N] [--seed N] [--only PART,...] [--resume]

Generated lines are the project's own; with --harness those of that folder's generate.py (`synthetic`, `resampled`,
`labelled`), which add resampled noise of real histories and histories whose changes people confirmed; --data is where
it finds them. --peers is a Python in which requirements-peers.txt is installed. What is found is kept piece by piece in
--store: with --resume a run goes on with what one of the same arguments has left, and with --only it works out these
parts alone and writes the tables from all that is there. The same arguments give the same tables on the same code, but
for costs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from research.detection_eval import report
from research.detection_eval.detectors import beside, cost, peers, settling, workers
from research.detection_eval.detectors.cost import CostCase
from research.detection_eval.detectors.settling import Case
from research.detection_eval.findings import EvaluationFindings
from research.detection_eval.lines import datasets, noise
from research.detection_eval.lines.datasets import DataSet
from research.detection_eval.scores import score
from research.detection_eval.store import Store

MARKS = ("<!-- detection-eval: begin -->", "<!-- detection-eval: end -->")
PARTS = ("settling", "narrowing", "history", "young", "lines", "peers", "costs")  # in the order of their work
SPREADS, CHANGES = (0.01, 0.017, 0.02, 0.04), (0.01, 0.02, 0.03, 0.05)
NULLS = {Case(0.0, 0.01): 0.7, Case(0.0, 0.017): 0.15, Case(0.0, 0.017, heavy=True): 0.05, Case(0.0, 0.04): 0.1}
NARROW = tuple(Case(change, 0.017) for change in (0.02, 0.03, 0.05, 0.10))
BETWEEN = (0.01, 0.017)  # of the runs of young lines
BESIDE = (datasets.SYNTHETIC, datasets.SYNTHETIC_NONE, datasets.REAL, datasets.REAL_NONE, datasets.SAP, datasets.TALOS)


@dataclass(frozen=True)
class Extent:
    """The size of each part of the evaluation."""

    lines: int  # of the largest data set
    nulls: int  # suspicions without a change, over the shares of NULLS
    power: int  # suspicions of each change and spread
    narrowings: int
    young: int
    lengths: tuple[int, ...]


QUICK = Extent(lines=3, nulls=400, power=20, narrowings=60, young=10, lengths=(240, 1000))
WHOLE = Extent(lines=4, nulls=5000, power=100, narrowings=250, young=20, lengths=(240, 1000, 10_000))


def main() -> None:
    options = arguments()
    extent = QUICK if options.quick else WHOLE
    sizes = datasets.sizes_for(options.lines or extent.lines)
    harness = datasets.generator_of(options.harness, options.data) if options.harness else None
    sets = datasets.own(sizes, options.seed, harness)
    if harness:
        sets += datasets.public(sizes, options.seed, harness)
    store = Store(options.store / name_of(options), resume=options.resume or bool(options.only))
    stages = [stage for stage in PARTS if stage in (options.only or PARTS)]
    with workers.pool(workers.cores()) as executor:
        for stage in stages:
            say(stage)
            work_out(stage, executor, store, sets, extent, options)
    evaluation = findings(store, sets, extent)
    print("\n\n".join([heading(options, evaluation), *report.tables(evaluation)]))
    if options.write:
        write(options.write, "\n\n".join([heading(options, evaluation), *report.summary(evaluation)]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some minutes instead of a quarter of an hour")
    parser.add_argument("--harness", type=Path, help="a folder with generate.py and harness.py")
    parser.add_argument("--data", type=Path, help="the histories that the harness reads")
    parser.add_argument("--peers", help="a Python that has the peers")
    parser.add_argument("--write", type=Path, help="a file in which the short tables stand between two marks")
    parser.add_argument("--lines", type=int, help="generated lines with steps; other sets scale with them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=lambda names: names.split(","), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--resume", action="store_true", help="continue from the pieces of an earlier run")
    parser.add_argument("--store", type=Path, default=Path("var/detection-eval"), help="folder of the stored pieces")
    options = parser.parse_args()
    if options.data and not options.harness:
        parser.error("--data is read by the harness's generator: give --harness too")
    if unknown := set(options.only or ()) - set(PARTS):
        parser.error(f"--only {','.join(sorted(unknown))}: there is only {', '.join(PARTS)}")
    return options


def name_of(options: argparse.Namespace) -> str:
    """The name of the folder in which runs on the same lines store their pieces."""
    extent = "quick" if options.quick else "whole"
    return f"{extent}-{'harness' if options.harness else 'own'}-{options.lines or 'all'}-{options.seed}"


def work_out(
    stage: str,
    executor: ProcessPoolExecutor,
    store: Store,
    sets: Sequence[DataSet],
    extent: Extent,
    options: argparse.Namespace,
) -> None:
    """Work out the missing pieces of a part."""
    seed, compared_sets = options.seed, [dataset for dataset in sets if dataset.name in BESIDE]
    if stage == "settling":
        for case, runs in suspicions(extent).items():
            store.made(f"settling {case}", partial(settling.power, executor, case, runs, seed))
    elif stage == "narrowing":
        for case in NARROW:
            store.made(f"narrowing {case}", partial(settling.narrowing, executor, case, extent.narrowings, seed))
    elif stage == "history":
        store.made("history", partial(beside.history, executor, compared_sets))
    elif stage == "young":
        workers.play(executor, store, young(extent, seed), seed, say)
    elif stage == "lines":
        workers.play(executor, store, sets, seed, say)
    elif stage == "peers" and options.peers:
        for peer in peers.PEERS:
            store.made(f"peer {peer}", partial(beside.compare, options.peers, peer, compared_sets, workers.cores()))
    elif stage == "costs":
        for at in cost_cases(extent):
            store.put(f"cost {at}", executor.submit(cost.of_a_point, at, seed).result())


def suspicions(extent: Extent) -> dict[Case, int]:
    """How many of each case are settled."""
    nulls = {case: round(share * extent.nulls) for case, share in NULLS.items()}
    return nulls | {Case(change, spread): extent.power for change in CHANGES for spread in SPREADS}


def young(extent: Extent, seed: int) -> list[DataSet]:
    """Lines that have just begun, by how much their runs differ."""
    return [DataSet(f"young {between}", noise.young(extent.young, seed, between=between)) for between in BETWEEN]


def cost_cases(extent: Extent) -> list[CostCase]:
    longest = extent.lengths[-1]
    return [*map(CostCase, extent.lengths), CostCase(longest, branches=20), CostCase(1000, series=cost.MANY)]


def findings(store: Store, sets: Sequence[DataSet], extent: Extent) -> EvaluationFindings:
    """All stored pieces, whichever run made them."""
    records = {dataset.name: workers.records_of(store, dataset) for dataset in sets}
    young_records = {
        between: workers.records_of(store, dataset) for between, dataset in zip(BETWEEN, young(extent, 0), strict=True)
    }
    pieces = [store.get(f"peer {peer}") or [] for peer in peers.PEERS]
    return EvaluationFindings(
        records={name: rows for name, rows in records.items() if rows},
        settlings=[row for case in suspicions(extent) if (row := store.get(f"settling {case}"))],
        narrowed=[row for case in NARROW if (row := store.get(f"narrowing {case}"))],
        young={between: score(rows).suspicions for between, rows in young_records.items() if rows},
        costs=[row for at in cost_cases(extent) if (row := store.get(f"cost {at}"))],
        history=store.get("history") or [],
        peers=[row for piece in pieces for row in piece],
    )


def heading(options: argparse.Namespace, evaluation: EvaluationFindings) -> str:
    settings = [
        setting
        for setting, value in (
            ("QUICK=1", options.quick),
            (f"LINES={options.lines}", options.lines),
            ("HARNESS=…", options.harness),
            ("DATA=…", options.data),
            ("PEERS=1", evaluation.peers),
        )
        if value
    ]
    source = "the harness's generator and histories" if options.harness else "the project's own generator"
    commits = sum(len(record.line.values) for records in evaluation.records.values() for record in records)
    return (
        f"`{' '.join(['make detection-eval', *settings])}`: seed {options.seed}, {commits} commits of "
        f"{sum(map(len, evaluation.records.values()))} lines from {source}."
    )


def write(file: Path, text: str) -> None:
    """Put the tables between the marks of a document."""
    document = file.read_text()
    if any(document.count(mark) != 1 for mark in MARKS):
        sys.exit(f"{file} must have each of the lines {' and '.join(MARKS)} once")
    before, tail = document.split(MARKS[0])
    file.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{tail.split(MARKS[1])[1]}")


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
