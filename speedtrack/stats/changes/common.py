"""Did many series of one machine move at once? If so, which ones, and is the cause the machine or the code?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np

SHARE = 0.4  # of a machine's watched series: if at least this share moves at once, the cause is not one benchmark
FEWEST = 5  # series needed for an answer
ALIKE = 0.5  # of the usual move: a series that moved at least this far took part
QUIET = 0.25  # of the usual move: a series that moved at most this far stood still


class MoveCause(StrEnum):
    """The cause of many moves at once."""

    MACHINE = "machine"
    CODE = "code"
    UNKNOWN = "unknown"


def log_shift(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Logarithm of level after / level before; None if a side has no points, or with values of zero or below."""
    if not len(before) or not len(after) or min(*before, *after) <= 0:
        return None
    return float(np.median(np.log(after)) - np.median(np.log(before)))


def is_common(moves: Sequence[float], usual: float) -> bool:
    """Return whether at least SHARE of these series, and at least FEWEST, moved ALIKE as far as ``usual`` or farther.

    ``moves``: logarithms, one per watched series of the machine with measurements around the commit.
    """
    count = sum(move * math.copysign(1, usual) >= ALIKE * abs(usual) for move in moves)
    return count >= FEWEST and count >= SHARE * len(moves)


def took_part(move: float, usual: float) -> bool | None:
    """Return whether another series moved about as far as ``usual`` (True), stood still (False), or neither (None)."""
    along = move * math.copysign(1, usual) / abs(usual)
    return True if along >= ALIKE else False if along <= QUIET else None


def cause_by_votes(votes: Iterable[MoveCause]) -> MoveCause:
    """The only cause that the evidence supports; unknown if there is none, or if the evidence contradicts itself."""
    causes = {vote for vote in votes if vote != MoveCause.UNKNOWN}
    return causes.pop() if len(causes) == 1 else MoveCause.UNKNOWN
