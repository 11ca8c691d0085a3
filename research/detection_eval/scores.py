"""Findings compared with the truth: matches, losses by stage, and the figures of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from research.detection_eval.lines.lines import Change, Line

DRIFT_STEP = 0.003
MARGIN = 5  # commits beside the true one within which a report still speaks of it
MOVED = 0.005  # of the level: half of the smallest effect
MATURE = 240  # commits after which a line has all the history that detection looks back on


@dataclass
class TrackedChange:
    """A change point's life. ``first_seen``: the newest commit when it first was; ``positions``: where it was put.

    ``bracket`` and ``range`` are (last commit of the old level, first of the new one); None before it was settled.
    ``status`` is the last one; "withdrawn" if it vanished.
    """

    first_seen: int
    direction: int
    positions: list[int]
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
        return any(abs(position - index) <= margin for position in self.positions)


@dataclass
class Record:
    """Everything that happened on one line."""

    line: Line
    changes: list[TrackedChange] = field(default_factory=list)
    pairs: int = 0
    margin: int = MARGIN
    error: str = ""  # of the series, if detection failed on it

    @property
    def confirmed(self) -> list[TrackedChange]:
        """The steps."""
        return [change for change in self.changes if change.status == "confirmed" and change.kind == "step"]

    @property
    def drifts(self) -> list[TrackedChange]:
        return [change for change in self.changes if change.status == "confirmed" and change.kind == "drift"]

    def has_moved(self, drift: TrackedChange) -> bool:
        """Does the true level really differ from that of the reference, in the direction of the drift?"""
        assert drift.range is not None
        old, new = self.line.levels[list(drift.range)]
        return bool((new - old) * drift.direction > MOVED * abs(old))


def match(truth: Sequence[Change], changes: Sequence[TrackedChange], margin: int) -> dict[int, int]:
    """Number of a true change -> number of the confirmed one that reports it: one to one, the nearest first."""
    near = sorted(
        (change.distance(index), t, f)
        for t, (index, direction) in enumerate(truth)
        for f, change in enumerate(changes)
        if change.direction == direction and change.distance(index) <= margin
    )
    pairs: dict[int, int] = {}
    for _, t, f in near:
        if t not in pairs and f not in pairs.values():
            pairs[t] = f
    return pairs


def loss(record: Record, change: Change) -> str:
    """At which stage a true change that was not confirmed was lost."""
    index, direction = change
    steps = [candidate for candidate in record.changes if candidate.kind == "step"]
    near = [
        candidate
        for candidate in steps
        if candidate.direction == direction and told_of(candidate, index, record.margin)
    ]
    bracketing = [
        candidate for candidate in near if candidate.bracket and candidate.bracket[0] < index <= candidate.bracket[1]
    ]
    if not near:
        return "never suspected"
    if any(candidate.status == "unsettled" for candidate in bracketing):
        return "unsettled"
    if any(candidate.status == "refuted" for candidate in bracketing):
        return "refuted, though in the bracket"
    if any(candidate.status == "confirmed" for candidate in near):
        return "confirmed elsewhere"
    if any(candidate.bracket for candidate in near):
        return "beside the bracket"
    return "withdrawn" if all(candidate.status == "withdrawn" for candidate in near) else "still open at the end"


def told_of(candidate: TrackedChange, index: int, margin: int) -> bool:
    return candidate.near(index, margin) or bool(
        candidate.bracket and candidate.bracket[0] < index <= candidate.bracket[1]
    )


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
    exact: int  # of those suspected, confirmed at their commit alone
    containing: int  # confirmed with a range that holds the commit
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
    causeless = mature = null_commits = null_false = pairs = change_count = withdrawn = 0
    for record in records:
        truth, confirmed = record.line.truth, record.confirmed
        steps = [candidate for candidate in record.changes if candidate.kind == "step"]
        n = len(record.line.values)
        pairs_of = match(truth, confirmed, record.margin)
        total.commits += n
        total.changes += len(truth)
        total.hits += len(pairs_of)
        total.false += len(confirmed) - len(pairs_of)
        pairs += record.pairs
        change_count += len(record.changes)
        withdrawn += sum(candidate.status == "withdrawn" for candidate in record.changes)
        aimless = [
            candidate for candidate in record.changes if not any(told_of(candidate, t, record.margin) for t, _ in truth)
        ]
        causeless += len(aimless)
        mature += sum(candidate.first_seen >= MATURE for candidate in aimless)
        total.commits_mature += max(0, n - MATURE)
        wrong = sum(not record.has_moved(candidate) for candidate in record.drifts)
        total.drifts += len(record.drifts)
        total.false_drifts += wrong
        if not truth:
            null_commits += n
            null_false += len(confirmed) + wrong
        for t, change in enumerate(truth):
            nearby = [o for o in steps if o.direction == change[1] and o.near(change[0], record.margin)]
            total.suspected += bool(nearby)
            if t not in pairs_of:
                total.losses[loss(record, change)] += 1
                continue
            candidate = confirmed[pairs_of[t]]
            assert candidate.range is not None
            holds = candidate.holds(change[0])
            width = candidate.range[1] - candidate.range[0]
            total.exact += holds and width == 1 and bool(nearby)
            total.containing += holds
            total.wrong += not holds
            total.widths.append(width)
            total.delays.append(max(0, candidate.first_seen - change[0]))
    total.suspicions = rate(causeless, total.commits)
    total.suspicions_mature = rate(mature, total.commits_mature)
    total.false_rate = rate(null_false, null_commits)
    total.pairs = rate(pairs, total.commits)
    total.vanished = withdrawn / change_count if change_count else 0.0
    return total


def rate(count: int, commits: int) -> float:
    return 1000 * count / commits if commits else float("nan")


def quantile(values: Sequence[float], share: float) -> float:
    return float(np.quantile(values, share)) if values else float("nan")


def sum_at_first(record: Record, moment: Callable[[TrackedChange], int | None]) -> float | None:
    """What the drift had come to at the first of these moments after it began; None where there is none."""
    drift_begin = record.line.truth[0][0]
    times = [
        now
        for change in record.changes
        if change.direction > 0 and (now := moment(change)) is not None and now >= drift_begin
    ]
    return (1 + DRIFT_STEP) ** (min(times) - drift_begin + 1) - 1 if times else None
