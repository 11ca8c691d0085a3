"""Points at which a test can kill the runner, as in `SPEEDTRACK_RUNNER_FAILPOINT=measurement.sent:kill:2`.

The variable has the name of a point, the action, and the number of the passage (by default the first). Without the
variable a passage costs one comparison. The server's places work in the same way.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runners.errors import SettingsError

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
    """The action when this process passes a place for the n-th time."""

    place: str
    action: signal.Signals
    passages: int = 1

    def passed(self) -> None:
        self.passages -= 1
        if self.passages == 0:
            os.kill(os.getpid(), self.action)


@dataclass
class FailPoints:
    """The places of one program. ``variable``: that of the environment which arms one of them."""

    variable: str
    places: Sequence[str]
    armed: FailPoint | None = None

    def arm(self, environ: Mapping[str, str]) -> None:
        """Read the variable. Raises SettingsError if it names an unknown point or action."""
        text = environ.get(self.variable, "")
        self.armed = self.parse(text) if text else None

    def parse(self, text: str) -> FailPoint:
        place, _, action_text = text.partition(":")
        action, _, passages = action_text.partition(":")
        if place not in self.places or action not in ACTIONS or not (passages or "1").isdecimal() or passages == "0":
            raise SettingsError(
                f"{self.variable} is {text!r}: leave it unset, or for a test set it to PLACE:ACTION or "
                f"PLACE:ACTION:PASSAGES, "
                f"with a place out of {', '.join(self.places)}, and an action out of "
                f"{', '.join(ACTIONS)}"
            )
        return FailPoint(place, ACTIONS[action], int(passages or 1))

    def reach(self, place: str) -> None:
        """Called when this process passes a place."""
        if self.armed is not None and self.armed.place == place:
            self.armed.passed()


points = FailPoints("SPEEDTRACK_RUNNER_FAILPOINT", PLACES)
arm, reach = points.arm, points.reach
