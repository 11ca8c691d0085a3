"""The lines that the evaluation plays, by data set."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.detection_eval.lines import noise
from research.detection_eval.lines.lines import Line
from research.detection_eval.scores import MARGIN

COMMITS = 500  # of a generated line
SYNTHETIC, SYNTHETIC_NONE, GAUSSIAN = "synthetic, steps", "synthetic, no change", "Gaussian, no change"
REAL, REAL_NONE, SAP, TALOS = "real noise, steps", "real noise, no change", "SAP", "Talos"
DRIFT = "drift of 0.3% per commit"


@dataclass(frozen=True)
class DatasetSizes:
    """Lines of each data set: ``mixed`` with and without steps, ``kind`` of each kind, ``real`` of each source."""

    mixed: int
    gaussian: int
    kind: int
    real: int
    drift: int
    longest: int  # commits of a labelled line that are played


def sizes_for(lines: int) -> DatasetSizes:
    """The sizes of all data sets, by the lines of the largest."""
    return DatasetSizes(
        mixed=lines,
        gaussian=max(1, lines // 4),
        kind=lines // 12,
        real=max(1, lines // 8),
        drift=max(1, lines // 4),
        longest=min(600, 25 * lines),
    )


@dataclass(frozen=True)
class DataSet:
    name: str
    lines: Sequence[Line]
    margin: int = MARGIN


def own(sizes: DatasetSizes, seed: int, harness: Any = None) -> list[DataSet]:
    """Generated lines: of the harness's generator if there is one, else of the project's own."""
    sets = []
    for k, (name, steps) in enumerate(((SYNTHETIC, True), (SYNTHETIC_NONE, False))):
        if harness:
            generated = harness.synthetic(sizes.mixed, seed=seed + k, with_steps=steps, n=COMMITS)
            sets.append(DataSet(name, [taken(line) for line in generated]))
        else:
            sets.append(DataSet(name, noise.mixed(sizes.mixed, seed + k, n=COMMITS, with_steps=steps)))
    sets.append(DataSet(GAUSSIAN, noise.of_kind("Gaussian", sizes.gaussian, seed + 4, n=COMMITS)))
    kinds = [name for name in noise.KINDS if name != "Gaussian"] if sizes.kind else []
    for name in kinds:
        sets.append(DataSet(f"{name}, no change", noise.of_kind(name, sizes.kind, seed + 4, n=COMMITS)))
    return [*sets, DataSet(DRIFT, noise.drifting(sizes.drift, seed + 5))]


def public(sizes: DatasetSizes, seed: int, harness: Any) -> list[DataSet]:
    """Residuals of real histories with steps and without, and histories whose changes people confirmed."""
    sets = []
    for k, (name, steps) in enumerate(((REAL, True), (REAL_NONE, False))):
        resampled = harness.resampled(sizes.real, seed=seed + 2 + k, with_steps=steps, n=COMMITS)
        sets.append(DataSet(name, [taken(line) for line in resampled]))
    for name, folder, margin in ((SAP, "sap_hana_small", MARGIN), (TALOS, "talos_treeherder", 2 * MARGIN)):
        lines = [cut(taken(line), sizes.longest) for line in harness.labelled(folder)]
        sets.append(DataSet(name, [line for line in lines if len(line.values) > 1], margin))
    return sets


def taken(series: Any) -> Line:
    """A series of the harness as a line."""
    return Line(series.id, series.values, series.truth, series.size)


def cut(line: Line, longest: int) -> Line:
    return Line(line.id, line.values[:longest], [change for change in line.truth if change[0] < longest])


def generator_of(harness: Path, data: Path | None) -> Any:
    """The generator of a folder with harness.py and generate.py, which reads its histories from ``data``."""
    sys.path.insert(0, str(harness))
    try:
        generate: Any = importlib.import_module("generate")
    except ImportError as e:
        sys.exit(f"HARNESS={harness} has no generate.py that can be imported ({e}): give the harness's folder")
    if data:
        generate.DATA = data
    if not generate.DATA.is_dir():
        sys.exit(f"{generate.DATA} is not a folder of histories: give DATA=")
    return generate
