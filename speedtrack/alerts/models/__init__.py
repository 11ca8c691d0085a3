"""What was found in the history, and the work it makes for people."""

from speedtrack.alerts.models.alerts import Alert, AlertEvent
from speedtrack.alerts.models.change_points import BestLevel, ChangePoint, Verdict, shares_commit
from speedtrack.alerts.models.floors import NoiseFloor
from speedtrack.alerts.models.mutes import Mute

__all__ = ["Alert", "AlertEvent", "BestLevel", "ChangePoint", "Mute", "NoiseFloor", "Verdict", "shares_commit"]
