"""Run other detectors on the same lines, in their own Python, and score them like the tracker."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.detection_eval.lines.datasets import DataSet
from research.detection_eval.lines.lines import Line
from research.detection_eval.scores import Record, Score, TrackedChange, score

ROOT = Path(__file__).resolve().parents[3]
SLOW = {"MongoDB e-divisive": 8, "Otava": 4, "Otava, >= 2%": 4, "asv steps, 5%": 4}  # these get each n-th line only


@dataclass(frozen=True)
class PeerScore:
    peer: str
    dataset: str
    score: Score
    ms: float  # of CPU per point
    vanished: float  # share of its reports that it took back


def compare(python: str, peer: str, sets: Sequence[DataSet], count: int) -> list[PeerScore]:
    """The scores of a peer on each set, by ``count`` processes; none if this Python lacks it."""
    lines = [[list(point) for point in line.values] for dataset in sets for line in dataset.lines]
    sources = [(dataset, line) for dataset in sets for line in dataset.lines]
    jobs = [{"peer": peer, "line": i} for i in range(0, len(lines), SLOW.get(peer, 1))]
    shares = [jobs[k::count] for k in range(count)]
    with ThreadPoolExecutor(count) as threads:
        answers = [a for share in threads.map(lambda share: list(run(python, lines, share)), shares) for a in share]
    rows_by_set: Mapping[tuple[str, str], list[tuple[Record, float, list[bool]]]] = defaultdict(list)
    for answer in answers:
        dataset, line = sources[answer["line"]]
        changes = [
            TrackedChange(r["seen"], r["direction"], [r["place"]], "confirmed", range=(r["place"] - 1, r["place"]))
            for r in answer["reports"]
        ]
        vanished = [r["vanished"] for r in answer["reports"]]
        rows_by_set[answer["peer"], dataset.name].append(
            (Record(line, changes, margin=dataset.margin), answer["seconds"], vanished)
        )
    return [one_score(peer, name, rows) for (peer, name), rows in rows_by_set.items()]


def history(executor: ProcessPoolExecutor, sets: Sequence[DataSet]) -> list[PeerScore]:
    """The scores of the verdict from history alone; none where the tracker has no such verdict."""
    if importlib.util.find_spec("speedtrack.stats.changes.history") is None:
        return []
    jobs = [(dataset, line, executor.submit(history_of, line)) for dataset in sets for line in dataset.lines]
    rows_by_set: Mapping[str, list[tuple[Record, float, list[bool]]]] = defaultdict(list)
    for dataset, line, job in jobs:
        changes, seconds = job.result()
        rows_by_set[dataset.name].append(
            (Record(line, changes, margin=dataset.margin), seconds, [False] * len(changes))
        )
    return [one_score("SpeedTrack, from history alone", name, rows) for name, rows in rows_by_set.items()]


def history_of(line: Line) -> tuple[list[TrackedChange], float]:
    """Every verdict of a line as its points arrive, none of which is taken back; and the seconds it took."""
    replay = importlib.import_module("speedtrack.stats.changes.history").SeriesReplay()
    changes: list[TrackedChange] = []
    began_at = time.process_time()
    for now, values in enumerate(line.values):
        for position, direction in replay.push(now, values)[len(changes) :]:
            changes.append(TrackedChange(now, direction, [position], "confirmed", range=(position - 1, position)))
    return changes, time.process_time() - began_at


def run(python: str, lines: Sequence[object], jobs: Sequence[object]) -> Iterator[dict[str, Any]]:
    argv = [python, "-m", "research.detection_eval.detectors.peers"]
    work = json.dumps({"lines": lines, "jobs": jobs})
    process = subprocess.run(argv, cwd=ROOT, input=work, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        sys.exit(f"{' '.join(argv)} ended with {process.returncode}: its message is above")
    yield from map(json.loads, process.stdout.splitlines())


def one_score(peer: str, name: str, rows: Sequence[tuple[Record, float, list[bool]]]) -> PeerScore:
    commits = sum(len(record.line.values) for record, _, _ in rows)
    vanished = [flag for *_, flags in rows for flag in flags]
    share = sum(vanished) / len(vanished) if vanished else 0.0
    return PeerScore(peer, name, score(r for r, _, _ in rows), 1000 * sum(s for _, s, _ in rows) / commits, share)
