"""Points at which a test kills a process of the server: ``SPEEDTRACK_FAILPOINT=complete.before_commit:kill:2``.

The parts are the name of a point, the action, and the number of the passage (default: the first). Without the variable
a passage costs one comparison. The runner has other points (``runners/failpoints.py``).
"""

import os
import signal
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured

VARIABLE = "SPEEDTRACK_FAILPOINT"
ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
CALLS = ("claim", "build", "measurement", "complete", "fail")  # of a runner
PLACES = (
    *(f"{call}.{stage}" for call in CALLS for stage in ("before_commit", "after_commit")),
    "sync.before_commit",  # the commits of a branch are stored, and their runs planned
    "sync.after_commit",  # the deliveries that caused the sync still wait
    "detect.before_commit",
    "confirm.before_commit",
    "send.sent",  # a receiver has accepted a message, but its row does not have that yet
)


@dataclass
class FailPoint:
    """The action on this process when it passes a point for the last of so many times."""

    place: str
    action: signal.Signals
    passages: int = 1

    def passed(self) -> None:
        self.passages -= 1
        if self.passages == 0:
            os.kill(os.getpid(), self.action)


def parse(text: str) -> FailPoint:
    point, _, action_text = text.partition(":")
    action, _, passages = action_text.partition(":")
    if point not in PLACES or action not in ACTIONS or not (passages or "1").isdecimal() or passages == "0":
        raise ImproperlyConfigured(
            f"{VARIABLE}={text!r}: leave it unset, or for a test set it to PLACE:ACTION or PLACE:ACTION:PASSAGES, with "
            f"a place out of {', '.join(PLACES)}, and an action out of {', '.join(ACTIONS)}"
        )
    return FailPoint(point, ACTIONS[action], int(passages or 1))


def armed_by(text: str) -> FailPoint | None:
    return parse(text) if text else None


armed = armed_by(os.environ.get(VARIABLE, ""))


def reach(point: str) -> None:
    """Report that this process passes a fail point."""
    if armed is not None and armed.place == point:
        armed.passed()
