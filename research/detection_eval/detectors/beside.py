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
    """The scores of a peer on each set, by ``count`` processes; none if this Python does not have it."""
    lines = [[list(point) for point in line.values] for one in sets for line in one.lines]
    places = [(one, line) for one in sets for line in one.lines]
    jobs = [{"peer": peer, "line": i} for i in range(0, len(lines), SLOW.get(peer, 1))]
    parts = [jobs[k::count] for k in range(count)]
    with ThreadPoolExecutor(count) as threads:
        answers = [a for part in threads.map(lambda part: list(run(python, lines, part)), parts) for a in part]
    found: Mapping[tuple[str, str], list[tuple[Record, float, list[bool]]]] = defaultdict(list)
    for answer in answers:
        one, line = places[answer["line"]]
        founds = [
            TrackedChange(r["seen"], r["direction"], [r["place"]], "confirmed", range=(r["place"] - 1, r["place"]))
            for r in answer["reports"]
        ]
        vanished = [r["vanished"] for r in answer["reports"]]
        found[answer["peer"], one.name].append((Record(line, founds, margin=one.margin), answer["seconds"], vanished))
    return [one_score(peer, name, rows) for (peer, name), rows in found.items()]


def history(executor: ProcessPoolExecutor, sets: Sequence[DataSet]) -> list[PeerScore]:
    """The scores of the verdict from history alone; none where the tracker has no such verdict."""
    if importlib.util.find_spec("speedtrack.stats.changes.history") is None:
        return []
    jobs = [(one, line, executor.submit(history_of, line)) for one in sets for line in one.lines]
    found: Mapping[str, list[tuple[Record, float, list[bool]]]] = defaultdict(list)
    for one, line, job in jobs:
        founds, seconds = job.result()
        found[one.name].append((Record(line, founds, margin=one.margin), seconds, [False] * len(founds)))
    return [one_score("SpeedTrack, from history alone", name, rows) for name, rows in found.items()]


def history_of(line: Line) -> tuple[list[TrackedChange], float]:
    """Every verdict of a line as its points arrive, none of which is taken back; and the seconds it took."""
    replay = importlib.import_module("speedtrack.stats.changes.history").Replay()
    founds: list[TrackedChange] = []
    begun = time.process_time()
    for now, values in enumerate(line.values):
        for place, direction in replay.push(now, values)[len(founds) :]:
            founds.append(TrackedChange(now, direction, [place], "confirmed", range=(place - 1, place)))
    return founds, time.process_time() - begun


def run(python: str, lines: Sequence[object], jobs: Sequence[object]) -> Iterator[dict[str, Any]]:
    argv = [python, "-m", "research.detection_eval.detectors.peers"]
    work = json.dumps({"lines": lines, "jobs": jobs})
    done = subprocess.run(argv, cwd=ROOT, input=work, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(argv)} ended with {done.returncode}: its message is above")
    yield from map(json.loads, done.stdout.splitlines())


def one_score(peer: str, name: str, rows: Sequence[tuple[Record, float, list[bool]]]) -> PeerScore:
    commits = sum(len(record.line.values) for record, _, _ in rows)
    vanished = [flag for *_, flags in rows for flag in flags]
    share = sum(vanished) / len(vanished) if vanished else 0.0
    return PeerScore(peer, name, score(r for r, _, _ in rows), 1000 * sum(s for _, s, _ in rows) / commits, share)
