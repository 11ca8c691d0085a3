"""Detectors that people use, replayed point by point. Runs in an environment of its own, apart from the tracker's.

python -m research.detection_eval.detectors.peers < lines.json > records.json

Those of other packages are called as their users call them; the small ones are written out with their source.
What is missing is left out with a note.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Change = tuple[int, int]
Detector = Callable[[list[float]], Sequence[Change]]
SAME = 5  # a report this near to an earlier one in its direction is the same one
LEAST = 4  # points before which nobody is asked
WIDTH = 8


def direction(y: Sequence[float], index: int) -> int:
    after, before = y[index : index + WIDTH], y[max(0, index - WIDTH) : index]
    return 1 if np.median(after) >= np.median(before) else -1


def otava(y: list[float], magnitude: float = 0.0) -> list[Change]:
    from otava.analysis import compute_change_points

    change_points = compute_change_points(y, window_len=50, max_pvalue=0.001, min_magnitude=magnitude)[0]
    return [(c.index, 1 if c.stats.mean_2 >= c.stats.mean_1 else -1) for c in change_points]


def otava_two_percent(y: list[float]) -> list[Change]:
    return otava(y, 0.02)


def mongodb(y: list[float]) -> list[Change]:
    from signal_processing_algorithms.energy_statistics.energy_statistics import e_divisive

    np.random.seed(0)  # that package draws from the global generator
    return [(int(i), direction(y, int(i))) for i in e_divisive(y, pvalue=0.05, permutations=100)]


def asv(y: list[float], threshold: float = 0.05) -> list[Change]:
    from asv.step_detect import detect_steps

    changes = []
    for before, after in itertools.pairwise(detect_steps(y)):
        least = max(before[4], after[4], threshold * min(abs(before[2]), abs(after[2])))
        long = after[1] - after[0] >= 2 <= before[1] - before[0]
        if long and abs(after[2] - before[2]) > least:
            changes.append((int(after[0]), 1 if after[2] > before[2] else -1))
    return changes


def pelt_rbf(y: list[float]) -> list[Change]:
    import ruptures

    z = np.log(np.maximum(np.asarray(y), 1e-300))
    if len(z) < 7 or np.ptp(z) == 0:
        return []
    boundaries = ruptures.KernelCPD(kernel="rbf", min_size=3).fit(z[:, None]).predict(pen=2 * math.log(len(z)))
    return [(int(i), direction(y, int(i))) for i in boundaries[:-1]]


def perfherder(y: list[float]) -> list[Change]:
    """Mozilla's t-test: 12 points before and 12 after, t above 7, at least 2% (treeherder/perf/alerts.py)."""
    n = 12
    if len(y) < 2 * n:
        return []
    scores = []
    for i in range(max(n, len(y) - 4 * n), len(y) - n + 1):
        before, after = np.asarray(y[i - n : i]), np.asarray(y[i : i + n])
        spread = math.sqrt((before.var(ddof=1) + after.var(ddof=1)) / n)
        shift = float(after.mean() - before.mean())
        t = abs(shift) / spread if spread else (math.inf if shift else 0.0)
        enough = abs(shift) >= 0.02 * abs(float(before.mean()))
        scores.append((t if t > 7 and enough else 0.0, i, 1 if shift > 0 else -1))
    best = max(scores)
    return [(best[1], best[2])] if best[0] else []


def chromium(y: list[float]) -> list[Change]:
    """Chromium's find_change_points: one split of the last 50 points; relative, absolute and z-like thresholds.

    Segments of at least 6, 2% of the median, 2.5 standard deviations of either side, steppiness 0.5.
    """
    tail = y[-50:]
    offset, n, least = len(y) - len(tail), len(tail), 6
    if n < 2 * least:
        return []
    x = np.asarray(tail)
    splits = range(least, n - least + 1)
    split = min(splits, key=lambda i: float(np.abs(x[:i] - x[:i].mean()).sum() + np.abs(x[i:] - x[i:].mean()).sum()))
    before, after = x[:split], x[split:]
    shift = float(np.median(after) - np.median(before))
    spread = min(float(before.std()), float(after.std()))
    fit = np.concatenate([before - before.mean(), after - after.mean()])
    total_square = float(np.square(x - x.mean()).sum())
    steppiness = 1 - float(np.square(fit).sum()) / total_square if total_square else 0.0
    enough = abs(shift) > 0.02 * abs(float(np.median(before))) and abs(shift) > 2.5 * spread
    return [(offset + split, 1 if shift > 0 else -1)] if enough and steppiness >= 0.5 else []


PEERS: dict[str, Detector] = {
    "Otava": otava,
    "Otava, >= 2%": otava_two_percent,
    "MongoDB e-divisive": mongodb,
    "asv steps, 5%": asv,
    "PELT, RBF": pelt_rbf,
    "Perfherder t-test": perfherder,
    "Chromium, 2%": chromium,
}
REPORTS_STAY = {"Perfherder t-test", "Chromium, 2%"}  # what they have reported once is not taken back


def replay(name: str, values: Sequence[Sequence[float]]) -> tuple[list[dict[str, Any]], float]:
    """Every report ever made on a line: when, where, which way, whether it vanished; and the seconds it took."""
    detect, y = PEERS[name], [float(np.median(point)) for point in values]
    reports: list[dict[str, Any]] = []
    began_at = time.process_time()
    for now in range(LEAST, len(y) + 1):
        current: set[int] = set()
        for index, sign in ((int(i), int(w)) for i, w in detect(y[:now])):
            near = [
                (abs(r["last"] - index), k)
                for k, r in enumerate(reports)
                if k not in current and r["direction"] == sign and abs(r["last"] - index) <= SAME
            ]
            k = min(near)[1] if near else len(reports)
            if not near:
                reports.append({"seen": now - 1, "place": index, "direction": sign, "vanished": False})
            reports[k]["last"] = index
            current.add(k)
        for k, report in enumerate(reports):
            if k not in current and name not in REPORTS_STAY:
                report["vanished"] = True
    return reports, time.process_time() - began_at


def main() -> None:
    work = json.load(sys.stdin)
    absent: set[str] = set()
    for job in work["jobs"]:
        name = job["peer"]
        if name in absent:
            continue
        try:
            reports, seconds = replay(name, work["lines"][job["line"]])
        except ImportError as e:
            absent.add(name)
            print(f"left out: {name}: {e}", file=sys.stderr)
            continue
        print(json.dumps({**job, "reports": reports, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
