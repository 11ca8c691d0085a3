"""Compare any two commits, each on one machine, by every benchmark that both have measured.

The two points of a row belong to one series where they can. Where they do not, an environment or a definition differs
as well: such a row has ``doubts``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.judging import evidence
from speedtrack.judging.evidence import Ends
from speedtrack.judging.judge import MatchedPoints, judge_points
from speedtrack.judging.judgedcolumns import JudgedColumns, judge_columns
from speedtrack.judging.points import CommitOnMachine, SidePoint
from speedtrack.judging.sidecolumns import SideColumns, keys_of_one, matched_columns, no_points, side_columns
from speedtrack.judging.totals import Total, counts_of, in_words, total_of, total_of_columns
from speedtrack.judging.verdicts import Caveat, Judgement, Ruling, Shown
from speedtrack.runs.models import Run


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


class ComparedRows(Sequence[ComparedRow]):
    """Rows as columns: each becomes an object only where it is read.

    ``base``, ``head``, ``judgements``: of equal length, the columns of both sides and the judgements on them.
    """

    def __init__(self, base: SideColumns, head: SideColumns, judgements: JudgedColumns) -> None:
        self.base, self.head, self.judgements = base, head, judgements

    def __len__(self) -> int:
        return len(self.head)

    @overload
    def __getitem__(self, index: int) -> ComparedRow: ...
    @overload
    def __getitem__(self, index: slice) -> "ComparedRows": ...
    def __getitem__(self, index: int | slice) -> "ComparedRow | ComparedRows":
        if isinstance(index, slice):
            return self.chosen(np.arange(len(self))[index])
        (row,) = self.chosen(np.array([range(len(self))[index]]))
        return row

    def __iter__(self) -> Iterator[ComparedRow]:
        return map(ComparedRow, self.base.points, self.head.points, self.judgements.objects)

    def chosen(self, indices: Array) -> "ComparedRows":
        """Only those at these indices, in this order."""
        return ComparedRows(self.base.chosen(indices), self.head.chosen(indices), self.judgements.chosen(indices))

    @property
    def ranked(self) -> "ComparedRows":
        """Those that differ come first, of these the metrics that may raise alerts; larger ones first, then by name."""
        judgements = self.judgements
        by_kind = (np.maximum(1, judgements.ruling), ~judgements.is_watched, ~judgements.differs)
        order = np.lexsort((self.head.key, -judgements.sizes, *by_kind))
        return self.chosen(order)

    @cached_property
    def benchmarks(self) -> list[str]:
        """The names of their benchmarks, sorted."""
        return [self.head.names.benchmarks[index] for index in np.unique(self.head.name).tolist()]

    @property
    def names(self) -> list[str]:
        """The name of each benchmark."""
        return list(map(self.head.names.benchmarks.__getitem__, self.head.name.tolist()))

    @property
    def benchmark_pairs(self) -> set[tuple[str, int, int]]:
        """The name of each benchmark, and its ids on both sides."""
        return set(zip(self.names, self.base.benchmark.tolist(), self.head.benchmark.tolist(), strict=True))

    @cached_property
    def metrics(self) -> list[Metric]:
        names = self.head.names.metrics
        return METRICS.among(names[index] for index in np.unique(self.head.metric).tolist())

    @cached_property
    def counts(self) -> dict[Ruling, int]:
        """How many have which verdict."""
        return counts_of(self.judgements.ruling)

    @property
    def doubtful(self) -> list[ComparedRow]:
        return list(self.chosen(np.array(self.judgements.doubtful, int)))

    @property
    def paired(self) -> int:
        """How many rest on pairs."""
        return sum(bool(judgement.pairs) for judgement in self.judgements.evident.values())

    @property
    def ladders(self) -> list[str]:
        """The ladders whose rungs are among them, by name."""
        rungs = np.unique(self.head.benchmark[self.head.is_rung]).tolist()
        return sorted({self.head.names.ladders[benchmark] for benchmark in rungs})

    @property
    def counted(self) -> "ComparedRows":
        """Without rungs of ladders, unless there is nothing else."""
        is_usual = ~self.head.is_rung
        return self.chosen(np.flatnonzero(is_usual)) if is_usual.any() else self

    @property
    def watched(self) -> "ComparedRows":
        """Those of metrics that may raise alerts, if there are."""
        is_watched = self.judgements.is_watched
        return self.chosen(np.flatnonzero(is_watched)) if is_watched.any() else self

    def of_metric(self, name: str) -> "ComparedRows":
        return self.chosen(np.flatnonzero(self.is_of_metric(name)))

    def is_of_metric(self, name: str) -> Array:
        fits: Array = self.head.metric == self.head.names.index_of_metric(name)
        return fits

    def are_named(self, fits: Callable[[str], bool]) -> Array:
        """Whether the name of each benchmark fits."""
        return np.array([fits(name) for name in self.head.names.benchmarks], bool)[self.head.name]


@dataclass(frozen=True)
class Between:
    """The comparison of two commits.

    ``only_base``, ``only_head``: (benchmark, metric) that only one of them has measured. ``runs``: their paired runs.
    """

    rows: ComparedRows = field(default_factory=lambda: no_rows())
    only_base: list[tuple[str, str]] = field(default_factory=list)
    only_head: list[tuple[str, str]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @cached_property
    def totals(self) -> list[Total]:
        """The totals by metric."""
        return [self.total_of(metric) for metric in self.rows.metrics]

    def total_of(self, metric: Metric) -> Total:
        """The total of this metric. Rungs of ladders count for the mean only if there is nothing else."""
        rows = self.rows.of_metric(metric.name)
        usual, lacking = rows.counted, sum(name == metric.name for _, name in (*self.only_base, *self.only_head))
        judgements = usual.judgements
        ratios = np.column_stack([judgements.ratio, judgements.low, judgements.high])
        total = total_of_columns(metric, judgements.ruling, ratios, len(usual) + lacking, len(rows.judgements.doubtful))
        return replace(total, counts=in_words(rows.counts))


def no_rows() -> ComparedRows:
    side = no_points()
    return ComparedRows(side, side, JudgedColumns([], side.metric, side.metric, side.value, side.low, side.high))


def total_of_rows(metric: Metric, rows: Sequence[ComparedRow], lacking: int = 0) -> Total:
    """The total of these rows of one metric. Rungs of ladders count for the mean only if there is nothing else.

    ``lacking``: benchmarks that only one side has.
    """
    usual = [row for row in rows if not row.head.ladder] or rows
    total = total_of(metric, [row.judgement for row in usual], len(usual) + lacking)
    if len(usual) == len(rows):
        return total
    every = total_of(metric, [row.judgement for row in rows])
    return replace(total, counts=every.counts, doubtful=every.doubtful)


def compare_sides(base: CommitOnMachine, head: CommitOnMachine) -> Between:
    """Compare two commits."""
    old, new = side_columns([base, head])
    ends = Ends(head.machine_id, base.commit_id, head.commit_id)
    runs = evidence.paired_runs(ends) if base.machine_id == head.machine_id else []
    matched = matched_columns(old, new)
    rows = ComparedRows(*matched, judge_columns(*matched))
    return Between(rows.ranked, keys_of_one(old, new), keys_of_one(new, old), runs)


def compared_rows(matched: Sequence[MatchedPoints]) -> list[ComparedRow]:
    return [
        ComparedRow(old, new, judgement) for (old, new), judgement in zip(matched, judge_points(matched), strict=True)
    ]
