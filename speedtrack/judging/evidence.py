"""What is known of two commits besides the samples of their own runs: programs, pairs, and confirmed changes."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Q

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.alerts.pairs import pairing
from speedtrack.alerts.pairs.pairing import Pair
from speedtrack.benchmarks.metrics import HEADLINE, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.runs.models import MEASURED, Reason, Run
from speedtrack.stats.comparing import compare, sequential
from speedtrack.stats.comparing.compare import Comparison, ComparisonAnswer


class Ends(NamedTuple):
    """Two commits on one machine."""

    machine_id: int
    base_id: int
    head_id: int


class TwoSides(NamedTuple):
    """Two commits in one series."""

    series_id: int
    base_id: int
    head_id: int


class StoredAnswer(NamedTuple):
    """What detection stored of a commit against the one before it in a series, ``distance`` commits back.

    ``old``: the value of that commit. ``flagged``: one of them has no clean point. ``change``: the step that was
    confirmed between them.
    """

    series_id: int
    base_id: int
    head_id: int
    machine_id: int
    benchmark_id: int
    benchmark: str
    metric: str
    distance: int
    old: float
    own: Answer
    flagged: bool
    change: Answer | None

    @property
    def sides(self) -> TwoSides:
        return TwoSides(self.series_id, self.base_id, self.head_id)


PairsOfEnds = dict[tuple[Ends, int, str], tuple[Pair, ...]]  # by ends, benchmark and metric


@dataclass(frozen=True)
class Known:
    """What is known: stored answers, the ends of one program, and pairs, from both commits' points of view."""

    stored: list[StoredAnswer]
    same_program: set[Ends]
    pairs: PairsOfEnds


# What is stored of heads in series; of the ends of these rows and of further ends, the builds of both commits and their
# paired runs in either direction. One query, as each page asks for all of it. The commit before is found by its
# distance along any branch, as positions are the same on all. A change is one between both commits if its range is no
# longer than the way between them.
KNOWN = lines.sql("""
      WITH stored AS MATERIALIZED (
        SELECT k.series_id, base.commit_id AS base_id, k.commit_id AS head_id, s.machine_id, s.benchmark_id, b.name,
               s.metric, k.distance, k.old, k.ratio, k.low, k.high, k.answer,
               NOT EXISTS (SELECT FROM runs_measurement m
                            WHERE m.series_id = s.id AND m.commit_id = k.commit_id AND IS_CLEAN_POINT)
               OR (EXISTS (SELECT FROM runs_measurement m
                            WHERE m.series_id = s.id AND m.commit_id = base.commit_id AND IS_POINT)
                   AND NOT EXISTS (SELECT FROM runs_measurement m
                                    WHERE m.series_id = s.id AND m.commit_id = base.commit_id AND IS_CLEAN_POINT))
               AS flagged,
               change.ratio AS change_ratio, change.low AS change_low, change.high AS change_high
          FROM unnest(%(heads)s::int[]) AS head (id)
          JOIN alerts_commitcomparison k ON k.commit_id = head.id AND k.series_id = ANY (%(series)s::int[])
          JOIN runs_series s ON s.id = k.series_id
          JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
    CROSS JOIN LATERAL (
            SELECT p.commit_id
              FROM projects_position h
              JOIN projects_position p ON p.branch_id = h.branch_id AND p.number = h.number - k.distance
             WHERE h.commit_id = k.commit_id LIMIT 1) base
     LEFT JOIN LATERAL (
            SELECT c.ratio, c.low, c.high
              FROM alerts_changepoint c
              JOIN projects_position l ON l.commit_id = c.commit_id
              JOIN projects_position f ON f.branch_id = l.branch_id AND f.commit_id = c.before_id
             WHERE c.commit_id = k.commit_id AND c.series_id = k.series_id
               AND c.status = 'confirmed' AND c.kind = 'step' AND l.number - f.number <= k.distance
          ORDER BY c.id DESC LIMIT 1) change ON true),
           ends AS MATERIALIZED (
        SELECT machine_id, base_id, head_id FROM stored
         UNION
        SELECT s.machine_id, asked.base_id, asked.head_id
          FROM unnest(%(own)s::int[], %(old)s::int[], %(new)s::int[]) AS asked (series_id, base_id, head_id)
          JOIN runs_series s ON s.id = asked.series_id
         UNION
        SELECT * FROM unnest(%(machines)s::bigint[], %(bases)s::int[], %(commits)s::int[])),
           side AS MATERIALIZED (
        SELECT machine_id, base_id AS commit_id FROM ends UNION SELECT machine_id, head_id FROM ends)
    SELECT 'stored', ARRAY[series_id, base_id, head_id, machine_id, benchmark_id, distance, flagged::int]::bigint[],
           ARRAY[name, metric, answer]::text[],
           ARRAY[old, ratio, low, high, change_ratio, change_low, change_high]::float8[]
      FROM stored
 UNION ALL
    SELECT 'build', ARRAY[b.id, side.machine_id, side.commit_id]::bigint[],
           ARRAY(SELECT key || ' ' || (value ->> 'digest') FROM jsonb_each(b.artifacts) ORDER BY 1), NULL
      FROM side
      JOIN runs_build b ON b.commit_id = side.commit_id AND b.succeeded
      JOIN runs_attempt a ON a.id = b.attempt_id
      JOIN runs_run r ON r.id = a.run_id AND r.machine_id = side.machine_id
 UNION ALL
    SELECT 'run', ARRAY[r.id, r.machine_id, r.base_id, r.commit_id]::bigint[], r.metrics::text[], NULL::float8[]
      FROM (SELECT machine_id, base_id, head_id FROM ends UNION SELECT machine_id, head_id, base_id FROM ends) e
      JOIN runs_run r ON r.base_id = e.base_id AND r.commit_id = e.head_id AND r.machine_id = e.machine_id
     WHERE r.base_id <> r.commit_id AND r.status = ANY (%(measured)s) AND r.reason <> 'profile'
""")
LISTS = ("series", "heads", "own", "old", "new", "machines", "bases", "commits")  # its parameters
Row = tuple[list[int], list[str], list[float]]


def known_of(series: Collection[int], heads: Collection[int], asked: Collection[TwoSides] = ()) -> Known:
    """What is stored of these heads in these series, and what is known of their ends and of further sides."""
    columns = [list(column) for column in zip(*asked, strict=True)] or [[], [], []]
    own, old, new = columns
    return read(series=list(set(series)), heads=list(set(heads)), own=own, old=old, new=new)


def known_of_ends(ends: Collection[Ends]) -> Known:
    """What is known of these ends besides what is stored."""
    machines, bases, commits = [list(column) for column in zip(*ends, strict=True)] or [[], [], []]
    return read(machines=machines, bases=bases, commits=commits)


def read(**lists: list[int]) -> Known:
    """What KNOWN answers for these parameters, with the samples of its runs; without any, nothing is asked."""
    if not any(lists.values()):
        return Known([], set(), {})
    parameters: dict[str, Any] = {name: lists.get(name, []) for name in LISTS}
    rows: dict[str, list[Row]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(KNOWN, {**parameters, "measured": list(MEASURED)})
        for kind, ids, texts, values in cursor:
            rows[kind].append((ids, texts, values))
    return Known([stored_answer(*row) for row in rows["stored"]], same_programs(rows["build"]), pairs_of(rows["run"]))


def stored_answer(ids: list[int], texts: list[str], values: list[float]) -> StoredAnswer:
    """The answer in these columns of KNOWN."""
    series, base, head, machine, benchmark_id, distance, flagged = ids
    benchmark, metric, answer = texts
    old, ratio, low, high, change_ratio, change_low, change_high = values
    names = (series, base, head, machine, benchmark_id, benchmark, metric)
    change = None if change_ratio is None else Answer(change_ratio, change_low, change_high, ComparisonAnswer.DIFFERENT)
    return StoredAnswer(*names, distance, old, Answer(ratio, low, high, answer), bool(flagged), change)


def same_programs(builds: Iterable[Row]) -> set[Ends]:
    """The commits of which a machine last built the same program, bit for bit. ``builds``: rows of KNOWN."""
    newest = {(machine, commit): tuple(digests) for (_, machine, commit), digests, _ in sorted(builds, key=first_id)}
    commits: dict[tuple[int, tuple[str, ...]], list[int]] = defaultdict(list)
    for (machine, commit), digests in newest.items():
        if digests:
            commits[machine, digests].append(commit)
    return {
        Ends(machine, base, head) for (machine, _), alike in commits.items() for base, head in product(alike, repeat=2)
    }


def first_id(row: Row) -> int:
    return row[0][0]


def pairs_of(runs: Collection[Row]) -> PairsOfEnds:
    """The clean pairs of these runs, in the order of measuring. ``runs``: rows of KNOWN."""
    if not runs:
        return {}
    metrics = {run: set(names or [HEADLINE]) for (run, *_), names, _ in runs}
    ends = {run: Ends(*of_run) for (run, *of_run), _, _ in runs}
    every = {name for names in metrics.values() for name in names}
    pairs: dict[tuple[Ends, int, str], list[Pair]] = defaultdict(list)
    for (run, benchmark, metric), measured in pairing.pairs_by_run(metrics, series__metric__in=every).items():
        if metric in metrics[run]:
            machine, base, head = ends[run]
            pairs[ends[run], benchmark, metric] += measured
            pairs[Ends(machine, head, base), benchmark, metric] += [(after, before) for before, after in measured]
    return {key: tuple(measured) for key, measured in pairs.items()}


def paired_runs(ends: Ends) -> list[Run]:
    """The paired runs of exactly these commits, newest first; either may be the base."""
    if ends.base_id == ends.head_id:
        return []
    either = Q(base=ends.base_id, commit=ends.head_id) | Q(base=ends.head_id, commit=ends.base_id)
    runs = Run.objects.filter(either, machine=ends.machine_id).exclude(reason=Reason.PROFILE)
    return list(runs.order_by("-id")[:50])


def other_workloads(benchmarks: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those pairs of different benchmarks that cannot be compared.

    Definitions of one project differ on purpose; two projects may have the same workload under one name.
    """
    ids = {pk for both in benchmarks for pk in both}
    rows = Benchmark.objects.filter(pk__in=ids).values_list("pk", "project", "definition__workload")
    known = {pk: (project, workload) for pk, project, workload in rows}
    return {(old, new) for old, new in benchmarks if known[old][0] == known[new][0] or known[old][1] != known[new][1]}


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


def answer_of_pairs(
    metric: Metric, pairs: tuple[Pair, ...], smallest: float, seed: int, suspected: float
) -> Answer | None:
    comparison = comparison_of_pairs(metric, pairs, smallest, seed, suspected)
    if comparison is None:
        return None
    return Answer(comparison.ratio, comparison.low, comparison.high, comparison.answer)
