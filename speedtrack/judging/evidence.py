"""What is known of two commits besides the samples of their own runs: programs, pairs, and confirmed changes."""

from collections import defaultdict
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from django.db import connection
from django.db.models import Q

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.alerts.pairs import pairing
from speedtrack.alerts.pairs.pairing import Pair
from speedtrack.benchmarks.metrics import HEADLINE, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.runs.models import MEASURED, Build, Reason, Run
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

    ``old``: the value of that commit. ``flagged``: one of them has no clean point. ``change``: the ratio of the step
    that was confirmed between them, with its interval; three times None without one.
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
    ratio: float
    low: float
    high: float
    answer: str
    flagged: bool
    change_ratio: float | None
    change_low: float
    change_high: float

    @property
    def sides(self) -> TwoSides:
        return TwoSides(self.series_id, self.base_id, self.head_id)

    @property
    def own(self) -> Answer:
        return Answer(self.ratio, self.low, self.high, self.answer)

    @property
    def change(self) -> Answer | None:
        if self.change_ratio is None:
            return None
        return Answer(self.change_ratio, self.change_low, self.change_high, ComparisonAnswer.DIFFERENT)


# The commit before is found by its distance along any branch, as positions are the same on all. A change is one between
# both commits if its range is no longer than the way between them.
STORED = lines.sql("""
    SELECT k.series_id, base.commit_id, k.commit_id, s.machine_id, s.benchmark_id, b.name, s.metric, k.distance, k.old,
           k.ratio, k.low, k.high, k.answer,
           NOT EXISTS (SELECT FROM runs_measurement m
                        WHERE m.series_id = s.id AND m.commit_id = k.commit_id AND IS_CLEAN_POINT)
           OR (EXISTS (SELECT FROM runs_measurement m
                        WHERE m.series_id = s.id AND m.commit_id = base.commit_id AND IS_POINT)
               AND NOT EXISTS (SELECT FROM runs_measurement m
                                WHERE m.series_id = s.id AND m.commit_id = base.commit_id AND IS_CLEAN_POINT)),
           change.ratio, change.low, change.high
      FROM unnest(%(commits)s::int[]) AS head (id)
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
      ORDER BY c.id DESC LIMIT 1) change ON true
""")


def stored_answers(series: Collection[int], commits: Collection[int]) -> list[StoredAnswer]:
    """What detection stored of these commits in these series."""
    if not (series and commits):
        return []
    with connection.cursor() as cursor:
        cursor.execute(STORED, {"series": list(set(series)), "commits": list(set(commits))})
        return [StoredAnswer._make(row) for row in cursor]


def same_programs(ends: Collection[Ends]) -> set[Ends]:
    """Those of these commits of which the machine last built the same program, bit for bit."""
    commits = {commit for _, *both in ends for commit in both}
    builds = Build.objects.filter(
        commit__in=commits, attempt__run__machine__in={end.machine_id for end in ends}, succeeded=True
    )
    rows = builds.order_by("pk").values_list("attempt__run__machine", "commit", "artifacts")
    digests = {
        (machine, commit): {name: program["digest"] for name, program in artifacts.items()}
        for machine, commit, artifacts in rows
        if artifacts
    }
    return {
        end
        for end in ends
        if (base := digests.get((end.machine_id, end.base_id))) and base == digests.get((end.machine_id, end.head_id))
    }


def other_workloads(benchmarks: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those pairs of different benchmarks that cannot be compared.

    Definitions of one project differ on purpose; two projects may have the same workload under one name.
    """
    ids = {pk for both in benchmarks for pk in both}
    rows = Benchmark.objects.filter(pk__in=ids).values_list("pk", "project", "definition__workload")
    known = {pk: (project, workload) for pk, project, workload in rows}
    return {(old, new) for old, new in benchmarks if known[old][0] == known[new][0] or known[old][1] != known[new][1]}


PairsOfEnds = dict[tuple[Ends, int, str], tuple[Pair, ...]]  # by ends, benchmark and metric


def paired_runs(ends: Collection[Ends]) -> list[Run]:
    """The paired runs of exactly these commits, newest first; either may be the base."""
    by_commits = {tuple(sorted(end[1:])) for end in ends if end.base_id != end.head_id}
    commits = {commit for both in by_commits for commit in both}
    machines = {end.machine_id for end in ends}
    runs = Run.objects.filter(Q(base__in=commits), commit__in=commits, machine__in=machines)
    rows = runs.exclude(reason=Reason.PROFILE).order_by("-id")
    return [run for run in rows if tuple(sorted((run.base_id or 0, run.commit_id))) in by_commits]


def pairs_of(runs: Collection[Run]) -> PairsOfEnds:
    """The clean pairs of these runs, from both commits' points of view, in the order of measuring."""
    metrics = {run.pk: set(run.metrics or [HEADLINE]) for run in runs if run.status in MEASURED}
    if not metrics:
        return {}
    every = {name for names in metrics.values() for name in names}
    ends = {run.pk: Ends(run.machine_id, run.base_id or 0, run.commit_id) for run in runs}
    pairs: dict[tuple[Ends, int, str], list[Pair]] = defaultdict(list)
    for (run, benchmark, metric), measured in pairing.pairs_by_run(metrics, series__metric__in=every).items():
        if metric not in metrics[run]:
            continue
        machine, base, head = ends[run]
        pairs[ends[run], benchmark, metric] += measured
        pairs[Ends(machine, head, base), benchmark, metric] += [(after, before) for before, after in measured]
    return {key: tuple(measured) for key, measured in pairs.items()}


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
