"""Points at which a test can kill the runner, as in `SPEEDTRACK_RUNNER_FAILPOINT=measurement.sent:kill:2`.

The variable has the name of a point, the action, and the number of the passage (by default the first). Without the
variable a passage costs one comparison.
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from runners.errors import SettingsError

VARIABLE = "SPEEDTRACK_RUNNER_FAILPOINT"
ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
CALLS = ("measurement", "profile", "complete", "fail")  # those of the spool
#: The points that a run passes, in order.
PLACES = (
    "claim.received",
    "build.made",
    "build.reported",
    *(f"{call}.{stage}" for call in CALLS for stage in ("spooled", "sent", "deleted")),
)


@dataclass
class FailPoint:
    """The action when this process passes a point for the n-th time."""

    point: str
    action: signal.Signals
    passages: int = 1

    def passed(self) -> None:
        self.passages -= 1
        if self.passages == 0:
            os.kill(os.getpid(), self.action)


armed: FailPoint | None = None


def arm(environ: Mapping[str, str]) -> None:
    """Reads the variable. Raises SettingsError if it names an unknown point or action."""
    global armed
    text = environ.get(VARIABLE, "")
    armed = parse(text) if text else None


def parse(text: str) -> FailPoint:
    point, _, remaining = text.partition(":")
    action, _, passages = remaining.partition(":")
    if point not in PLACES or action not in ACTIONS or not (passages or "1").isdecimal() or passages == "0":
        raise SettingsError(
            f"{VARIABLE} is {text!r}: leave it unset, or for a test set it to PLACE:ACTION or PLACE:ACTION:PASSAGES, "
            f"with a place out of {', '.join(PLACES)}, and an action out of {', '.join(ACTIONS)}"
        )
    return FailPoint(point, ACTIONS[action], int(passages or 1))


def reach(point: str) -> None:
    """Called when this process passes a point."""
    if armed is not None and armed.point == point:
        armed.passed()
