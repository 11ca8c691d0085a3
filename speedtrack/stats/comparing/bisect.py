"""Choose the next commit to measure, so that few measurements find the commit at which a line changes its level."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

WRONG_COMMIT = 0.005  # probability that a search ends at a wrong commit, over all its steps
BESIDE = 3  # values on each side of a step
STANDS_OUT = 4.0  # so many times the median move from one value to the next: of the noise of 20 values, one line in 50


class CommitLevel(StrEnum):
    """The level of a commit's server."""

    OLD = "old"
    NEW = "new"
    UNKNOWN = "unknown"


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
    return next(iter(middles(untried, within)), None)


def middles(positions: Sequence[int], within: CommitRange) -> list[int]:
    """Those of the sorted positions inside a range that are nearest to its middle: one, or two at the same distance."""
    middle = (within.first + within.last) / 2
    at = bisect_left(positions, middle)
    nearest = [position for position in positions[max(0, at - 1) : at + 1] if within.first < position < within.last]
    least = min((abs(position - middle) for position in nearest), default=0)
    return [position for position in nearest if abs(position - middle) == least]


def places_after(levels: Levels, within: CommitRange, index: int) -> list[int]:
    """The next indices after either answer about ``index``, so that they can be queued together with it."""
    halves = (CommitRange(within.first, index), CommitRange(index, within.last))
    return [next_index for half in halves if (next_index := next_place(levels, half)) is not None]


def steps_left(levels: Levels, within: CommitRange) -> int:
    """The largest number of commits still to measure, if each gets an answer."""
    untried = sum(levels[index] is None for index in range(within.first + 1, within.last))
    return halvings(untried)


def halvings(inside: int) -> int:
    """How many steps find the first changed commit of a range with so many commits between its ends."""
    return math.ceil(math.log2(inside + 1))


def error_per_step(inside: int, besides: int = 1) -> float:
    """The share of WRONG_COMMIT that each step of a search may have; ``besides``: steps more than halving takes."""
    return WRONG_COMMIT / (besides + halvings(inside))


def clear_step(values: Sequence[float], sign: float) -> int | None:
    """The index of the first value after a line's largest step in the direction of ``sign``.

    None unless it stands out of the scatter, which is that of neighbouring values. Sides are the means of up to
    BESIDE values.
    """
    steps = [
        math.copysign(1, sign) * (fmean(values[index : index + BESIDE]) - fmean(values[max(0, index - BESIDE) : index]))
        for index in range(1, len(values))
    ]
    scatter = median(abs(after - before) for before, after in pairwise(values)) if steps else 0.0
    largest = max(steps, default=0.0)
    return steps.index(largest) + 1 if largest > STANDS_OUT * scatter else None
