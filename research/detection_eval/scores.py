"""Findings compared with the truth: matches, losses by stage, and the figures of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from research.detection_eval.lines.lines import Change, Line

MARGIN = 5  # commits beside the true one within which a report still speaks of it
MOVED = 0.005  # of the level: half of the smallest effect
MATURE = 240  # commits after which a line has all the history that detection looks back on


@dataclass
class TrackedChange:
    """A change point's life: ``seen`` is the newest commit when it was first there, ``places`` where it was put.

    ``bracket`` and ``range`` are (last commit of the old level, first of the new one); None before it was settled.
    ``status`` is the last one; "withdrawn" if it vanished.
    """

    seen: int
    direction: int
    places: list[int]
    status: str
    bracket: tuple[int, int] | None = None
    range: tuple[int, int] | None = None
    confirmed_at: int | None = None
    ratio: float = 1.0  # by the history, when it was first suspected
    kind: str = "step"  # or "drift", which names no commit: since its reference the level has moved

    def holds(self, index: int) -> bool:
        return self.range is not None and self.range[0] < index <= self.range[1]

    def distance(self, index: int) -> int:
        """The distance of a confirmed range from a commit."""
        assert self.range is not None
        first, last = self.range[0] + 1, self.range[1]
        return max(0, first - index, index - last)

    def near(self, index: int, margin: int) -> bool:
        return any(abs(place - index) <= margin for place in self.places)


@dataclass
class Record:
    """Everything that happened on one line."""

    line: Line
    found: list[TrackedChange] = field(default_factory=list)
    pairs: int = 0
    margin: int = MARGIN
    error: str = ""  # of the series, if detection failed on it

    @property
    def confirmed(self) -> list[TrackedChange]:
        """The steps."""
        return [one for one in self.found if one.status == "confirmed" and one.kind == "step"]

    @property
    def drifts(self) -> list[TrackedChange]:
        return [one for one in self.found if one.status == "confirmed" and one.kind == "drift"]

    def has_moved(self, drift: TrackedChange) -> bool:
        """Does the true level really differ from that of the reference, in the direction of the drift?"""
        assert drift.range is not None
        old, new = self.line.levels[list(drift.range)]
        return bool((new - old) * drift.direction > MOVED * abs(old))


def match(truth: Sequence[Change], found: Sequence[TrackedChange], margin: int) -> dict[int, int]:
    """Number of a true change -> number of the confirmed one that tells of it: one to one, the nearest first."""
    near = sorted(
        (one.distance(index), t, f)
        for t, (index, direction) in enumerate(truth)
        for f, one in enumerate(found)
        if one.direction == direction and one.distance(index) <= margin
    )
    pairs: dict[int, int] = {}
    for _, t, f in near:
        if t not in pairs and f not in pairs.values():
            pairs[t] = f
    return pairs


def loss(record: Record, change: Change) -> str:
    """At which stage a true change that was not confirmed was lost."""
    index, direction = change
    steps = [one for one in record.found if one.kind == "step"]
    near = [one for one in steps if one.direction == direction and told_of(one, index, record.margin)]
    held = [one for one in near if one.bracket and one.bracket[0] < index <= one.bracket[1]]
    if not near:
        return "never suspected"
    if any(one.status == "unsettled" for one in held):
        return "unsettled"
    if any(one.status == "refuted" for one in held):
        return "refuted, though in the bracket"
    if any(one.status == "confirmed" for one in near):
        return "confirmed elsewhere"
    if any(one.bracket for one in near):
        return "beside the bracket"
    return "withdrawn" if all(one.status == "withdrawn" for one in near) else "still open at the end"


def told_of(one: TrackedChange, index: int, margin: int) -> bool:
    return one.near(index, margin) or bool(one.bracket and one.bracket[0] < index <= one.bracket[1])


@dataclass
class Score:
    """The figures of one data set."""

    lines: int
    commits: int
    changes: int
    hits: int
    false: int
    suspicions: float  # per 1000 commits without a change nearby
    suspicions_mature: float  # the same from commit MATURE on
    commits_mature: int
    false_rate: float  # confirmed without a cause, per 1000 commits of lines without a change
    pairs: float  # per 1000 commits
    suspected: int  # of the true changes, within the margin
    named: int  # of those suspected, confirmed at their commit alone
    held: int  # confirmed with a range that holds the commit
    wrong: int  # confirmed near by with a range that does not
    widths: list[int]
    delays: list[int]
    losses: Counter[str]
    vanished: float
    drifts: int = 0  # confirmed
    false_drifts: int = 0  # of them, those whose level is that of their reference

    @property
    def precision(self) -> float:
        return self.hits / (self.hits + self.false) if self.hits + self.false else float("nan")

    @property
    def recall(self) -> float:
        return self.hits / self.changes if self.changes else float("nan")

    @property
    def f1(self) -> float:
        return 2 * self.hits / (2 * self.hits + self.false + self.changes - self.hits) if self.changes else float("nan")


def score(records: Iterable[Record]) -> Score:
    """The figures of a set of lines together."""
    records = list(records)
    total = Score(len(records), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, [], [], Counter(), 0)
    causeless = mature = null_commits = null_false = pairs = founds = withdrawn = 0
    for record in records:
        truth, confirmed = record.line.truth, record.confirmed
        steps = [one for one in record.found if one.kind == "step"]
        n = len(record.line.values)
        pairs_of = match(truth, confirmed, record.margin)
        total.commits += n
        total.changes += len(truth)
        total.hits += len(pairs_of)
        total.false += len(confirmed) - len(pairs_of)
        pairs += record.pairs
        founds += len(record.found)
        withdrawn += sum(one.status == "withdrawn" for one in record.found)
        aimless = [one for one in record.found if not any(told_of(one, t, record.margin) for t, _ in truth)]
        causeless += len(aimless)
        mature += sum(one.seen >= MATURE for one in aimless)
        total.commits_mature += max(0, n - MATURE)
        wrong = sum(not record.has_moved(one) for one in record.drifts)
        total.drifts += len(record.drifts)
        total.false_drifts += wrong
        if not truth:
            null_commits += n
            null_false += len(confirmed) + wrong
        for t, change in enumerate(truth):
            told = [o for o in steps if o.direction == change[1] and o.near(change[0], record.margin)]
            total.suspected += bool(told)
            if t not in pairs_of:
                total.losses[loss(record, change)] += 1
                continue
            one = confirmed[pairs_of[t]]
            assert one.range is not None
            holds = one.holds(change[0])
            width = one.range[1] - one.range[0]
            total.named += holds and width == 1 and bool(told)
            total.held += holds
            total.wrong += not holds
            total.widths.append(width)
            total.delays.append(max(0, one.seen - change[0]))
    total.suspicions = rate(causeless, total.commits)
    total.suspicions_mature = rate(mature, total.commits_mature)
    total.false_rate = rate(null_false, null_commits)
    total.pairs = rate(pairs, total.commits)
    total.vanished = withdrawn / founds if founds else 0.0
    return total


def rate(count: int, commits: int) -> float:
    return 1000 * count / commits if commits else float("nan")


def quantile(values: Sequence[float], share: float) -> float:
    return float(np.quantile(values, share)) if values else float("nan")
