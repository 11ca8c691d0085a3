"""What a run of the evaluation found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from research.detection_eval.detectors.beside import PeerScore
from research.detection_eval.detectors.cost import DetectionCost
from research.detection_eval.detectors.settling import NarrowingResult, Rounds
from research.detection_eval.scores import Record


@dataclass(frozen=True)
class EvaluationFindings:
    """What a run found, or several that went on with each other's work; empty where a part was not run yet."""

    records: Mapping[str, Sequence[Record]]  # by data set
    settlings: Sequence[Rounds]
    narrowed: Sequence[NarrowingResult]
    young: Mapping[float, float]  # false suspicions per 1000 commits, by how much runs differ
    costs: Sequence[DetectionCost]
    history: Sequence[PeerScore]
    peers: Sequence[PeerScore]
