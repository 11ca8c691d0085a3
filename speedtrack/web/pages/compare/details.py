"""What the page shows besides its rows: the latencies and functions of one benchmark."""

from dataclasses import dataclass, field

import numpy as np
from django.db.models import Q, QuerySet
from django.http import Http404

from speedtrack.alerts.pairs import counts
from speedtrack.alerts.pairs.counts import FunctionTable
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import COUNTED
from speedtrack.ground.postgres.plainrows import among
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.judging.sides import Between, ComparedRows
from speedtrack.reports.readings.sides import BothSides
from speedtrack.runs.models import Result, Side, Status
from speedtrack.runs.results import latencies
from speedtrack.web.pages.latency import LatencyCurves, curves_of

LATENCY = "latency_us_p99"


@dataclass(frozen=True)
class BenchmarkOfSides:
    """The benchmark whose details are shown: its id on each side, and the attempts that measured it."""

    name: str
    base_id: int
    head_id: int
    base_attempts: tuple[int, ...]
    head_attempts: tuple[int, ...]


@dataclass(frozen=True)
class Documents:
    """The documents about a benchmark: from each side's own runs, and from runs that counted both."""

    base: list[Result] = field(default_factory=list)
    head: list[Result] = field(default_factory=list)
    counted: list[Result] = field(default_factory=list)


def chosen_benchmark(rows: ComparedRows, name: str) -> BenchmarkOfSides | None:
    """The requested benchmark; by default that of the first row, or of the first row with latencies if there is one.

    Raises Http404 for a benchmark without a row.
    """
    fits = np.flatnonzero(rows.are_named(lambda own: own == name if name else own != BUILD))
    if name and not len(fits):
        raise Http404(f"Both sides have no benchmark {name[:80]!r} in common.")
    if not len(fits):
        return None
    with_latency = fits[rows.is_of_metric(LATENCY)[fits]]
    first = rows[int(with_latency[0] if len(with_latency) else fits[0])]
    old, new = first.base, first.head
    return BenchmarkOfSides(first.benchmark, old.benchmark_id, new.benchmark_id, old.attempts, new.attempts)


def documented_results(attempts: list[int], runs: list[int], benchmarks: list[int]) -> QuerySet[Result]:
    """The results of these benchmarks with documents, of these attempts and of those of the runs that succeeded."""
    of_runs = Q(among("attempt__run_id", runs), attempt__outcome=Status.SUCCEEDED)
    results = Result.objects.filter(Q(among("attempt_id", attempts)) | of_runs, documents__isnull=False)
    return results.filter(among("benchmark_id", benchmarks)).select_related("attempt__run").order_by("pk")


DOCUMENTED = PreparedQuery(documented_results)


def documents_of(benchmark: BenchmarkOfSides | None, comparison: Between) -> Documents:
    """The documents of trials of this benchmark, by one query."""
    if benchmark is None:
        return Documents()
    counting = [run.pk for run in comparison.runs if run.status == Status.SUCCEEDED and set(COUNTED) & set(run.metrics)]
    own = [*benchmark.base_attempts, *benchmark.head_attempts]
    rows = DOCUMENTED.rows(attempts=own, runs=counting, benchmarks=[benchmark.base_id, benchmark.head_id])
    base = [result for result in rows if result.attempt_id in benchmark.base_attempts]
    head = [result for result in rows if result.attempt_id in benchmark.head_attempts]
    return Documents(base, head, [result for result in rows if result.attempt_id not in own])


def latency_of(benchmark: BenchmarkOfSides | None, documents: Documents, sides: BothSides) -> LatencyCurves | None:
    if benchmark is None:
        return None
    base, head = (latencies.of_results(results) for results in (documents.base, documents.head))
    return curves_of(benchmark.name, (sides.labels[0], base), (sides.labels[1], head))


def functions_of(benchmark: BenchmarkOfSides | None, documents: Documents, sides: BothSides) -> list[FunctionTable]:
    """The tables of functions, from runs that counted both sides, otherwise from each side's own runs."""
    if benchmark is None:
        return []
    costs: dict[bool, list[counts.FunctionCosts]] = {False: [], True: []}
    for result in documents.counted:
        run = result.attempt.run
        commit = run.base_id if result.side == Side.BASE else run.commit_id
        costs[commit == sides.head.commit.pk] += counts.costs_of(result)
    if not (costs[False] and costs[True]):
        costs = {
            False: [cost for result in documents.base for cost in counts.costs_of(result)],
            True: [cost for result in documents.head for cost in counts.costs_of(result)],
        }
    table = counts.table_of(benchmark.name, costs[False], costs[True])
    return [table] if table else []
