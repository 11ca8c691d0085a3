"""The lines that did it: the hunks of an alert's commit that touch functions whose count of instructions changed.

Functions are matched by name, so what the compiler inlined is charged to its callers: a hunk in an inlined function, a
macro or a type touches no function whose count changed. Only taking it back on trial shows what such a hunk costs.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from speedtrack.alerts.hunks.findings import HunkFinding, HunkState, TriedHunk
from speedtrack.alerts.models import Alert
from speedtrack.alerts.pairs.counts import LEAST, FunctionCost, FunctionTable
from speedtrack.projects.errors import NotFetched, RepositoryError, RepositoryUnreachable, UnusablePatch
from speedtrack.projects.mirrors.functions import functions_between
from speedtrack.projects.mirrors.git import DESCRIBE_TIMEOUT_S
from speedtrack.projects.mirrors.hunks import Hunk, hunks_between

MOST_SHOWN, MOST_FURTHER = 12, 40  # hunks
MOST_COSTS = 12  # of a hunk
MOST_LINES, LONGEST_LINE = 60, 240  # of a hunk; characters
KEPT = 200  # commits whose hunks a process remembers
CLONE = re.compile(r"(?:\.(?:isra|constprop|part|cold|lto_priv)(?:\.\d+)?)+$")
MANGLED_PART = re.compile(r"[NKVL]*(\d{1,3})")
HASH_OF_RUST = re.compile(r"h[0-9a-f]{16}")
#: By error: the sentence for people. The first match counts.
FAILURES: tuple[tuple[type[RepositoryError], str], ...] = (
    (NotFetched, "Its hunks cannot be shown: {error}."),
    (RepositoryUnreachable, "Its hunks are not shown: the change is so large that git takes too long to compare it."),
    (UnusablePatch, "Its hunks are not shown: {error}."),
    (RepositoryError, "Its hunks cannot be shown: the mirror has no longer this commit and the one before it."),
)

HunkKey = tuple[str, int]  # path and number
TriedHunks = dict[HunkKey, list["TriedOf"]]


class CostUnder(NamedTuple):
    """What a function costs per request of a benchmark."""

    benchmark: str
    function: FunctionCost


class TriedOf(NamedTuple):
    """What taking a hunk back has shown for a benchmark."""

    benchmark: str
    hunk: TriedHunk


class PlacedHunk(NamedTuple):
    """A hunk with the functions that it touches and whose count changed, by name. ``cut``: lines left out."""

    hunk: Hunk
    names: tuple[str, ...]
    cut: int = 0


class HunksOfCommit(NamedTuple):
    """``shown``: at most MOST_SHOWN, of ``shown_count``. ``further``: at most MOST_FURTHER, without their lines."""

    shown: tuple[PlacedHunk, ...]
    shown_count: int
    touching: int
    further: tuple[Hunk, ...]
    further_count: int

    @property
    def left_out(self) -> int:
        return self.shown_count - len(self.shown)

    @property
    def further_left_out(self) -> int:
        return self.further_count - len(self.further)

    @property
    def sentence(self) -> str:
        total = self.shown_count + self.further_count
        if not total:
            return "The commit changes no line against the one before it."
        if not self.touching:
            return f"None of the commit's {hunks_in_words(total)} touches a function whose count changed by name."
        verb = "touches" if self.touching == 1 else "touch"
        return f"{self.touching} of the commit's {hunks_in_words(total)} {verb} functions whose count changed."


NO_HUNKS = HunksOfCommit((), 0, 0, (), 0)


@dataclass(frozen=True)
class ShownHunk:
    """``costs``: those that changed most. ``tried``: what taking it back alone has shown, by benchmark."""

    placed: PlacedHunk
    costs: list[CostUnder]
    costs_left_out: int
    tried: Sequence[TriedOf]

    @property
    def hunk(self) -> Hunk:
        return self.placed.hunk

    @property
    def is_named(self) -> bool:
        return any(each.hunk.is_named for each in self.tried)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Each line's sign, and the line."""
        return [(line[0], line[1:]) for line in self.hunk.text.split("\n") if line]


@dataclass(frozen=True)
class AlertLines:
    """``findings``: of hunks on trial. ``why_not``: a sentence; empty if the commit's hunks are shown."""

    findings: Sequence[HunkFinding]
    hunks: list[ShownHunk]
    commit: HunksOfCommit
    why_not: str = ""

    @property
    def sentence(self) -> str:
        """How many hunks touch changed functions; empty if that is not known."""
        return "" if self.why_not else self.commit.sentence

    @property
    def trial_sentences(self) -> list[str]:
        """What hunks on trial have shown so far; the same is said once."""
        return list(dict.fromkeys(f"{finding.sentence}." for finding in self.findings))

    @property
    def results(self) -> list[str]:
        """What hunks on trial have shown, or how many touch changed functions: sentences; empty if neither helps."""
        shown_by_trial = [f"{finding.sentence}." for finding in self.findings if finding.state == HunkState.FOUND]
        return shown_by_trial or ([self.sentence] if self.commit.touching else [])


def lines_of_alert(alert: Alert, tables: Sequence[FunctionTable], findings: Sequence[HunkFinding]) -> AlertLines:
    """The hunks of the commit that an alert names, with their stored findings. Git is asked once per process.

    ``tables``: its functions whose count changed. ``findings``: of hunks on trial.
    """
    if why_not := why_no_hunks(alert, tables):
        return AlertLines(findings, [], NO_HUNKS, why_not)
    costs = costs_by_name(tables)
    tried_hunks = tried_by_hunk(findings)
    named_hunks = frozenset((hunk.path, hunk.number) for finding in findings for hunk in finding.hunks)
    try:
        commit = hunks_of_commit(alert.project.slug, alert.before.sha, alert.commit.sha, tuple(costs), named_hunks)
    except RepositoryError as e:
        return AlertLines(findings, [], NO_HUNKS, failure_in_words(e))
    return AlertLines(findings, [shown(placed, costs, tried_hunks) for placed in commit.shown], commit)


def tried_by_hunk(findings: Sequence[HunkFinding]) -> TriedHunks:
    tried_hunks: TriedHunks = {}
    for finding in findings:
        for hunk in (*finding.hunks, *finding.others):
            tried_hunks.setdefault((hunk.path, hunk.number), []).append(TriedOf(finding.benchmark, hunk))
    return tried_hunks


def why_no_hunks(alert: Alert, tables: Sequence[FunctionTable]) -> str:
    """Why no hunk of an alert can be named, as a sentence; else empty."""
    if alert.drift:
        return "The level moved little by little, over many commits: no lines of one can be named."
    if alert.width > 1:
        return f"One of {alert.width} commits is the cause: lines are shown once it is known which."
    if alert.placed:
        return "A person named this commit, and functions were counted at others: no lines of it can be named."
    if not any(table.functions for table in tables):
        return "No function is known to execute more or fewer instructions, so no lines can be named."
    return ""


def failure_in_words(error: RepositoryError) -> str:
    sentence = next(text for kind, text in FAILURES if isinstance(error, kind))
    return sentence.format(error=error)


def hunks_in_words(count: int) -> str:
    return f"{count} hunk{'' if count == 1 else 's'}"


def costs_by_name(tables: Sequence[FunctionTable]) -> dict[str, list[CostUnder]]:
    """By name in the source code, the largest change first: what functions cost under each benchmark.

    The costs of all copies of a function that the compiler made are added.
    """
    costs = [CostUnder(table.benchmark, cost) for table in tables for cost in merged(table.functions)]
    by_name: dict[str, list[CostUnder]] = {}
    for cost in sorted(costs, key=lambda cost: -abs(cost.function.growth)):
        by_name.setdefault(cost.function.name, []).append(cost)
    return by_name


def merged(functions: Sequence[FunctionCost]) -> list[FunctionCost]:
    sums: dict[str, FunctionCost] = {}
    for function in functions:
        name = plain_name(function.name)
        copies = sums.get(name, FunctionCost(name, 0.0, 0.0))
        sums[name] = FunctionCost(name, copies.before + function.before, copies.after + function.after)
    return [cost for cost in sums.values() if abs(cost.growth) >= LEAST]


def plain_name(symbol: str) -> str:
    """A symbol's name in the source code: without the ending of a copy; of C++ and Rust the innermost name."""
    name = CLONE.sub("", symbol)
    if not name.startswith("_Z"):
        return name
    is_nested, remainder = name.startswith("_ZN"), name[2:]
    while (length := MANGLED_PART.match(remainder)) and (identifier := remainder[length.end() :][: int(length[1])]):
        name = name if HASH_OF_RUST.fullmatch(identifier) else identifier
        remainder = remainder[length.end() + len(identifier) :] if is_nested else ""
    return name


def shown(placed: PlacedHunk, costs: dict[str, list[CostUnder]], tried_hunks: TriedHunks) -> ShownHunk:
    own = [cost for name in placed.names for cost in costs[name]]
    return ShownHunk(placed, own[:MOST_COSTS], max(0, len(own) - MOST_COSTS), tried_hunks.get(key_of(placed.hunk), ()))


def key_of(hunk: Hunk) -> HunkKey:
    return hunk.path, hunk.number


@lru_cache(maxsize=KEPT)
def hunks_of_commit(
    slug: str, before: str, commit: str, names: tuple[str, ...], named_hunks: frozenset[HunkKey]
) -> HunksOfCommit:
    """The hunks of a commit: those that a trial named first, then those that touch the functions with these names.

    ``named_hunks``: those of trials. ``names``: the function that matters most first. Raises RepositoryError.
    """
    hunks = hunks_between(slug, before, commit, DESCRIBE_TIMEOUT_S)
    functions = functions_between(slug, before, commit, hunks, DESCRIBE_TIMEOUT_S)
    rank = {name: index for index, name in enumerate(names)}
    placed, further = [], []
    for hunk in hunks:
        own = functions[hunk.path].of(hunk) & rank.keys() if hunk.path in functions else ()
        touched = tuple(sorted(own, key=rank.__getitem__))
        if touched or key_of(hunk) in named_hunks:
            placed.append(PlacedHunk(hunk, touched))
        else:
            further.append(hunk)
    placed.sort(
        key=lambda placed_hunk: (
            key_of(placed_hunk.hunk) not in named_hunks,
            rank.get(placed_hunk.names[0], 0) if placed_hunk.names else 0,
        )
    )
    return HunksOfCommit(
        tuple(map(shortened, placed[:MOST_SHOWN])),
        len(placed),
        sum(bool(placed_hunk.names) for placed_hunk in placed),
        tuple(replace(hunk, text="", head=b"", patch=b"") for hunk in islice(further, MOST_FURTHER)),
        len(further),
    )


def shortened(placed: PlacedHunk) -> PlacedHunk:
    """With at most MOST_LINES, none longer than LONGEST_LINE."""
    lines = placed.hunk.text.rstrip("\n").split("\n")
    text = "\n".join(line[:LONGEST_LINE] for line in lines[:MOST_LINES])
    cut = max(0, len(lines) - MOST_LINES)
    return placed._replace(hunk=replace(placed.hunk, text=text, head=b"", patch=b""), cut=cut)
