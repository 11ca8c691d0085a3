"""What the pairs of a run that is being measured show so far, by the judge's own test.

The test of pairs is sequential (``stats/comparing/sequential.py``): it may be looked at after each pair. That of counts
is not, so a verdict on counts waits for all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.alerts.lines.effects import SmallestEffects
from speedtrack.alerts.pairs import pairing
from speedtrack.alerts.pairs.pairing import Pair
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.judging.evidence import Ends, TwoSides, evidence_of_ends
from speedtrack.judging.judge import findings_of, suspected_by
from speedtrack.judging.pulls import series_of
from speedtrack.judging.verdicts import Circumstances, Ruling, Shown, interval_of, ruling_of, words_of
from speedtrack.runs.models import Run
from speedtrack.runs.queue.jobs import members_of
from speedtrack.stats.comparing import compare, sequential

DECIDED = frozenset({Ruling.BETTER, Ruling.WORSE, Ruling.SAME, Ruling.SAME_PROGRAM})


@dataclass(frozen=True)
class Standing(Shown):
    """One benchmark and metric of an unfinished paired run, after ``pairs`` of ``total`` pairs.

    Pairs of earlier runs of the same commits count, in both numbers. ``ratio``: head / base with its 95% interval; None
    while there are too few pairs for an estimate.
    """

    benchmark: str
    metric: Metric
    verdict: Ruling
    pairs: int
    total: int
    ratio: tuple[float, float, float] | None = None

    @property
    def is_decided(self) -> bool:
        return self.verdict in DECIDED

    @property
    def words(self) -> str:
        """The verdict in words; what an undecided one waits for."""
        if self.is_decided:
            return f"decided, {'no change' if self.verdict == Ruling.SAME else words_of(self.verdict, self.metric)}"
        if self.metric.counted:
            return "decided once all are counted"
        return "not decided yet" if self.pairs >= sequential.FEWEST else f"decided from {sequential.FEWEST} pairs on"

    @property
    def sentence(self) -> str:
        """Such as ``after 8 of 12 pairs +29% (+26% to +32%) so far: decided, slower``."""
        interval = f"({self.interval})" if self.interval else ""
        parts = (f"after {self.pairs} of {self.total} pairs", self.change, interval, "so far")
        return f"{' '.join(filter(None, parts))}: {self.words}"

    @property
    def change(self) -> str:
        """The ratio in words; empty without one."""
        return numbers.change(self.ratio[0]) if self.ratio else ""

    @property
    def interval(self) -> str:
        """The interval in words; empty without one."""
        return numbers.change_interval(*self.ratio) if self.ratio and interval_of(*self.ratio[1:]) else ""


class Contest(NamedTuple):
    """The clean pairs of one benchmark and metric that a run has reported so far."""

    benchmark_id: int
    benchmark: str
    metric: Metric
    pairs: tuple[Pair, ...]


def standings_of(run: Run) -> list[Standing]:
    """What the pairs of an unfinished run show so far, in the order of its benchmarks; empty without pairs."""
    contests = list(contests_of(run))
    if not contests or run.base_id is None or run.base_id == run.commit_id:
        return []
    ends = Ends(run.machine_id, run.base_id, run.commit_id)
    keys = {(ends, contest.benchmark_id, contest.metric.name): contest.pairs for contest in contests}
    series = {key: pk for key, pk in series_of(keys).items() if (ends, *key[1:]) in keys}
    sides = {key: TwoSides(pk, run.base_id, run.commit_id) for key, pk in series.items()}
    findings, evidence = findings_of(sides.values()) if sides else ({}, evidence_of_ends([ends]))
    unmeasured = SmallestEffects(run.project_id)
    is_same_program = ends in evidence.same_program

    def standing(contest: Contest) -> Standing:
        key = (run.machine_id, contest.benchmark_id, contest.metric.name)
        finding = findings.get(sides[key]) if key in sides else None
        effect = evidence.series[series[key]].smallest if key in series else unmeasured.of(contest.metric.name)
        before = evidence.pairs.get((ends, *key[1:]), ())
        return standing_of(run, contest, before, effect, suspected_by(finding) if finding else 1.0, is_same_program)

    return [standing(contest) for contest in contests]


def standing_of(
    run: Run, contest: Contest, before: Sequence[Pair], effect: float, suspected: float, is_same_program: bool
) -> Standing:
    """The judge's answer to the pairs of earlier runs and those so far."""
    metric, pairs, seed = contest.metric, [*before, *contest.pairs], contest.benchmark_id
    found = pairing.compared(metric, pairs, effect, level=compare.LEVEL, seed=seed, suspected=suspected)
    verdict, is_final = Ruling.UNCERTAIN, len(contest.pairs) >= run.trials
    if found and (is_final or not metric.counted):
        answer = Answer(found.ratio, found.low, found.high, found.answer)
        verdict = ruling_of(metric, answer, Circumstances(same_program=is_same_program))
    ratio = (found.ratio, found.low, found.high) if found else None
    return Standing(contest.benchmark, metric, verdict, len(pairs), len(before) + run.trials, ratio)


def contests_of(run: Run) -> Iterator[Contest]:
    """The pairs that the runner has reported, of the metrics that the run is for, without those with a void side."""
    reported: Mapping[str, list[dict[str, Any]]] = (run.progress or {}).get("pairs") or {}
    for member in members_of(run.benchmark_set_id) if reported else ():
        for name in run.metrics or [HEADLINE]:
            void = METRICS[name].voided_by
            pairs = [
                (pair["base"][name], pair["head"][name])
                for pair in reported.get(member.name, ())
                if void.isdisjoint(pair["flags"]) and name in pair["base"] and name in pair["head"]
            ]
            if pairs:
                yield Contest(member.id, member.name, METRICS[name], tuple(pairs))
