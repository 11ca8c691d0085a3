"""What two sides of a series are to each other: the one function that answers it, for any two commits.

What detection decided is read: a confirmed change, then pairs of exactly these two commits, then the stored comparison
of a commit with the one before it. Otherwise the samples of both are compared the same way.
"""

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple

from speedtrack.alerts.lines import comparisons, effects
from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.alerts.pairs.pairing import Pair
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.judging import evidence
from speedtrack.judging.evidence import Ends, PairsOfEnds, StoredAnswer, TwoSides
from speedtrack.judging.points import Place, SidePoint, points_at
from speedtrack.judging.verdicts import Basis, Caveat, Circumstances, Judgement, ruling_of
from speedtrack.runs.models import Run
from speedtrack.stats.comparing.compare import ComparisonAnswer

MatchedPoints = tuple[SidePoint, SidePoint]  # base, head


class SharedEffects:
    """The smallest effects of some series, which are read by one call when the first is needed."""

    def __init__(self, series: Collection[int]) -> None:
        self.series = series

    @cached_property
    def by_series(self) -> dict[int, float]:
        return effects.smallest_effects(self.series)


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


class Neighbour(NamedTuple):
    """The judgement of a commit against the one that its series measured ``distance`` commits before: ``old``."""

    judgement: Judgement
    distance: int
    old: float


def judge(sides: Collection[TwoSides], neighbours: Collection[TwoSides] = ()) -> dict[TwoSides, Judgement]:
    """The judgement of each of these, by a fixed number of queries. Absent where a side was not measured.

    ``neighbours``: further sides, whose judgement is absent until detection has compared them.
    """
    stored = stored_findings([*sides, *neighbours])
    remaining = [side for side in sides if side not in stored]
    points = points_at([Place(series, commit) for series, *both in remaining for commit in both])
    matched = {
        TwoSides(series, base, head): (points[Place(series, base)], points[Place(series, head)])
        for series, base, head in remaining
        if Place(series, base) in points and Place(series, head) in points
    }
    smallest = SharedEffects({side.series_id for side in [*stored, *matched]})
    findings = stored | dict(zip(matched, compared([*matched.values()], smallest), strict=True))
    return dict(zip(findings, judgements_of([*findings.values()], smallest), strict=True))


def judge_neighbours(series: Collection[int], commits: Collection[int]) -> dict[Place, Neighbour]:
    """By series and commit: the judgement against the commit before it, as far as detection has compared them."""
    rows = evidence.stored_answers(series, commits)
    judgements = judgements_of([stored_finding(row) for row in rows], SharedEffects(series))
    return {
        Place(row.series_id, row.head_id): Neighbour(judgement, row.distance, row.old)
        for row, judgement in zip(rows, judgements, strict=True)
    }


def judge_points(matched: Sequence[MatchedPoints], runs: Sequence[Run] | None = None) -> list[Judgement]:
    """The judgement of each two points. They may be of two series: what differs besides the commit is a doubt.

    ``runs``: the paired runs of their commits, if they are known.
    """
    sides = [TwoSides(new.series_id, old.commit_id, new.commit_id) for old, new in matched]
    stored = stored_findings([side for side, (old, new) in zip(sides, matched, strict=True) if same_series(old, new)])
    indices = [
        index
        for index, (side, (old, new)) in enumerate(zip(sides, matched, strict=True))
        if side not in stored or not same_series(old, new)
    ]
    smallest = SharedEffects({side.series_id for side in sides})
    by_index = dict(zip(indices, compared([matched[index] for index in indices], smallest), strict=True))
    return judgements_of([by_index.get(index) or stored[side] for index, side in enumerate(sides)], smallest, runs)


def stored_findings(sides: Collection[TwoSides]) -> dict[TwoSides, Finding]:
    """The findings that detection stored of exactly these sides."""
    rows = evidence.stored_answers([side.series_id for side in sides], [side.head_id for side in sides])
    wanted = set(sides)
    return {row.sides: stored_finding(row) for row in rows if row.sides in wanted}


def stored_finding(row: StoredAnswer) -> Finding:
    ends = Ends(row.machine_id, row.base_id, row.head_id)
    names = (row.series_id, row.benchmark_id, row.benchmark, METRICS[row.metric])
    return Finding(*names, ends, row.own, Basis.STORED, row.flagged, row.change)


def compared(matched: Sequence[MatchedPoints], smallest: SharedEffects) -> list[Finding]:
    """The findings by the samples of both points."""
    if not matched:
        return []
    answers = comparisons.compare_all(
        [
            comparisons.Sides(
                new.series_id, METRICS[new.metric], old.measured, new.measured, smallest.by_series[new.series_id]
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
    old, new = points
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


def judgements_of(
    findings: Sequence[Finding], smallest: SharedEffects, runs: Sequence[Run] | None = None
) -> list[Judgement]:
    """The findings with all other evidence of their commits."""
    ends = {finding.ends for finding in findings if finding.ends}
    if not ends:
        return [judged(finding, {}, smallest, set()) for finding in findings]
    pairs = evidence.pairs_of(evidence.paired_runs(ends) if runs is None else runs)
    programs = evidence.same_programs(ends)
    return [judged(finding, pairs, smallest, programs) for finding in findings]


def pairs_for(finding: Finding, pairs: PairsOfEnds) -> tuple[Pair, ...]:
    key = finding.ends and (finding.ends, finding.benchmark_id, finding.metric.name)
    return pairs.get(key, ()) if key else ()


def judged(finding: Finding, pairs: PairsOfEnds, smallest: SharedEffects, programs: Collection[Ends]) -> Judgement:
    own_pairs = pairs_for(finding, pairs)
    answer, basis = finding.answer, finding.basis
    paired = answer_of_pairs(finding, own_pairs, smallest) if own_pairs else None
    if finding.change:
        answer, basis = finding.change, Basis.CHANGE
    elif paired:
        answer, basis = paired, Basis.PAIRS
    is_settled = basis in (Basis.CHANGE, Basis.PAIRS)
    circumstances = Circumstances(
        flagged=finding.flagged and not is_settled,
        same_program=finding.ends in programs and finding.benchmark != BUILD,
        comparable=finding.comparable or is_settled,
    )
    return Judgement(
        finding.metric,
        ruling_of(finding.metric, answer, circumstances),
        *answer[:3],
        basis,
        len(own_pairs) if paired else 0,
        () if is_settled else finding.doubts,
    )


def answer_of_pairs(finding: Finding, pairs: tuple[Pair, ...], smallest: SharedEffects) -> Answer | None:
    """The answer of pairs; what the own runs show is the suspicion."""
    is_suspicion = finding.answer.answer == ComparisonAnswer.DIFFERENT and not (finding.doubts or finding.flagged)
    suspected = finding.answer.ratio if is_suspicion else 1.0
    return evidence.answer_of_pairs(
        finding.metric, pairs, smallest.by_series[finding.series_id], finding.benchmark_id, suspected
    )
