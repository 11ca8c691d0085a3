"""Compare any two commits, each on one machine, by every benchmark that both have measured.

The answers are those of ``comparisons``: the stored one if there is any, otherwise the samples are compared. Pairs of
exactly these two commits are better evidence, and replace the answer. The two points of a row belong to one series
where they can. Where they do not, an environment or a definition differs as well: such a row has ``doubts``.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Q

from speedtrack.alerts.lines import comparisons, lines
from speedtrack.alerts.lines.comparisons import Answer, MeasuredCommit
from speedtrack.alerts.lines.effects import SmallestEffects
from speedtrack.alerts.models import look_of
from speedtrack.alerts.pairs import pairing
from speedtrack.alerts.pairs.pairing import Pair
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.runs.models import MEASURED, Reason, Run
from speedtrack.stats import compare, sequential
from speedtrack.stats.compare import Comparison, ComparisonAnswer

UNSETTLED = {ComparisonAnswer.SAME: "same", ComparisonAnswer.UNKNOWN: "uncertain"}
RANKS = {ComparisonAnswer.DIFFERENT: 0, ComparisonAnswer.UNKNOWN: 1, ComparisonAnswer.SAME: 2}

# The points of some commits on a machine each, with their samples, and what is stored of them against one other commit
# each. Lateral, so that an index finds them: by commit if all its points are wanted, else by series and commit.
BY_COMMIT = "SELECT m.* FROM runs_measurement m WHERE m.commit_id = side.commit_id AND IS_POINT OFFSET 0"
BY_SERIES = """
    SELECT found.* FROM unnest(%(series)s::int[]) AS own (id)
CROSS JOIN LATERAL (
        SELECT m.* FROM runs_measurement m
         WHERE m.series_id = own.id AND m.commit_id = side.commit_id AND IS_POINT OFFSET 0) found
"""
POINTS = """
      WITH side AS MATERIALIZED (
        SELECT a.*, (SELECT h.number - b.number
                       FROM projects_position h
                       JOIN projects_position b ON b.branch_id = h.branch_id AND b.commit_id = a.against_id
                      WHERE h.commit_id = a.commit_id LIMIT 1) AS distance
          FROM unnest(%(commits)s::int[], %(machines)s::bigint[], %(against)s::int[])
               WITH ORDINALITY AS a (commit_id, machine_id, against_id, place))
    SELECT side.place, b.name, s.metric, m.series_id, s.benchmark_id, s.environment_id, m.attempt_id, m.flags,
           m.value, m.low, m.high, r.values, r.flagged, k.ratio, k.low, k.high, k.answer
      FROM side
CROSS JOIN LATERAL (WANTED) m
      JOIN runs_series s ON s.id = m.series_id AND s.machine_id = side.machine_id
      JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
 LEFT JOIN runs_samples r ON r.measurement_id = m.id
 LEFT JOIN alerts_commitcomparison k
        ON k.commit_id = m.commit_id AND k.series_id = m.series_id AND k.distance = side.distance
  ORDER BY m.attempt_id
"""


class CommitOnMachine(NamedTuple):
    """One side of a comparison.

    ``against_id``: the commit whose stored comparison with this one is looked up, if any.
    """

    commit_id: int
    machine_id: int
    against_id: int | None = None


class SidePoint(NamedTuple):
    """The measurements of a commit in one series, of all its runs.

    ``stored``: the stored answer against the other commit.
    """

    series_id: int
    benchmark_id: int
    environment_id: int
    attempts: tuple[int, ...]
    flags: list[str]
    measured: MeasuredCommit
    stored: Answer | None

    @property
    def value(self) -> float:
        return self.measured.value

    @property
    def low(self) -> float:
        return self.measured.low

    @property
    def high(self) -> float:
        return self.measured.high


class Caveat(StrEnum):
    """What differs between the points of a row besides the commit."""

    MACHINE = "machine"
    ENVIRONMENT = "environment"
    DEFINITION = "definition"


@dataclass(frozen=True)
class ComparedRow:
    """One benchmark and metric of two commits.

    ``ratio``, with its 95% interval ``low`` to ``high``, is head / base. ``pairs``: how many pairs the answer rests on;
    0 if it rests on samples of separate runs.
    """

    benchmark: str
    metric: Metric
    base: SidePoint
    head: SidePoint
    ratio: float
    low: float
    high: float
    answer: str
    doubts: tuple[Caveat, ...] = ()
    pairs: int = 0

    @property
    def look(self) -> str:
        return look_of(self.answer, self.ratio, self.metric.name)

    @property
    def verdict(self) -> str:
        """``worse``, ``better``, ``same`` or ``uncertain``."""
        return UNSETTLED.get(ComparisonAnswer(self.answer), self.look)

    @property
    def words(self) -> str:
        unsettled = UNSETTLED.get(ComparisonAnswer(self.answer))
        return unsettled or numbers.effect(self.metric, self.look == "worse")

    @property
    def flags(self) -> list[str]:
        return sorted({*self.base.flags, *self.head.flags})

    @property
    def rank(self) -> tuple[int, float, str, str]:
        """The sort key: rows that differ come first, then those that may differ; larger differences first."""
        size = abs(math.log(self.ratio)) if 0 < self.ratio < math.inf else abs(self.ratio - 1)
        return RANKS[ComparisonAnswer(self.answer)], -size, self.benchmark, self.metric.name


@dataclass(frozen=True)
class Between:
    """The comparison of two commits.

    ``only_base``, ``only_head``: (benchmark, metric) that only one of them has measured. ``runs``: their paired runs.
    """

    rows: list[ComparedRow]
    only_base: list[tuple[str, str]] = field(default_factory=list)
    only_head: list[tuple[str, str]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)


Key = tuple[str, str]  # name of a benchmark, and of a metric
Points = dict[Key, dict[int, SidePoint]]


def compare_sides(base: CommitOnMachine, head: CommitOnMachine, effects: SmallestEffects) -> Between:
    """Compare two commits; the rows are sorted by ``ComparedRow.rank``.

    ``effects``: the smallest effects of the head's project.
    """
    old, new = points_of([base, head._replace(against_id=base.commit_id)])
    common = [(key, *points_to_compare(old[key], new[key])) for key in old.keys() & new.keys()]
    smallest = effects.of_many({point.series_id: metric for (_, metric), _, point in common})
    rows = compared_rows(common, smallest, base.machine_id != head.machine_id)
    runs = paired_runs(base, head)
    if any(run.status in MEASURED for run in runs):
        rows = with_pairs(rows, runs, base, smallest)
    only_base, only_head = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    return Between(sorted(rows, key=lambda row: row.rank), only_base, only_head, runs)


def points_of(sides: Iterable[CommitOnMachine], series: Collection[int] | None = None) -> list[Points]:
    """For each side its points, by (benchmark, metric) and then by series id. One query for all sides.

    ``series``: if given, only points of these series.
    """
    commits = list(sides)
    parameters: dict[str, Any] = {
        "commits": [commit.commit_id for commit in commits],
        "machines": [commit.machine_id for commit in commits],
        "against": [commit.against_id for commit in commits],
        "series": list(series or ()),
    }
    groups: dict[tuple[int, Key, int], list[PointRow]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(lines.sql(POINTS.replace("WANTED", BY_COMMIT if series is None else BY_SERIES)), parameters)
        for number, name, metric, *columns in cursor:
            row = PointRow._make(columns)
            groups[number, (name, metric), row.series_id].append(row)
    by_side: list[Points] = [defaultdict(dict) for _ in commits]
    for (number, key, own), rows in groups.items():
        by_side[number - 1][key][own] = point_of(rows)
    return by_side


class PointRow(NamedTuple):
    """The columns of POINTS from the fourth on."""

    series_id: int
    benchmark_id: int
    environment_id: int
    attempt_id: int
    flags: list[str]
    value: float
    low: float
    high: float
    samples: list[float | None] | None
    flagged: list[int] | None
    stored_ratio: float | None
    stored_low: float
    stored_high: float
    stored_answer: str

    @property
    def stored(self) -> Answer | None:
        if self.stored_ratio is None:
            return None
        return Answer(self.stored_ratio, self.stored_low, self.stored_high, self.stored_answer)


def point_of(rows: list[PointRow]) -> SidePoint:
    """Combine the runs of one series into one point: all their samples, and the value of the newest clean run.

    If no run is clean, the value is that of the newest one.
    """
    newest = next((row for row in reversed(rows) if not row.flags), rows[-1])
    samples = [sample for row in rows for sample in usable_samples(row.samples, row.flagged)]
    measurement = MeasuredCommit(samples, newest.value, newest.low, newest.high)
    attempts = tuple(row.attempt_id for row in rows)
    identity = (newest.series_id, newest.benchmark_id, newest.environment_id)
    return SidePoint(*identity, attempts, newest.flags, measurement, newest.stored)


def usable_samples(values: list[float | None] | None, flagged: list[int] | None) -> list[float]:
    """The finite samples of a measurement, without those of flagged trials unless there are no others."""
    finite = [(trial, value) for trial, value in enumerate(values or ()) if value is not None and math.isfinite(value)]
    if not flagged:
        return [value for _, value in finite]
    return [value for trial, value in finite if trial not in flagged] or [value for _, value in finite]


def points_to_compare(old: Mapping[int, SidePoint], new: Mapping[int, SidePoint]) -> tuple[SidePoint, SidePoint]:
    """The points of the newest series that measured both commits; if there is none, of the newest series of each."""
    both = old.keys() & new.keys()
    return (old[max(both)], new[max(both)]) if both else (old[max(old)], new[max(new)])


MatchedPoints = tuple[Key, SidePoint, SidePoint]


def compared_rows(
    common: Sequence[MatchedPoints], smallest: Mapping[int, float], other_machine: bool
) -> list[ComparedRow]:
    """The rows with their stored answers; where none is stored, samples are compared."""
    answers = {i: new.stored for i, (_, old, new) in enumerate(common) if same_series(old, new) and new.stored}
    remaining = [i for i in range(len(common)) if i not in answers]
    answers |= dict(
        zip(remaining, comparisons.compare_all([asked_of(common[i], smallest) for i in remaining]), strict=True)
    )
    return [
        ComparedRow(name, METRICS[metric], old, new, *answers[i], doubts=doubts_of(old, new, other_machine))
        for i, ((name, metric), old, new) in enumerate(common)
    ]


def asked_of(points: MatchedPoints, smallest: Mapping[int, float]) -> comparisons.Sides:
    (_, metric), old, new = points
    return comparisons.Sides(new.series_id, METRICS[metric], old.measured, new.measured, smallest[new.series_id])


def same_series(old: SidePoint, new: SidePoint) -> bool:
    return old.series_id == new.series_id


def doubts_of(old: SidePoint, new: SidePoint, other_machine: bool) -> tuple[Caveat, ...]:
    if same_series(old, new):
        return ()
    by_doubt = {
        Caveat.MACHINE: other_machine,
        Caveat.ENVIRONMENT: not other_machine and old.environment_id != new.environment_id,
        Caveat.DEFINITION: old.benchmark_id != new.benchmark_id,
    }
    return tuple(doubt for doubt, differs in by_doubt.items() if differs)


def paired_runs(base: CommitOnMachine, head: CommitOnMachine) -> list[Run]:
    """The paired runs of exactly these two commits on this machine, newest first; either may be the base."""
    if base.machine_id != head.machine_id or base.commit_id == head.commit_id:
        return []
    ends = [(base.commit_id, head.commit_id), (head.commit_id, base.commit_id)]
    either = Q(base=ends[0][0], commit=ends[0][1]) | Q(base=ends[1][0], commit=ends[1][1])
    runs = Run.objects.filter(either, machine=head.machine_id).exclude(reason=Reason.PROFILE)
    return list(runs.order_by("-id")[:50])


def with_pairs(
    rows: list[ComparedRow], runs: list[Run], base: CommitOnMachine, smallest: Mapping[int, float]
) -> list[ComparedRow]:
    """The rows, in which answers from pairs replace the others where pairs were measured for that metric."""
    pairs = pairing.pairs_that_answer(runs, base.commit_id)
    of_machine = base.machine_id
    return [
        with_own_pairs(row, pairs.get((of_machine, row.head.benchmark_id, row.metric.name), ()), smallest)
        for row in rows
    ]


def with_own_pairs(row: ComparedRow, pairs: tuple[Pair, ...], smallest: Mapping[int, float]) -> ComparedRow:
    series = row.head.series_id
    is_suspicion = row.answer == ComparisonAnswer.DIFFERENT and not row.doubts
    comparison = comparison_of_pairs(row.metric, pairs, smallest[series], series, row.ratio if is_suspicion else 1.0)
    if comparison is None:
        return row
    fields = Answer(comparison.ratio, comparison.low, comparison.high, comparison.answer)._asdict()
    return replace(row, pairs=len(pairs), doubts=(), **fields)


@lru_cache(maxsize=2000)
def comparison_of_pairs(
    metric: Metric, pairs: tuple[Pair, ...], smallest: float, seed: int, suspected: float
) -> Comparison | None:
    """The comparison of pairs; None if there are too few.

    ``suspected``: the ratio that was suspected before, 1.0 if none was.
    """
    if len(pairs) < sequential.FEWEST and not metric.counted:
        return None
    return pairing.compared(metric, pairs, smallest, level=compare.LEVEL, seed=seed, suspected=suspected)
