"""Run the peers on the same lines, in their own Python, and score them as the tracker is scored."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from research.detection_eval.datasets import DataSet
from research.detection_eval.peers import PEERS
from research.detection_eval.scores import Found, Record, Score, score

ROOT = Path(__file__).resolve().parent.parent.parent
SLOW = {"MongoDB e-divisive": 8, "Otava": 2, "Otava, >= 2%": 2}  # these get each n-th line only


@dataclass(frozen=True)
class PeerScore:
    peer: str
    dataset: str
    score: Score
    ms: float  # of CPU per point
    vanished: float  # share of its reports that it took back


def compare(python: str, sets: Sequence[DataSet], count: int) -> list[PeerScore]:
    """The scores of all peers that this Python has, by ``count`` processes."""
    lines = [[list(point) for point in line.values] for one in sets for line in one.lines]
    places = [(one, line) for one in sets for line in one.lines]
    jobs = [{"peer": peer, "line": i} for peer in PEERS for i in range(len(lines)) if i % SLOW.get(peer, 1) == 0]
    parts = [jobs[k::count] for k in range(count)]
    with ThreadPoolExecutor(count) as threads:
        answers = [a for part in threads.map(lambda part: list(run(python, lines, part)), parts) for a in part]
    found: Mapping[tuple[str, str], list[tuple[Record, float, list[bool]]]] = defaultdict(list)
    for answer in answers:
        one, line = places[answer["line"]]
        founds = [
            Found(r["seen"], r["direction"], [r["place"]], "confirmed", range=(r["place"] - 1, r["place"]))
            for r in answer["reports"]
        ]
        vanished = [r["vanished"] for r in answer["reports"]]
        found[answer["peer"], one.name].append((Record(line, founds, margin=one.margin), answer["seconds"], vanished))
    return [one_score(peer, name, rows) for (peer, name), rows in found.items()]


def run(python: str, lines: Sequence[object], jobs: Sequence[object]) -> Iterator[dict]:
    argv = [python, "-m", "research.detection_eval.peers"]
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
