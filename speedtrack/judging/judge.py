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
from speedtrack.judging import evidence
from speedtrack.judging.evidence import Ends, Known, TwoSides, Wanted
from speedtrack.judging.points import Place, SidePoint
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


class Neighbour(NamedTuple):
    """The judgement of a commit against the one that its series measured ``distance`` commits before: ``old``."""

    judgement: Judgement
    distance: int
    old: float


def judge(sides: Collection[TwoSides], neighbours: Collection[TwoSides] = ()) -> dict[TwoSides, Judgement]:
    """The judgement of each of these, by one query. Absent where a side was not measured, not even in pairs.

    ``neighbours``: further sides, whose judgement is absent until detection has compared them.
    """
    findings, known = findings_of(sides, neighbours)
    by_pairs = {side: judgement for side in sides if side not in findings and (judgement := paired_only(side, known))}
    return by_pairs | {side: judged(finding, known) for side, finding in findings.items()}


def paired_only(side: TwoSides, known: Known) -> Judgement | None:
    """The judgement of two commits that have no comparable points of their own, by their pairs."""
    series = known.series[side.series_id]
    ends = Ends(series.machine_id, side.base_id, side.head_id)
    pairs = known.pairs.get((ends, series.benchmark_id, series.metric.name), ())
    is_same_program = ends in known.same_program and series.benchmark != BUILD
    return judged_by_pairs(series.metric, pairs, series.smallest, series.benchmark_id, is_same_program)


def judged_by_pairs(
    metric: Metric, pairs: tuple[Pair, ...], smallest: float, seed: int, is_same_program: bool
) -> Judgement | None:
    """The judgement of pairs alone, without a suspicion; None if there are too few."""
    answer = evidence.answer_of_pairs(metric, pairs, smallest, seed, 1.0) if pairs else None
    if answer is None:
        return None
    verdict = ruling_of(metric, answer, Circumstances(same_program=is_same_program))
    return Judgement(metric, verdict, *answer[:3], Basis.PAIRS, len(pairs))


def findings_of(
    sides: Collection[TwoSides], neighbours: Collection[TwoSides] = ()
) -> tuple[dict[TwoSides, Finding], Known]:
    """What is stored, and of the other ``sides`` what the samples of both show; and what else is known of them."""
    wanted = dict.fromkeys(neighbours, Wanted.STORED) | dict.fromkeys(sides, Wanted.EITHER)
    known = evidence.known_of(wanted)
    findings = {side: stored_finding(side, known) for side in wanted if side in known.stored}
    matched = {
        side: (known.points[side.base], known.points[side.head])
        for side in sides
        if side not in findings and side.base in known.points and side.head in known.points
    }
    return findings | dict(zip(matched, compared([*matched.values()], known), strict=True)), known


def judge_neighbours(series: Collection[int], commits: Collection[int]) -> dict[Place, Neighbour]:
    """By series and commit: the judgement against the commit before it, as far as detection has compared them."""
    known = evidence.known_of_heads(series, commits)
    return {
        side.head: Neighbour(judged(stored_finding(side, known), known), answer.distance, answer.old)
        for side, answer in known.stored.items()
    }


def judge_points(matched: Sequence[MatchedPoints]) -> list[Judgement]:
    """Judge each pair of points. They may be of two series: what differs besides the commit is a doubt.

    The samples of those whose answer is not stored are read: of two series, of each by itself.
    """
    sides = [TwoSides(new.series_id, old.commit_id, new.commit_id) for old, new in matched]
    apart = [TwoSides(*point.place, point.commit_id) for both in matched if not same_series(*both) for point in both]
    known = evidence.known_of(dict.fromkeys([*sides, *apart], Wanted.EITHER))
    indices = [
        index
        for index, (side, points) in enumerate(zip(sides, matched, strict=True))
        if side not in known.stored or not same_series(*points)
    ]
    sampled = [
        (known.points.get(old.place, old), known.points.get(new.place, new))
        for old, new in (matched[index] for index in indices)
    ]
    by_index = dict(zip(indices, compared(sampled, known), strict=True))
    findings = [by_index.get(index) or stored_finding(side, known) for index, side in enumerate(sides)]
    return [judged(finding, known) for finding in findings]


def stored_finding(side: TwoSides, known: Known) -> Finding:
    series, answer = known.series[side.series_id], known.stored[side]
    names = (side.series_id, series.benchmark_id, series.benchmark, series.metric)
    ends = Ends(series.machine_id, side.base_id, side.head_id)
    return Finding(*names, ends, answer.own, Basis.STORED, answer.flagged, answer.change)


def compared(matched: Sequence[MatchedPoints], known: Known) -> list[Finding]:
    """The findings by the samples of both points."""
    if not matched:
        return []
    answers = comparisons.compare_all(
        [
            comparisons.Sides(
                new.series_id, METRICS[new.metric], old.measured, new.measured, known.series[new.series_id].smallest
            )
            for old, new in matched
        ]
    )
    differing = {(old.benchmark_id, new.benchmark_id) for old, new in matched if old.benchmark_id != new.benchmark_id}
    other = evidence.other_workloads(differing) if differing else set()
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


def judged(finding: Finding, known: Known) -> Judgement:
    """The finding with all other evidence of its commits, which nearly all do not have."""
    if finding.is_plain and finding.ends not in known.ends_with_evidence:
        verdict = ruling_of(finding.metric, finding.answer)
        return Judgement(finding.metric, verdict, *finding.answer[:3], finding.basis)
    pairs = known.pairs.get((finding.ends, finding.benchmark_id, finding.metric.name), ()) if finding.ends else ()
    paired = answer_of_pairs(finding, pairs, known) if pairs else None
    answer, basis = finding.answer, finding.basis
    if finding.change:
        answer, basis = finding.change, Basis.CHANGE
    elif paired:
        answer, basis = paired, Basis.PAIRS
    is_settled = basis in (Basis.CHANGE, Basis.PAIRS)
    circumstances = Circumstances(
        flagged=finding.flagged and not is_settled,
        same_program=finding.ends in known.same_program and finding.benchmark != BUILD,
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


def answer_of_pairs(finding: Finding, pairs: tuple[Pair, ...], known: Known) -> Answer | None:
    """The answer of pairs; what the own runs show is the suspicion."""
    smallest = known.series[finding.series_id].smallest
    return evidence.answer_of_pairs(finding.metric, pairs, smallest, finding.benchmark_id, suspected_by(finding))


def suspected_by(finding: Finding) -> float:
    """The ratio that pairs have to confirm; 1.0 if the own runs give no reason to suspect one."""
    is_suspicion = finding.answer.answer == ComparisonAnswer.DIFFERENT and not (finding.doubts or finding.flagged)
    return finding.answer.ratio if is_suspicion else 1.0
