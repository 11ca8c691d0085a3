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
from speedtrack.judging.evidence import Ends, Known, StoredAnswer, TwoSides
from speedtrack.judging.points import Place, SidePoint, points_at
from speedtrack.judging.verdicts import Basis, Caveat, Circumstances, Judgement, ruling_of
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
    known, stored = known_of_sides([*sides, *neighbours])
    smallest = SharedEffects({side.series_id for side in [*sides, *stored]})
    findings = findings_of(sides, stored, smallest)
    return {side: judged(finding, known, smallest) for side, finding in findings.items()}


def findings_of(
    sides: Collection[TwoSides], stored: dict[TwoSides, Finding], smallest: SharedEffects
) -> dict[TwoSides, Finding]:
    """What is stored, and of the other sides what the samples of both show."""
    remaining = [side for side in sides if side not in stored]
    points = points_at([Place(series, commit) for series, *both in remaining for commit in both])
    matched = {
        TwoSides(series, base, head): (points[Place(series, base)], points[Place(series, head)])
        for series, base, head in remaining
        if Place(series, base) in points and Place(series, head) in points
    }
    return stored | dict(zip(matched, compared([*matched.values()], smallest), strict=True))


def judge_neighbours(series: Collection[int], commits: Collection[int]) -> dict[Place, Neighbour]:
    """By series and commit: the judgement against the commit before it, as far as detection has compared them."""
    known, smallest = evidence.known_of(series, commits), SharedEffects(series)
    return {
        Place(row.series_id, row.head_id): Neighbour(
            judged(stored_finding(row), known, smallest), row.distance, row.old
        )
        for row in known.stored
    }


def judge_points(matched: Sequence[MatchedPoints]) -> list[Judgement]:
    """The judgement of each two points. They may be of two series: what differs besides the commit is a doubt."""
    sides = [TwoSides(new.series_id, old.commit_id, new.commit_id) for old, new in matched]
    known, stored = known_of_sides(sides)
    indices = [
        index
        for index, (side, points) in enumerate(zip(sides, matched, strict=True))
        if side not in stored or not same_series(*points)
    ]
    smallest = SharedEffects({side.series_id for side in sides})
    by_index = dict(zip(indices, compared([matched[index] for index in indices], smallest), strict=True))
    findings = [by_index.get(index) or stored[side] for index, side in enumerate(sides)]
    return [judged(finding, known, smallest) for finding in findings]


def known_of_sides(sides: Collection[TwoSides]) -> tuple[Known, dict[TwoSides, Finding]]:
    """What is known of these sides, and what detection stored of exactly these."""
    wanted = set(sides)
    known = evidence.known_of([side.series_id for side in sides], [side.head_id for side in sides], wanted)
    return known, {row.sides: stored_finding(row) for row in known.stored if row.sides in wanted}


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


def judged(finding: Finding, known: Known, smallest: SharedEffects) -> Judgement:
    """The finding with all other evidence of its commits."""
    pairs = known.pairs.get((finding.ends, finding.benchmark_id, finding.metric.name), ()) if finding.ends else ()
    paired = answer_of_pairs(finding, pairs, smallest) if pairs else None
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


def answer_of_pairs(finding: Finding, pairs: tuple[Pair, ...], smallest: SharedEffects) -> Answer | None:
    """The answer of pairs; what the own runs show is the suspicion."""
    smallest_effect = smallest.by_series[finding.series_id]
    return evidence.answer_of_pairs(finding.metric, pairs, smallest_effect, finding.benchmark_id, suspected_by(finding))


def suspected_by(finding: Finding) -> float:
    """The ratio that pairs have to confirm; 1.0 if the own runs give no reason to suspect one."""
    is_suspicion = finding.answer.answer == ComparisonAnswer.DIFFERENT and not (finding.doubts or finding.flagged)
    return finding.answer.ratio if is_suspicion else 1.0
