"""What was found in the history, and the work it makes for people."""

from speedtrack.alerts.models.alerts import Alert, AlertEvent
from speedtrack.alerts.models.bisections import Bisection, BisectionAnswer
from speedtrack.alerts.models.change_points import BestLevel, ChangePoint, Verdict, shares_commit
from speedtrack.alerts.models.comparisons import ComparisonBatch
from speedtrack.alerts.models.floors import NoiseFloor
from speedtrack.alerts.models.hunks import HunkStep, HunkTrial
from speedtrack.alerts.models.mutes import Mute
from speedtrack.alerts.models.sensitivity import SeriesSensitivity

__all__ = [
    "Alert",
    "AlertEvent",
    "BestLevel",
    "Bisection",
    "BisectionAnswer",
    "ChangePoint",
    "ComparisonBatch",
    "HunkStep",
    "HunkTrial",
    "Mute",
    "NoiseFloor",
    "SeriesSensitivity",
    "Verdict",
    "shares_commit",
]
