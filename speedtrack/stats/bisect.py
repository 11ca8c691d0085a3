"""Choose the next commit to measure, so that few measurements find the commit at which a line changes its level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from speedtrack.stats.narrow import CommitLevel

Levels = Sequence[CommitLevel | None]  #: of the commits of a path, oldest first; None: not measured


class CommitRange(NamedTuple):
    """The change lies after the commit at ``first``, and up to the one at ``last``."""

    first: int
    last: int

    @property
    def is_one_commit(self) -> bool:
        return self.last - self.first == 1


def range_left(levels: Levels) -> CommitRange:
    """The range of the first change of a path whose ends are known: the first is old, the last is new.

    If a path has several changes, it is the oldest one that the measured commits show.
    """
    last = next(index for index, level in enumerate(levels) if level == CommitLevel.NEW)
    first = max(index for index, level in enumerate(levels[:last]) if level == CommitLevel.OLD)
    return CommitRange(first, last)


def next_place(levels: Levels, within: CommitRange) -> int | None:
    """The index that halves the range, or the nearest untried one; None if none is left."""
    untried = [index for index in range(within.first + 1, within.last) if levels[index] is None]
    middle = (within.first + within.last) / 2
    return min(untried, key=lambda index: (abs(index - middle), index), default=None)


def places_after(levels: Levels, within: CommitRange, index: int) -> list[int]:
    """The next indices after either answer about ``index``, so that they can be queued together with it."""
    halves = (CommitRange(within.first, index), CommitRange(index, within.last))
    return [next_index for half in halves if (next_index := next_place(levels, half)) is not None]


def steps_left(levels: Levels, within: CommitRange) -> int:
    """The largest number of commits still to measure, if each gets an answer."""
    untried = sum(levels[index] is None for index in range(within.first + 1, within.last))
    return math.ceil(math.log2(untried + 1))
