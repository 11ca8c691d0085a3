"""Points at which a test kills a process of the server: ``SPEEDTRACK_FAILPOINT=complete.before_commit:kill:2``.

The runner has places of its own, and the mechanism (``runners/failpoints.py``).
"""

import os
from collections.abc import Mapping

from django.core.exceptions import ImproperlyConfigured

from runners.errors import SettingsError
from runners.failpoints import FailPoints

VARIABLE = "SPEEDTRACK_FAILPOINT"
CALLS = ("claim", "build", "measurement", "complete", "fail")  # of a runner
PLACES = (
    *(f"{call}.{stage}" for call in CALLS for stage in ("before_commit", "after_commit")),
    "sync.before_commit",  # the commits of a branch are stored, and their runs planned
    "sync.after_commit",  # the deliveries that caused the sync still wait
    "detect.before_commit",
    "confirm.before_commit",
    "send.sent",  # a receiver has accepted a message, but its row does not have that yet
)
points = FailPoints(VARIABLE, PLACES)
reach = points.reach


def arm(environ: Mapping[str, str]) -> None:
    """Read the variable. Raises ImproperlyConfigured if it names no place or no action."""
    try:
        points.arm(environ)
    except SettingsError as e:
        raise ImproperlyConfigured(str(e)) from None


arm(os.environ)
