"""Judgements on many series as columns. The judge makes those that the stored answer alone does not decide."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.judging.evidence import Rows, Wanted, evidence_rows
from speedtrack.judging.judge import judge_points_by
from speedtrack.judging.sidecolumns import SideColumns
from speedtrack.judging.storedcolumns import ANSWERS, StoredColumns, evidence_about, stored_columns
from speedtrack.judging.verdicts import DIFFERING, ORDER, PLACES, Basis, Judgement, Ruling, rulings_of


@dataclass(frozen=True)
class JudgedColumns:
    """Judgements; ``metric`` and ``ruling``: indices into ``metrics`` and ``ORDER``.

    ``evident``: by index, the judgements that rest on more than the stored answer; others are as ``plain_judgement``.
    """

    metrics: Sequence[Metric]
    metric: Array
    ruling: Array
    ratio: Array
    low: Array
    high: Array
    evident: dict[int, Judgement] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.metric)

    @property
    def objects(self) -> list[Judgement]:
        """Each as an object."""
        columns = (self.metric, self.ruling, self.ratio, self.low, self.high)
        judgements = [
            Judgement(self.metrics[metric], ORDER[ruling], ratio, low, high, Basis.STORED)
            for metric, ruling, ratio, low, high in zip(*(column.tolist() for column in columns), strict=True)
        ]
        for index, judgement in self.evident.items():
            judgements[index] = judgement
        return judgements

    def chosen(self, indices: Array) -> "JudgedColumns":
        """Only those at these indices, in this order."""
        pairs = enumerate(indices.tolist()) if self.evident else ()
        evident = {row: self.evident[index] for row, index in pairs if index in self.evident}
        metric, ruling, ratio, low, high = (
            column[indices] for column in (self.metric, self.ruling, self.ratio, self.low, self.high)
        )
        return JudgedColumns(self.metrics, metric, ruling, ratio, low, high, evident)

    def is_among(self, rulings: Collection[Ruling]) -> Array:
        return np.isin(self.ruling, [PLACES[ruling] for ruling in rulings])

    @cached_property
    def differs(self) -> Array:
        return self.is_among(DIFFERING)

    @property
    def is_watched(self) -> Array:
        """Whether each is of a metric that may raise alerts."""
        is_watched: Array = np.array([metric.watched for metric in self.metrics], bool)[self.metric]
        return is_watched

    @property
    def sizes(self) -> Array:
        """How far each ratio is from 1, for sorting."""
        has_logarithm = (self.ratio > 0) & np.isfinite(self.ratio)
        logarithms = np.log(np.where(has_logarithm, self.ratio, 1.0))
        return np.where(has_logarithm, np.abs(logarithms), np.abs(self.ratio - 1))

    @property
    def doubtful(self) -> list[int]:
        """The indices of those with doubts."""
        return [index for index, judgement in self.evident.items() if judgement.doubts]


def judge_columns(old: SideColumns, new: SideColumns) -> JudgedColumns:
    """The judgements of ``judge_points`` on two sides of equal length, by one query."""
    return judged_by(rows_about(old, new), old, new)


def rows_about(old: SideColumns, new: SideColumns) -> Rows:
    """The rows of EVIDENCE about these points; of two series, about each by itself as well."""
    count = len(new)
    base, head = old.side.commit_id, new.side.commit_id
    is_same = old.series == new.series
    apart = [(side.series[~is_same].tolist(), side.side.commit_id) for side in (old, new)]
    return evidence_rows(
        series=[*new.series.tolist(), *(pk for own, _ in apart for pk in own)],
        bases=[base] * count + [commit for own, commit in apart for _ in own],
        heads=[head] * count + [commit for own, commit in apart for _ in own],
        wanted=[Wanted.EITHER] * (count + sum(len(own) for own, _ in apart)),
    )


def judged_by(rows: Rows, old: SideColumns, new: SideColumns) -> JudgedColumns:
    """The judgements by these rows of EVIDENCE: by columns where the stored answer decides alone, else by the judge."""
    answers = stored_columns(rows)

    def judge(indices: list[int]) -> list[Judgement]:
        matched = list(zip(old.chosen(indices).points, new.chosen(indices).points, strict=True))
        series = {point.series_id for both in matched for point in both}
        return judge_points_by(evidence_about(rows, series), matched)

    at = np.where(old.series == new.series, indices_in(answers.series, new.series), -1)
    return judged_columns(new.names.metrics, new.metric, answers, at, judge)


def judged_columns(
    names: Sequence[str],
    metric: Array,
    answers: StoredColumns,
    at: Array,
    judge: Callable[[list[int]], Sequence[Judgement]],
) -> JudgedColumns:
    """The judgements on series, of each by the stored answer at this index, if that alone decides.

    ``at``: -1: no answer; ``metric``: indices into ``names``; ``judge``: makes the other judgements, those at indices.
    """
    is_plain = at >= 0
    is_plain[is_plain] = answers.is_plain[at[is_plain]]
    plain, metrics = at[is_plain], [METRICS[name] for name in names]
    ruling, numbers = np.zeros(len(metric), int), np.ones((3, len(metric)))
    ruling[is_plain] = rulings_of(metrics, metric[is_plain], ANSWERS, answers.answer[plain], answers.ratio[plain])
    numbers[:, is_plain] = answers.ratio[plain], answers.low[plain], answers.high[plain]
    indices = np.flatnonzero(~is_plain).tolist()
    judgements = judge(indices) if indices else []
    if indices:
        ruling[indices] = [PLACES[judgement.verdict] for judgement in judgements]
        numbers[:, indices] = np.array([judgement[2:5] for judgement in judgements]).T
    ratio, low, high = numbers
    evident = dict(zip(indices, judgements, strict=True))
    return JudgedColumns(metrics, metric, ruling, ratio, low, high, evident)


def indices_in(ascending: Array, values: Array) -> Array:
    """The index of each value among others without duplicates; -1 where it is not among them."""
    if not len(ascending):
        return np.full(len(values), -1)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[at] == values, at, -1)
