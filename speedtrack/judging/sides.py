"""Compare any two commits, each on one machine, by every benchmark that both have measured.

The two points of a row belong to one series where they can. Where they do not, an environment or a definition differs
as well: such a row has ``doubts``.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.judging import evidence
from speedtrack.judging.evidence import Ends
from speedtrack.judging.judge import MatchedPoints, judge_points
from speedtrack.judging.points import CommitOnMachine, SidePoint, points_of, points_to_compare
from speedtrack.judging.totals import Total, counts_of, total_of
from speedtrack.judging.verdicts import DIFFERING, ORDER, Caveat, Judgement, Ruling, Shown
from speedtrack.runs.models import Run

PLACES = {verdict: place for place, verdict in enumerate(ORDER)}


@dataclass(frozen=True)
class ComparedRow(Shown):
    """One benchmark and metric of two commits, and the judgement on them."""

    base: SidePoint
    head: SidePoint
    judgement: Judgement

    @property
    def benchmark(self) -> str:
        return self.head.benchmark

    @property
    def metric(self) -> Metric:  # type: ignore[override]
        return self.judgement.metric

    @property
    def verdict(self) -> Ruling:  # type: ignore[override]
        return self.judgement.verdict

    @property
    def ratio(self) -> float:
        """Head / base."""
        return self.judgement.ratio

    @property
    def low(self) -> float:
        return self.judgement.low

    @property
    def high(self) -> float:
        return self.judgement.high

    @property
    def pairs(self) -> int:
        return self.judgement.pairs

    @property
    def doubts(self) -> tuple[Caveat, ...]:
        return self.judgement.doubts

    @property
    def flags(self) -> list[str]:
        return sorted({*self.base.flags, *self.head.flags})

    @property
    def rank(self) -> tuple[bool, bool, int, float, str, str]:
        """The sort key: rows that differ come first, of these the metrics that may raise alerts; larger ones first."""
        metric, verdict, ratio, *_ = self.judgement
        size = abs(math.log(ratio)) if 0 < ratio < math.inf else abs(ratio - 1)
        weight = verdict not in DIFFERING, not metric.watched
        return *weight, max(1, PLACES[verdict]), -size, self.head.benchmark, metric.name


@dataclass(frozen=True)
class Between:
    """The comparison of two commits.

    ``only_base``, ``only_head``: (benchmark, metric) that only one of them has measured. ``runs``: their paired runs.
    """

    rows: list[ComparedRow]
    only_base: list[tuple[str, str]] = field(default_factory=list)
    only_head: list[tuple[str, str]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @cached_property
    def totals(self) -> list[Total]:
        """The totals by metric."""
        rows: dict[str, list[ComparedRow]] = defaultdict(list)
        for row in self.rows:
            rows[row.judgement.metric.name].append(row)
        lacking = Counter(name for _, name in (*self.only_base, *self.only_head))
        return [total_of_rows(metric, rows[metric.name], lacking[metric.name]) for metric in METRICS.among(rows)]


def total_of_rows(metric: Metric, rows: Sequence[ComparedRow], lacking: int = 0) -> Total:
    """The total of these rows of one metric. Rungs of ladders count for the mean only if there is nothing else.

    ``lacking``: benchmarks that only one side has.
    """
    usual = [row for row in rows if not row.head.ladder] or rows
    total = total_of(metric, [row.judgement for row in usual], len(usual) + lacking)
    return replace(
        total,
        counts=counts_of([row.judgement for row in rows]),
        doubtful=sum(bool(row.judgement.doubts) for row in rows),
    )


def compare_sides(base: CommitOnMachine, head: CommitOnMachine) -> Between:
    """Compare two commits; the rows are sorted by ``ComparedRow.rank``."""
    old, new = points_of([base, head])
    common = [points_to_compare(old[key], new[key]) for key in old.keys() & new.keys()]
    ends = Ends(head.machine_id, base.commit_id, head.commit_id)
    runs = evidence.paired_runs(ends) if base.machine_id == head.machine_id else []
    rows = compared_rows(common)
    only_base, only_head = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    return Between(sorted(rows, key=lambda row: row.rank), only_base, only_head, runs)


def compared_rows(matched: Sequence[MatchedPoints]) -> list[ComparedRow]:
    return [
        ComparedRow(old, new, judgement) for (old, new), judgement in zip(matched, judge_points(matched), strict=True)
    ]
