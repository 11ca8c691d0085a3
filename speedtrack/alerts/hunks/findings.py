"""What a trial of hunks has shown so far: the one read model for pages, documents and messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from django.conf import settings

from speedtrack.alerts.models import Alert, HunkStep, HunkTrial
from speedtrack.alerts.pairs.counts import LEAST
from speedtrack.benchmarks import numbers
from speedtrack.projects.mirrors.hunks import name_of
from speedtrack.stats.comparing import delta
from speedtrack.stats.comparing.delta import Pieces, SearchProgress

MOST_HUNKS = 20  # of a finding: a budget that ends early leaves thousands
NAMED = 3  # more hunks than this are not named one by one in a sentence
NEARLY_ALL = 0.02  # of a change, by which "all of it" may be missed or exceeded


class HunkState(StrEnum):
    """How far the trial is, for one benchmark."""

    WAITING = "waiting"  #: nothing was counted yet
    RUNNING = "running"  #: some hunks were counted
    FOUND = "found"  #: the smallest set of hunks that explains the change is named
    ENDED = "ended"  #: the budget of builds ended before: the change lies within the named hunks, perhaps in fewer
    IMPOSSIBLE = "impossible"  #: no hunk can be named; the sentence says why


@dataclass(frozen=True)
class TriedHunk:
    """A piece of the commit's change, and what it was found to do.

    ``number`` of ``count``: which piece of its file it is. ``line``: where it begins in the commit's file, 0 for what
    is no hunk. ``text``: of named pieces only, the beginning of its lines. ``instructions``: per request, that it adds
    by itself; None if it was not counted by itself, or because of the ``refusal``.
    """

    path: str
    kind: str
    number: int
    count: int
    line: int
    before_line: int
    header: str
    text: str
    is_named: bool
    instructions: float | None
    refusal: str

    @property
    def name(self) -> str:
        """Such as ``the second hunk of zmalloc.c``."""
        return name_of(self.path, self.kind, self.number, self.count)


@dataclass(frozen=True)
class HunkFinding:
    """The findings about the hunks of a commit for one benchmark.

    ``growth``: the instructions per request that the whole commit adds; None until they were counted. ``explained``:
    those that the named ``hunks`` add together; of these, ``hunks`` has the first MOST_HUNKS. ``others``: those that
    were also counted by themselves, or refused. Hunks are in the order of the diff. ``pieces``: how many the commit has
    in all. ``builds``: so far, of ``budget``.
    """

    benchmark: str
    state: HunkState
    sentence: str
    growth: float | None
    explained: float | None
    hunks: tuple[TriedHunk, ...]
    others: tuple[TriedHunk, ...]
    pieces: int
    builds: int
    budget: int


@dataclass(frozen=True)
class HunkEvidence:
    """What the steps of a trial have shown about one benchmark."""

    trial: HunkTrial
    steps: Sequence[HunkStep]
    benchmark: str

    @cached_property
    def pieces(self) -> list[dict[str, Any]]:
        return list(self.trial.pieces or [])

    @cached_property
    def growths(self) -> dict[Pieces, float | None]:
        """By set of pieces: what it adds; None where that was not counted. Steps under way are left out."""
        ended_steps = [step for step in self.steps if step.growths is not None]
        return {frozenset(step.pieces): (step.growths or {}).get(self.benchmark) for step in ended_steps}

    @cached_property
    def growth(self) -> float | None:
        """What the whole commit adds."""
        return self.growths.get(frozenset(range(len(self.pieces))))

    @cached_property
    def progress(self) -> SearchProgress:
        """How far the search is. Without a change of instructions, or with one piece, nothing is searched."""
        if len(self.pieces) == 1:
            return SearchProgress((), frozenset([0]), is_minimal=True)
        if self.growth is not None and abs(self.growth) < LEAST:
            return SearchProgress((), None, is_minimal=False)
        keys = [(piece["path"], piece["header"]) for piece in self.pieces]
        return delta.advance(keys, self.growths, settings.HUNK_BUILDS)

    @property
    def state(self) -> HunkState:
        if self.progress.is_minimal:
            return HunkState.FOUND
        if self.trial.ended_at is None:
            return HunkState.RUNNING if self.growths else HunkState.WAITING
        is_some = self.progress.smallest is not None and len(self.progress.smallest) < len(self.pieces)
        return HunkState.ENDED if is_some else HunkState.IMPOSSIBLE

    @cached_property
    def named(self) -> Pieces:
        """The pieces that a finding names: only once the search has ended."""
        return (
            self.progress.smallest or frozenset() if self.state in (HunkState.FOUND, HunkState.ENDED) else frozenset()
        )


def hunks_of(alert: Alert) -> list[HunkFinding]:
    """The findings about the hunks of the commit that an alert names, the largest change of instructions first.

    One finding for each benchmark whose counts changed; empty if its hunks are not tried.
    """
    trials = HunkTrial.objects.filter(before=alert.before_id, commit=alert.commit_id).select_related("benchmark_set")
    trial = trials.order_by("pk").last()
    return findings_of(trial) if trial else []


def findings_of(trial: HunkTrial) -> list[HunkFinding]:
    evidence = evidence_of(trial)
    return [finding_of(each) for each in sorted(evidence, key=lambda each: -abs(each.growth or 0.0))]


def evidence_of(trial: HunkTrial) -> list[HunkEvidence]:
    """The evidence about each benchmark of a trial."""
    steps = list(trial.steps.order_by("pk"))
    return [HunkEvidence(trial, steps, name) for name in trial.benchmark_set.names]


def finding_of(evidence: HunkEvidence) -> HunkFinding:
    refusals = {step.pieces[0]: step.refusal for step in evidence.steps if len(step.pieces) == 1}
    is_under_way = evidence.state in (
        HunkState.WAITING,
        HunkState.RUNNING,
    )  # and so it is for all benchmarks of the trial
    tried_hunks = [tried_hunk(evidence, index, refusals.get(index, "")) for index in range(len(evidence.pieces))]
    return HunkFinding(
        benchmark=evidence.benchmark,
        state=evidence.state,
        sentence=sentence_of(evidence).capitalize()
        if is_under_way
        else f"{evidence.benchmark}: {sentence_of(evidence)}",
        growth=evidence.growth,
        explained=evidence.growths.get(evidence.named),
        hunks=tuple(hunk for hunk in tried_hunks if hunk.is_named)[:MOST_HUNKS],
        others=tuple(h for h in tried_hunks if not h.is_named and (h.refusal or h.instructions is not None)),
        pieces=len(evidence.pieces),
        builds=len(evidence.steps),
        budget=settings.HUNK_BUILDS,
    )


def tried_hunk(evidence: HunkEvidence, index: int, refusal: str) -> TriedHunk:
    return TriedHunk(
        **evidence.pieces[index],
        text=evidence.trial.texts.get(str(index), ""),
        is_named=index in evidence.named,
        instructions=evidence.growths.get(frozenset([index])),
        refusal=refusal,
    )


def sentence_of(evidence: HunkEvidence) -> str:
    """The finding, as the end of a sentence."""
    builds = f"{len(evidence.steps)} build{'s' * (len(evidence.steps) != 1)}"
    if evidence.state == HunkState.WAITING:
        return "the hunks of the commit wait to be counted one by one"
    if evidence.state == HunkState.RUNNING:
        return f"the hunks of the commit are being counted: {builds} of at most {settings.HUNK_BUILDS}"
    if evidence.state == HunkState.IMPOSSIBLE:
        return why_impossible(evidence)
    names = names_of([evidence.pieces[index] for index in sorted(evidence.named)])
    if len(evidence.pieces) == 1:
        return f"the commit consists of {names}"
    share = share_in_words(evidence)
    if evidence.state == HunkState.ENDED:
        return f"{share} within {names}, and perhaps in fewer: {evidence.trial.note or f'the budget of {builds} ended'}"
    if len(evidence.named) == len(evidence.pieces):
        return f"{share} from all {len(evidence.pieces)} hunks of the commit together: no fewer of them explain it"
    return f"{share} from {names}"


def why_impossible(evidence: HunkEvidence) -> str:
    if evidence.trial.note:
        return f"its hunks were not tried: {evidence.trial.note}"
    if evidence.growth is None:
        refusal = next((step.refusal for step in evidence.steps if step.refusal), "")
        return f"its hunks were not tried: {refusal or 'the commit and the one before it were not counted'}"
    if abs(evidence.growth) < LEAST:
        return "counted again, the commit changes no instructions"
    return f"the budget of {settings.HUNK_BUILDS} builds ended before fewer hunks than all of them explained the change"


def share_in_words(evidence: HunkEvidence) -> str:
    """How much of the change is explained, with the verb: ``all of +63 instructions per request come``."""
    growth, explained = evidence.growth or 0.0, evidence.growths.get(evidence.named)
    share = (explained or 0.0) / growth
    verb = "lie" if evidence.state == HunkState.ENDED else "come"
    growth_in_words = f"{instructions_in_words(growth)} instructions per request"
    if abs(share - 1) <= NEARLY_ALL:
        return f"all of {growth_in_words} {verb}"
    if share > 1:
        amount, total = instructions_in_words(explained or 0.0), instructions_in_words(growth)
        return f"{amount} instructions per request (of {total} in all) {verb}"
    return f"{100 * share:.0f}% of {growth_in_words} {verb}"


def instructions_in_words(growth: float) -> str:
    """Such as +63, +0.42."""
    return f"{growth:+,.0f}".replace("-", numbers.MINUS) if abs(growth) >= 10 else numbers.signed(growth)


def names_of(pieces: Sequence[Mapping[str, Any]]) -> str:
    """The names of the pieces, for a sentence: each if there are at most NAMED, else the names of their files."""
    names = [name_of(piece["path"], piece["kind"], piece["number"], piece["count"]) for piece in pieces]
    if len(names) <= NAMED:
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    paths = list(dict.fromkeys(piece["path"] for piece in pieces))
    listing = ", ".join(paths[:NAMED]) + (f" and {len(paths) - NAMED} more files" if len(paths) > NAMED else "")
    return f"{len(pieces)} hunks of {listing}"
