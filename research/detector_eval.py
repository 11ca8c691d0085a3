"""The suspect detector as the tracker runs it, for a replay harness, and the table of its targets.

python research/detector_eval.py HARNESS [--sets syn,real,labelled,null] [--window 200 | --whole] [--fresh N]

HARNESS is the folder with harness.py, generate.py and run.py. For the harness's own table beside its peers:

PYTHONPATH=HARNESS:. python HARNESS/run.py research.detector_eval:SUSPECT --sets syn,real,labelled,null --peers none

At each point `suspect` sees the last WINDOW points, and only a suspicion that this point raised counts, once: those
that a tracker would have re-measured. Returns to the old level within a few points are left out, as a tracker does
not re-measure them unless the shift before was confirmed. `--whole` replays each series in one call instead: the same
judgement with all points before, many times faster. `--fresh N` adds N to every seed of the generated sets.
Columns: recall over all steps; over those of at least 3 times the noise of a median of 3 (level removed, running
median of 61 removed, robust deviation of the running median of 3); suspicions without a cause per 1000 commits;
delay in commits (median, 90%); share placed exactly.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import median_filter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from speedtrack.stats.changepoint import Point, suspect

WINDOW = 200
MARGIN = 5


class Suspect:
    """Detector with memory for the harness: ``start()`` gives a fresh one, ``push`` the suspicions so far."""

    def __init__(self, window: int = WINDOW) -> None:
        self.window = window
        self.points: list[Point] = []
        self.raised: list[tuple[int, int]] = []

    def start(self) -> Suspect:
        return Suspect(self.window)

    def push(self, index: int, values: list[float]) -> list[tuple[int, int]]:
        self.points.append(Point(tuple(values)))
        recent = self.points[-self.window :]
        offset = len(self.points) - len(recent)
        for shift in suspect(recent):
            if shift.seen == len(recent) - 1 and not shift.returns:
                self.raised.append((offset + shift.index, 1 if shift.ratio > 1 else -1))
        return self.raised


SUSPECT = Suspect()


def replay_whole(harness: Any, values: list[list[float]]) -> list[Any]:
    """The harness's reports from one call: a suspicion near an earlier one in the same direction is the same."""
    reports: list[Any] = []
    for shift in suspect([Point(tuple(trials)) for trials in values]):
        direction = 1 if shift.ratio > 1 else -1
        near = any(r.direction == direction and abs(r.first - shift.index) <= harness.TRACK for r in reports)
        if not shift.returns and not near:
            reports.append(harness.Report(shift.seen, shift.index, direction, shift.index))
    return reports


def noise_of_three(series: Any) -> float:
    """Robust deviation of the running median of 3, after the known steps and slow movement are removed (log scale)."""
    y = np.log([np.median(values) for values in series.values])
    for (index, direction), size in zip(series.truth, series.size, strict=True):
        y[index:] -= np.log1p(direction * size)
    y -= median_filter(y, 61, mode="reflect")
    smooth = median_filter(y, 3, mode="reflect")
    return float(1.4826 * np.median(np.abs(smooth - np.median(smooth))))


def clear_steps(series: Any) -> set[int]:
    if not series.size:
        return set()
    noise = noise_of_three(series)
    steps = zip(series.truth, series.size, strict=True)
    return {k for k, ((_, direction), size) in enumerate(steps) if abs(np.log1p(direction * size)) >= 3 * noise}


def measure(harness: Any, dataset: list[Any], detector: Suspect | None, margin: int) -> str:
    commits = false = steps = exact = 0
    hits: list[bool] = []
    delays: list[int] = []
    for series in dataset:
        whole = detector is None
        reports = replay_whole(harness, series.values) if whole else harness.replay(detector, series.values)[0]
        pairs = harness.match(series.truth, [(r.first, r.direction) for r in reports], margin)
        found = {truth for truth, _, _ in pairs}
        commits, steps = commits + len(series.values), steps + len(series.truth)
        false += len(reports) - len(pairs)
        hits += [k in found for k in clear_steps(series)]
        delays += [max(0, reports[report].time - series.truth[truth][0]) for truth, report, _ in pairs]
        exact += sum(distance == 0 for _, _, distance in pairs)
    cells = f"{len(dataset):6} {commits:8} {1000 * false / commits:9.2f}"
    if not steps:
        return cells
    clear = f"{np.mean(hits):6.3f} of {len(hits):3}" if hits else "        -    "
    late = f"{np.quantile(delays, 0.5):5.1f} {np.quantile(delays, 0.9):5.1f}" if delays else "    -     -"
    return f"{cells}   {len(delays) / steps:6.3f} of {steps:3}   {clear}  {late}   {exact / max(1, len(delays)):5.2f}"


def datasets(generate: Any, names: list[str], fresh: int) -> dict[str, list[Any]]:
    """The sets of the harness's own table; the seeds moved by ``fresh``."""
    sets: dict[str, list[Any]] = {}
    if "syn" in names:
        sets["synthetic, steps"] = generate.synthetic(60, seed=1 + fresh)
        sets["synthetic, none"] = generate.synthetic(60, seed=2 + fresh, with_steps=False)
    if "real" in names:
        sets["real noise, steps"] = generate.resampled(8, seed=3 + fresh)
        sets["real noise, none"] = generate.resampled(8, seed=4 + fresh, with_steps=False)
    if "labelled" in names:
        sets["sap_hana_small"] = generate.labelled("sap_hana_small")
        sets["talos_treeherder"] = generate.labelled("talos_treeherder")
    if "null" in names:
        for kind in generate.KINDS:
            sets[f"none, {kind}"] = generate.synthetic(16, seed=5 + fresh, with_steps=False, kind=kind)
    return sets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("harness", type=Path)
    parser.add_argument("--sets", default="syn,real,labelled,null")
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--fresh", type=int, default=0)
    options = parser.parse_args()
    sys.path.insert(0, str(options.harness))
    harness, generate = importlib.import_module("harness"), importlib.import_module("generate")
    print(f"{'':20}series  commits  false/1k   recall of all    recall of clear  delay   p90   exact")
    for title, dataset in datasets(generate, options.sets.split(","), options.fresh).items():
        margin = 2 * MARGIN if title == "talos_treeherder" else MARGIN
        print(
            f"{title:20}" + measure(harness, dataset, None if options.whole else Suspect(options.window), margin),
            flush=True,
        )


if __name__ == "__main__":
    main()
