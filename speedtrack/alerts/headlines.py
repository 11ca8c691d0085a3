"""The one sentence about an alert's changes: the largest in each direction, slowdowns first.

Mails, chats, commit statuses, feeds, lists, pages and the API show it: ``slower +5.0%: get-p1 and 2 more; faster
−50.0%: set-p1``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import INSTRUCTIONS, Metric


class Change(Protocol):
    """A change of one series, as rows of the database and rows of a list have it."""

    @property
    def benchmark_name(self) -> str: ...
    @property
    def metric(self) -> Metric: ...
    @property
    def ratio(self) -> float: ...
    @property
    def change_in_words(self) -> str: ...
    @property
    def interval_in_words(self) -> str: ...
    @property
    def is_slowdown(self) -> bool: ...


Rank = tuple[bool, bool, float]


def rank_of(change: Change) -> Rank:
    """Sort key of the changes of an alert: slowdowns first, then instructions last, then the largest first.

    Instructions explain a slowdown, but not its size: a few more of them may each wait for memory.
    """
    return not change.is_slowdown, change.metric.name in INSTRUCTIONS, -abs(change.ratio - 1)


@dataclass(frozen=True)
class DirectionSummary:
    """The changes of one direction: the largest of them, and how many other benchmarks moved the same way."""

    largest: Change
    more: int

    @property
    def is_slowdown(self) -> bool:
        return self.largest.is_slowdown

    @property
    def effect(self) -> str:
        """Direction and size, such as ``slower +5.0%``."""
        return f"{numbers.effect(self.largest.metric, self.is_slowdown)} {self.largest.change_in_words}"

    @property
    def others(self) -> str:
        """The end of the list of benchmarks: empty, or ``and 2 more``."""
        return f"and {self.more} more" if self.more else ""

    def text(self, longest_name: int | None = None) -> str:
        return f"{self.effect}: {self.largest.benchmark_name[:longest_name]} {self.others}".rstrip()


def summaries_of(changes: Sequence[Change]) -> list[DirectionSummary]:
    """A summary of what got worse and one of what got better, as far as there are such changes."""
    ranked = sorted(changes, key=rank_of)
    directions = (
        [change for change in ranked if change.is_slowdown],
        [change for change in ranked if not change.is_slowdown],
    )
    return [
        DirectionSummary(same[0], len({change.benchmark_name for change in same} - {same[0].benchmark_name}))
        for same in directions
        if same
    ]


def headline(changes: Sequence[Change], longest_name: int | None = None) -> str:
    """The sentence; empty without changes. ``longest_name``: characters of a benchmark's name that are shown."""
    return "; ".join(summary.text(longest_name) for summary in summaries_of(changes))
