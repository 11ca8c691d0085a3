"""Did many series of one machine move at once? How many took part, and what speaks for the machine or the code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np

SHARE = 0.4  # of the watched series of a machine: so many that move at once are no matter of one benchmark
FEWEST = 5  # series below which nothing is said
ALIKE = 0.5  # of the usual move: a series that moved so far took part
QUIET = 0.25  # of the usual move: what moved less stood still


class MoveCause(StrEnum):
    """What many moves at once come from."""

    MACHINE = "machine"
    CODE = "code"
    UNKNOWN = "unknown"


def log_shift(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Logarithm of the level after / before; None without points on both sides, or with values of zero or below."""
    if not len(before) or not len(after) or min(*before, *after) <= 0:
        return None
    return float(np.median(np.log(after)) - np.median(np.log(before)))


def is_common(moves: Sequence[float], usual: float) -> bool:
    """Did SHARE of these series, and at least FEWEST, move the way and about as far as ``usual``?

    ``moves``: logarithms, of all watched series of a machine that were measured around the place.
    """
    joined = sum(move * math.copysign(1, usual) >= ALIKE * abs(usual) for move in moves)
    return joined >= FEWEST and joined >= SHARE * len(moves)


def took_part(move: float, usual: float) -> bool | None:
    """Did something else move as far as ``usual`` (True), or stand still (False)? None: in between."""
    along = move * math.copysign(1, usual) / abs(usual)
    return True if along >= ALIKE else False if along <= QUIET else None


def cause_by_votes(votes: Iterable[MoveCause]) -> MoveCause:
    """The one cause that evidence speaks for; unknown where it is silent or contradicts itself."""
    known = {vote for vote in votes if vote != MoveCause.UNKNOWN}
    return known.pop() if len(known) == 1 else MoveCause.UNKNOWN
