"""The order in which commits are measured later: always the one in the middle of the largest gap."""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from speedtrack.stats.comparing.bisect import CommitRange, middles


def widest_first(positions: Iterable[int], candidates: Iterable[int], count: int) -> list[int]:
    """``count`` of the candidates, each from the middle of the widest gap that is then left between those taken.

    All are positions on a branch. Of equal gaps the newest goes first; before the first and after the last position
    the candidates themselves bound the gap. Positions that are taken are no candidates.
    """
    bounds_inside = sorted(set(positions))
    free = sorted(set(candidates) - set(bounds_inside))
    if not free:
        return []
    low, high = min(free[0], *bounds_inside[:1], free[0]), max(free[-1], *bounds_inside[-1:], free[-1])
    bounds = pairwise([low - 1, *bounds_inside, high + 1])
    gaps = [gap for begin, end in bounds if (gap := gap_between(free, begin, end))]
    heapq.heapify(gaps)
    fillers: list[int] = []
    while gaps and len(fillers) < count:
        _, _, low, high = heapq.heappop(gaps)
        middle = middles(free, CommitRange(low, high))[-1]
        fillers.append(middle)
        for half in (gap_between(free, low, middle), gap_between(free, middle, high)):
            if half:
                heapq.heappush(gaps, half)
    return fillers


def halved(ranks: Sequence[int]) -> list[int]:
    """The same ranks for commits, oldest first, whose highest rank goes first: both ends, the middle, the quarters ...

    So a chart spans all of the history from its second point on, and each further one halves what nobody knows yet.
    """
    highest_first = sorted(ranks, reverse=True)
    by_place = dict(zip(halving(len(ranks)), highest_first, strict=True))
    return [by_place[index] for index in range(len(ranks))]


def gap_between(free: Sequence[int], low: int, high: int) -> tuple[int, int, int, int] | None:
    """The gap between two positions as a heap entry; None if no candidate lies in it."""
    return (low - high, -high, low, high) if bisect_right(free, low) < bisect_left(free, high) else None


def halving(count: int) -> list[int]:
    """Places 0 to count-1 in the order of halving: both ends, the middle, the quarters ..."""
    ends = list(dict.fromkeys((count - 1, 0)))[:count]
    return [*ends, *widest_first(ends, range(count), count)]
