"""What two sides of a series are to each other: the one function that answers it, for any two commits.

What detection decided is read: a confirmed change, then pairs of exactly these two commits, then the stored comparison
of a commit with the one before it. Otherwise the samples of both are compared the same way.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from speedtrack.alerts.lines import comparisons
from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.alerts.pairs.pairing import Pair
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.judging.evidence import (
    Ends,
    Evidence,
    PairedSeries,
    TwoSides,
    Wanted,
    answer_of_pairs,
    evidence_of,
    other_workloads,
)
from speedtrack.judging.points import SidePoint
from speedtrack.judging.verdicts import Basis, Caveat, Circumstances, Judgement, ruling_of
from speedtrack.stats.comparing.compare import ComparisonAnswer

MatchedPoints = tuple[SidePoint, SidePoint]  # base, head


class Finding(NamedTuple):
    """What the own runs of both sides show, before all other evidence.

    ``ends``: None if the sides are not of one machine. ``change``: the answer of a confirmed change between them.
    """

    series_id: int
    benchmark_id: int
    benchmark: str
    metric: Metric
    ends: Ends | None
    answer: Answer
    basis: Basis
    flagged: bool
    change: Answer | None = None
    doubts: tuple[Caveat, ...] = ()
    comparable: bool = True

    @property
    def is_plain(self) -> bool:
        """Return whether the answer alone decides, unless there is evidence of both commits."""
        return self.comparable and not (self.flagged or self.change or self.doubts)


def judge(sides: Collection[TwoSides], neighbours: Collection[TwoSides] = ()) -> dict[TwoSides, Judgement]:
    """The judgement of each of these, by one query. Absent where a side was not measured, not even in pairs.

    ``neighbours``: further sides, whose judgement is absent until detection has compared them.
    """
    evidence = evidence_of(wanted_of(sides, neighbours))
    every_side = (*neighbours, *sides)
    by_answers = {side: judged_as_stored(side, evidence) for side in every_side if side in evidence.stored}
    by_samples = {side: judged(finding, evidence) for side, finding in sampled_findings(sides, evidence).items()}
    by_points = by_answers | by_samples
    by_pairs = {
        side: judgement for side in sides if side not in by_points and (judgement := paired_only(side, evidence))
    }
    return by_pairs | by_points


def wanted_of(sides: Collection[TwoSides], neighbours: Collection[TwoSides] = ()) -> dict[TwoSides, Wanted]:
    return dict.fromkeys(neighbours, Wanted.STORED) | dict.fromkeys(sides, Wanted.EITHER)


def paired_only(side: TwoSides, evidence: Evidence) -> Judgement | None:
    """The judgement of two commits that have no comparable points of their own, by their pairs."""
    series = evidence.series[side.series_id]
    ends = Ends(series.machine_id, side.base_id, side.head_id)
    is_same_program = ends in evidence.same_program and series.benchmark != BUILD
    paired = ends, series.benchmark_id, series.metric.name
    return judged_by_pairs(evidence, paired, series.smallest, is_same_program)


def judged_by_pairs(
    evidence: Evidence, paired: PairedSeries, smallest: float, is_same_program: bool
) -> Judgement | None:
    """The judgement of pairs alone, without a suspicion; None if there are too few.

    Where too few are clean, all are shown, which decides nothing: the verdict is FLAGGED.
    """
    _, benchmark_id, name = paired
    metric = METRICS[name]
    for of_ends, flagged in ((evidence.pairs, False), (evidence.every_pair, True)):
        pairs = of_ends.get(paired, ())
        if answer := answer_of_pairs(metric, pairs, smallest, benchmark_id, 1.0) if pairs else None:
            verdict = ruling_of(metric, answer, Circumstances(flagged, is_same_program))
            return Judgement(metric, verdict, *answer[:3], Basis.PAIRS, len(pairs))
    return None


def findings_of(sides: Collection[TwoSides]) -> tuple[dict[TwoSides, Finding], Evidence]:
    """What is stored, and of the others what the samples of both show; and the evidence of them."""
    evidence = evidence_of(wanted_of(sides))
    stored = {side: stored_finding(side, evidence) for side in sides if side in evidence.stored}
    return stored | sampled_findings(sides, evidence), evidence


def sampled_findings(sides: Collection[TwoSides], evidence: Evidence) -> dict[TwoSides, Finding]:
    """What the samples of both commits show, of the sides without a stored answer."""
    point_at, stored = evidence.points.get, evidence.stored
    matched = {
        side: (old, new)
        for side in (sides if evidence.points else ())
        if side not in stored and (old := point_at(side.base)) and (new := point_at(side.head))
    }
    return dict(zip(matched, compared([*matched.values()], evidence), strict=True))


def judge_points(matched: Sequence[MatchedPoints]) -> list[Judgement]:
    """Judge each pair of points. They may be of two series: what differs besides the commit is a doubt.

    The samples of those whose answer is not stored are read: of two series, of each by itself.
    """
    apart = [TwoSides(*point.place, point.commit_id) for both in matched if not same_series(*both) for point in both]
    return judge_points_by(evidence_of(dict.fromkeys([*map(sides_of, matched), *apart], Wanted.EITHER)), matched)


def sides_of(points: MatchedPoints) -> TwoSides:
    old, new = points
    return TwoSides(new.series_id, old.commit_id, new.commit_id)


def judge_points_by(evidence: Evidence, matched: Sequence[MatchedPoints]) -> list[Judgement]:
    """``judge_points`` by the evidence of them."""
    sides = list(map(sides_of, matched))
    indices = [
        index
        for index, (side, points) in enumerate(zip(sides, matched, strict=True))
        if side not in evidence.stored or not same_series(*points)
    ]
    sampled = [
        (evidence.points.get(old.place, old), evidence.points.get(new.place, new))
        for old, new in (matched[index] for index in indices)
    ]
    by_index = dict(zip(indices, compared(sampled, evidence), strict=True))
    return [
        judged(by_index[index], evidence) if index in by_index else judged_as_stored(side, evidence)
        for index, side in enumerate(sides)
    ]


def judged_as_stored(side: TwoSides, evidence: Evidence) -> Judgement:
    """The judgement by a stored answer. Pages have thousands of them, nearly all of which need no finding."""
    answer = evidence.stored[side]
    if answer.is_plain and side[1:] not in evidence.commits_with_evidence:
        return plain_judgement(evidence.series[side.series_id].metric, answer.own, Basis.STORED)
    return judged(stored_finding(side, evidence), evidence)


def stored_finding(side: TwoSides, evidence: Evidence) -> Finding:
    series, answer = evidence.series[side.series_id], evidence.stored[side]
    names = (side.series_id, series.benchmark_id, series.benchmark, series.metric)
    ends = Ends(series.machine_id, side.base_id, side.head_id)
    return Finding(*names, ends, answer.own, Basis.STORED, answer.flagged, answer.change)


def compared(matched: Sequence[MatchedPoints], evidence: Evidence) -> list[Finding]:
    """The findings by the samples of both points."""
    if not matched:
        return []
    answers = comparisons.compare_all(
        [
            comparisons.Sides(
                new.series_id, METRICS[new.metric], old.measured, new.measured, evidence.series[new.series_id].smallest
            )
            for old, new in matched
        ]
    )
    differing = {(old.benchmark_id, new.benchmark_id) for old, new in matched if old.benchmark_id != new.benchmark_id}
    other = other_workloads(differing) if differing else set()
    return [
        compared_finding(points, answer, (points[0].benchmark_id, points[1].benchmark_id) in other)
        for points, answer in zip(matched, answers, strict=True)
    ]


def compared_finding(points: MatchedPoints, answer: Answer, other_workload: bool) -> Finding:
    """The finding by an answer. A commit against itself is one value twice, so its spread says nothing of a change."""
    old, new = points
    if (old.series_id, old.commit_id) == (new.series_id, new.commit_id):
        answer = Answer(1.0, 1.0, 1.0, ComparisonAnswer.SAME)
    doubts = doubts_of(old, new)
    return Finding(
        new.series_id,
        new.benchmark_id,
        new.benchmark,
        METRICS[new.metric],
        Ends(new.machine_id, old.commit_id, new.commit_id) if old.machine_id == new.machine_id else None,
        answer,
        Basis.SAMPLES,
        bool(old.flags or new.flags),
        doubts=doubts,
        comparable=not other_workload and not {Caveat.MACHINE, Caveat.ENVIRONMENT}.intersection(doubts),
    )


def same_series(old: SidePoint, new: SidePoint) -> bool:
    return old.series_id == new.series_id


def doubts_of(old: SidePoint, new: SidePoint) -> tuple[Caveat, ...]:
    other_machine = old.machine_id != new.machine_id
    by_doubt = {
        Caveat.MACHINE: other_machine,
        Caveat.ENVIRONMENT: not other_machine and old.environment_id != new.environment_id,
        Caveat.DEFINITION: old.benchmark_id != new.benchmark_id,
    }
    return tuple(doubt for doubt, differs in by_doubt.items() if differs)


def judged(finding: Finding, evidence: Evidence) -> Judgement:
    """The finding with all other evidence of its commits, which nearly all do not have."""
    if finding.is_plain and not (finding.ends and finding.ends[1:] in evidence.commits_with_evidence):
        return plain_judgement(finding.metric, finding.answer, finding.basis)
    pairs = evidence.pairs.get((finding.ends, finding.benchmark_id, finding.metric.name), ()) if finding.ends else ()
    paired = answer_of_finding(finding, pairs, evidence) if pairs else None
    answer, basis = finding.answer, finding.basis
    if finding.change:
        answer, basis = finding.change, Basis.CHANGE
    elif paired:
        answer, basis = paired, Basis.PAIRS
    is_settled = basis in (Basis.CHANGE, Basis.PAIRS)
    circumstances = Circumstances(
        flagged=finding.flagged and not is_settled,
        same_program=finding.ends in evidence.same_program and finding.benchmark != BUILD,
        comparable=finding.comparable or is_settled,
    )
    return Judgement(
        finding.metric,
        ruling_of(finding.metric, answer, circumstances),
        *answer[:3],
        basis,
        len(pairs) if paired else 0,
        () if is_settled else finding.doubts,
    )


def plain_judgement(metric: Metric, answer: Answer, basis: Basis) -> Judgement:
    return Judgement(metric, ruling_of(metric, answer), answer.ratio, answer.low, answer.high, basis)


def answer_of_finding(finding: Finding, pairs: tuple[Pair, ...], evidence: Evidence) -> Answer | None:
    """The answer of pairs; what the own runs show is the suspicion."""
    smallest = evidence.series[finding.series_id].smallest
    return answer_of_pairs(finding.metric, pairs, smallest, finding.benchmark_id, suspected_by(finding))


def suspected_by(finding: Finding) -> float:
    """The ratio that pairs have to confirm; 1.0 if the own runs give no reason to suspect one."""
    is_suspicion = finding.answer.answer == ComparisonAnswer.DIFFERENT and not (finding.doubts or finding.flagged)
    return finding.answer.ratio if is_suspicion else 1.0
