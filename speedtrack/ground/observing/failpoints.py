"""Places of the server at which a test lets a process die: ``SPEEDTRACK_FAILPOINT=complete.before_commit:kill:2``.

That is the name of a place, what happens there, and at which passage (the first, if nothing is said). Without the
variable a passage costs one comparison. The runner has places of its own (``runners/failpoints.py``).
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
    "sync.after_commit",  # the deliveries that asked for the look still wait
    "detect.before_commit",
    "confirm.before_commit",
    "send.sent",  # a receiver has accepted a message, and its row does not say so yet
)


@dataclass
class FailPoint:
    """What happens to this process at a place, once it is passed for the last of so many times."""

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
            f"{VARIABLE}={text!r}: leave it unset, or for a test say PLACE:ACTION or PLACE:ACTION:PASSAGES, with a "
            f"place out of {', '.join(PLACES)}, and an action out of {', '.join(ACTIONS)}"
        )
    return FailPoint(point, ACTIONS[action], int(passages or 1))


def armed_by(text: str) -> FailPoint | None:
    return parse(text) if text else None


armed = armed_by(os.environ.get(VARIABLE, ""))


def reach(point: str) -> None:
    """Say that this process is at a fail point."""
    if armed is not None and armed.place == point:
        armed.passed()
