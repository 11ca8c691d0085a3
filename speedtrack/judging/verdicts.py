"""The verdicts, and the one place where a verdict becomes a colour, a sign and words."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.alerts.models import Alert
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.stats.comparing.compare import ComparisonAnswer


class Ruling(StrEnum):
    """What the head is against the base."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCERTAIN = "uncertain"  #: neither a difference nor its absence is certain
    FLAGGED = "flagged"  #: a flag voids the values of a side
    SAME_PROGRAM = "same program"  #: the machine built the same program of both, bit for bit
    NOT_COMPARABLE = "not comparable"  #: the sides belong to different series, or their ratio has no meaning


class Caveat(StrEnum):
    """What differs between two points besides the commit."""

    MACHINE = "machine"
    ENVIRONMENT = "environment"
    DEFINITION = "definition"


class Basis(StrEnum):
    """What a judgement rests on."""

    CHANGE = "change"  #: a confirmed change point
    PAIRS = "pairs"  #: pairs of exactly these two commits
    STORED = "stored"  #: the comparison that detection stored
    SAMPLES = "samples"  #: the samples of separate runs; their summaries where samples were deleted


DIFFERING = frozenset({Ruling.WORSE, Ruling.BETTER})
COUNTED = frozenset({Ruling.WORSE, Ruling.BETTER, Ruling.SAME, Ruling.UNCERTAIN, Ruling.SAME_PROGRAM})
#: Lists show the verdicts in this order.
ORDER = (
    Ruling.WORSE,
    Ruling.BETTER,
    Ruling.UNCERTAIN,
    Ruling.FLAGGED,
    Ruling.NOT_COMPARABLE,
    Ruling.SAME,
    Ruling.SAME_PROGRAM,
)
PLACES = {ruling: place for place, ruling in enumerate(ORDER)}
#: Of several verdicts the first of these is the worst. Flagged and not comparable rows say nothing if others do.
WORST_FIRST = (
    Ruling.WORSE,
    Ruling.UNCERTAIN,
    Ruling.BETTER,
    Ruling.SAME,
    Ruling.SAME_PROGRAM,
    Ruling.FLAGGED,
    Ruling.NOT_COMPARABLE,
)
#: Signs judge, as colours do. None points up or down: that would be read as the sign of the number beside it.
SIGNS: dict[str, str] = {Ruling.WORSE: "! ", Ruling.BETTER: "✓ "}
#: States of alerts that are no work any more.
SETTLED = frozenset(map(str, set(Alert.Status) - set(Alert.OPEN)))


class JudgedChange(Protocol):
    """A change point, as rows of the database, of lists and of charts have it. ``alert_state``: "" without an alert."""

    @property
    def is_slowdown(self) -> bool: ...
    @property
    def alert_state(self) -> str | None: ...


def look_of(verdict: Ruling) -> str:
    """The CSS class: only a certain verdict has a colour."""
    return str(verdict) if verdict in DIFFERING else "same"


def sign_of(verdict: Ruling) -> str:
    return SIGNS.get(verdict, "")


def words_of(verdict: Ruling, metric: Metric) -> str:
    return numbers.effect(metric, verdict == Ruling.WORSE) if verdict in DIFFERING else str(verdict)


def look_of_change(change: JudgedChange) -> str:
    """The CSS class of a change: ``settled``, which has no colour, once its alert is no work any more."""
    return "settled" if change.alert_state in SETTLED else str(way_of(change.is_slowdown))


def sign_of_change(is_slowdown: bool) -> str:
    return SIGNS[way_of(is_slowdown)].strip()


def way_of(is_slowdown: bool) -> Ruling:
    return Ruling.WORSE if is_slowdown else Ruling.BETTER


def worst_of(verdicts: Collection[Ruling]) -> Ruling | None:
    """The worst of these verdicts; None without any."""
    return next((verdict for verdict in WORST_FIRST if verdict in verdicts), None)


class Shown:
    """What is shown of a verdict."""

    metric: Metric
    verdict: Ruling

    @property
    def look(self) -> str:
        return look_of(self.verdict)

    @property
    def sign(self) -> str:
        return sign_of(self.verdict)

    @property
    def words(self) -> str:
        return words_of(self.verdict, self.metric)


class JudgementColumns(NamedTuple):
    """The fields of a judgement: a tuple, which takes a quarter of a dataclass's time to make."""

    metric: Metric
    verdict: Ruling
    ratio: float
    low: float
    high: float
    basis: Basis
    pairs: int = 0
    doubts: tuple[Caveat, ...] = ()


class Judgement(JudgementColumns, Shown):
    """What the head is against the base. ``ratio``, with its 95% interval ``low`` to ``high``, is head / base.

    ``pairs``: how many pairs it rests on; 0 for another basis.
    """

    __slots__ = ()

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval; None for single values, which have none."""
        return interval_of(self.low, self.high)


def interval_of(low: float, high: float) -> tuple[float, float] | None:
    return (low, high) if low < high else None


@dataclass(frozen=True)
class Circumstances:
    """What decides a verdict besides the numbers."""

    flagged: bool = False
    same_program: bool = False
    comparable: bool = True


def ruling_of(metric: Metric, answer: Answer, circumstances: Circumstances = Circumstances()) -> Ruling:
    """The verdict on an answer of the statistics."""
    if not (circumstances.comparable and math.isfinite(answer.ratio)):
        return Ruling.NOT_COMPARABLE
    if circumstances.same_program:
        return Ruling.SAME_PROGRAM
    if circumstances.flagged:
        return Ruling.FLAGGED
    if answer.answer == ComparisonAnswer.DIFFERENT:
        return direction_of(metric, answer.ratio)
    return Ruling.SAME if answer.answer == ComparisonAnswer.SAME else Ruling.UNCERTAIN


def rulings_of(metrics: Sequence[Metric], metric: Array, answers: Sequence[str], answer: Array, ratios: Array) -> Array:
    """The verdicts on plain answers, as places in ``ORDER``: ``ruling_of`` once for each kind of answer there is.

    ``metric``, ``answer``: places in ``metrics`` and ``answers``. A ratio decides by its side of 1 or if infinite.
    """
    side = np.where(np.isfinite(ratios), ratios > 1, 2)
    kinds = (metric * len(answers) + answer) * 3 + side
    _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
    rulings = [
        ruling_of(metrics[metric[i]], Answer(ratios[i], ratios[i], ratios[i], answers[answer[i]]))
        for i in first.tolist()
    ]
    return np.array([PLACES[ruling] for ruling in rulings], int)[kind]


def direction_of(metric: Metric, ratio: float) -> Ruling:
    """Whether a difference of this ratio is better or worse, by the metric's direction."""
    return way_of(metric.is_worse(ratio))
