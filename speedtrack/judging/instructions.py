"""What instructions say about changes: the server executes more of them per request, fewer, or the same.

Exact counts are asked first, then the processor's; either are judged as any two commits of a series are.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import INSTRUCTIONS, VOIDS_CPU
from speedtrack.judging.evidence import TwoSides
from speedtrack.judging.judge import judge
from speedtrack.judging.verdicts import DIFFERING, Judgement, Ruling, words_of
from speedtrack.runs.models import Series

SAME_WORK = frozenset({Ruling.SAME, Ruling.SAME_PROGRAM})
SeriesOfInstructions = defaultdict[tuple[int, int], list[int]]  # by benchmark and machine
NOT_COUNTED = "neither the suite nor the processor counts them"
NOT_AT_BOTH = "not both commits were counted"
#: Why counts of both commits say nothing, by the verdict on them.
UNTOLD: dict[str, str] = {
    Ruling.UNCERTAIN: "the counts vary by more than they differ",
    Ruling.FLAGGED: "a flag voids the counts",
    Ruling.NOT_COMPARABLE: "the counts cannot be compared",
}


@dataclass(frozen=True)
class Work:
    """What instructions say about a change. ``judgement`` is None if they say nothing, because ``why_not``."""

    change: ChangePoint
    judgement: Judgement | None
    why_not: str = ""

    @property
    def is_same(self) -> bool:
        return self.judgement is not None and self.judgement.verdict in SAME_WORK

    @property
    def is_changed(self) -> bool:
        """Return whether the server executes more or fewer instructions."""
        return self.judgement is not None and not self.is_same

    @property
    def is_time_only(self) -> bool:
        """Return whether the same instructions take other time, as where code lies at other addresses."""
        return self.is_same and takes_time(self.change)

    @property
    def words(self) -> str:
        """Such as ``more instructions (+1.2%)``."""
        if self.judgement is None:
            return f"not countable, because {self.why_not}"
        verdict, metric = self.judgement.verdict, self.judgement.metric
        amount = "the same instructions" if self.is_same else words_of(verdict, metric)
        return f"{amount} ({numbers.change(self.judgement.ratio)})"

    @property
    def sentence(self) -> str:
        """Such as ``get-p1: the same instructions (+0.0%), slower``; empty if instructions say nothing."""
        if self.judgement is None or (self.is_same and not self.is_time_only):
            return ""
        end = f", {'slower' if self.change.is_slowdown else 'faster'}" if self.is_time_only else ""
        return f"{self.change.benchmark_name}: {self.words}{end}"


def takes_time(cp: ChangePoint) -> bool:
    """Return whether it is a change of time or throughput.

    These depend on the clock, so they are voided by what voids CPU time.
    """
    return cp.metric.voided_by >= VOIDS_CPU


def works_of(points: Sequence[ChangePoint]) -> list[Work]:
    """What instructions say about each of these changes, at the ends of its range; the same order."""
    series = series_of_instructions(points)
    sides = {cp.pk: [TwoSides(pk, cp.before_id, cp.commit_id) for pk in series[key_of(cp)]] for cp in points}
    wanted = {side for of_change in sides.values() for side in of_change}
    judgements = judge(wanted) if wanted else {}
    return [work_of(cp, [judgements[side] for side in sides[cp.pk] if side in judgements], series) for cp in points]


def key_of(cp: ChangePoint) -> tuple[int, int]:
    return cp.series.benchmark_id, cp.series.machine_id


def series_of_instructions(points: Iterable[ChangePoint]) -> SeriesOfInstructions:
    """By benchmark and machine: the series that count instructions, the most exact metric first, then the newest."""
    benchmarks = {cp.series.benchmark_id for cp in points}
    rows = Series.objects.filter(metric__in=INSTRUCTIONS, benchmark__in=benchmarks)
    counted: SeriesOfInstructions = defaultdict(list)
    columns = rows.values_list("metric", "benchmark", "machine", "pk")
    for _, benchmark, machine, pk in sorted(columns, key=lambda row: (INSTRUCTIONS.index(row[0]), -row[3])):
        counted[benchmark, machine].append(pk)
    return counted


def work_of(cp: ChangePoint, judgements: Sequence[Judgement], counted: dict[tuple[int, int], list[int]]) -> Work:
    """The first judgement that says something, or why none does."""
    telling = next((one for one in judgements if one.verdict in SAME_WORK | DIFFERING), None)
    if telling:
        return Work(cp, telling)
    if cp.benchmark_name == BUILD:
        return Work(cp, None, "no request is served")
    if not judgements:
        return Work(cp, None, NOT_AT_BOTH if counted[key_of(cp)] else NOT_COUNTED)
    return Work(cp, None, UNTOLD[judgements[0].verdict])


def sentences_of(works: Iterable[Work]) -> list[str]:
    """A sentence for each changed benchmark with known instructions, those whose instructions changed first."""
    ranked = sorted(works, key=lambda work: work.is_same)
    return [sentence for sentence in dict.fromkeys(work.sentence for work in ranked) if sentence]


def is_time_only(works: Sequence[Work]) -> bool:
    """Return whether all changes of an alert are of one kind: the same instructions take other time."""
    return bool(works) and all(work.is_time_only for work in works)
