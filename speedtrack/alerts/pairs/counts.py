"""What counts of instructions show about changes: in which functions the server executes more or fewer of them."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from django.db.models import Exists, OuterRef

from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.pairs.sizes import settling_verdicts
from speedtrack.benchmarks.metrics import COUNTED
from speedtrack.runs.models import Measurement, Result, Run, Side

MOST_FUNCTIONS = 20  # of a table
#: Functions of the C library that take a longer path where a string is near the end of a page.
BY_PLACE = re.compile(r"__(?:str|mem|rawmem)\w*(?:cmp|len|chr)_\w+")
LEAST = 0.05  # instructions per request: smaller differences of a function are not listed


@dataclass(frozen=True)
class FunctionCost:
    """A function's own instructions per request, without those of what it calls."""

    name: str
    before: float
    after: float

    @property
    def growth(self) -> float:
        return self.after - self.before


class FunctionCosts(NamedTuple):
    """The instructions per request of one counted process, by function; only those ``inside`` one of them."""

    inside: str
    functions: dict[str, float]


@dataclass(frozen=True)
class FunctionTable:
    """The functions under one benchmark that cost more or less, the largest difference first."""

    benchmark: str
    inside: str
    before: float
    after: float
    functions: list[FunctionCost]

    @property
    def growth(self) -> float:
        return self.after - self.before

    @property
    def remark(self) -> str:
        """A warning if the change may come only from where strings lie in memory; else empty."""
        names = [function.name for function in self.functions if function.growth * self.growth > 0]
        if not names or not all(map(BY_PLACE.fullmatch, names)):
            return ""
        return (
            f"All of it is in {', '.join(names)}, which takes more instructions for strings near the end of a page: "
            "the commit may have moved strings, and done nothing else to these requests."
        )


def function_tables(points: Sequence[ChangePoint], settled: Mapping[int, Verdict] | None = None) -> list[FunctionTable]:
    """A table for each change of counts that was counted again, from the counts of the commits at its ends.

    ``settled``: the ``settling_verdicts`` of these changes, if they were read.
    """
    changes = {cp.pk: cp for cp in points if cp.metric.counted}
    if not changes:
        return []
    verdicts = settling_verdicts(changes.values()) if settled is None else settled
    ends = {pk: (verdicts[pk].base_id, verdicts[pk].commit_id) for pk in changes if pk in verdicts}
    runs = Run.objects.filter(change_points__in=changes)
    accepted = Exists(Measurement.objects.filter(attempt=OuterRef("attempt"), accepted=True))
    results = Result.objects.filter(accepted, attempt__run__in=runs, attempt__run__metrics__overlap=COUNTED)
    costs: dict[tuple[int | None, int, int], dict[str, list[FunctionCosts]]] = defaultdict(lambda: defaultdict(list))
    for result in results.select_related("attempt__run"):
        run = result.attempt.run
        costs[run.base_id, run.commit_id, result.benchmark_id][result.side] += costs_of(result)
    tables = []
    for pk, cp in changes.items():
        sides = costs.get((*ends[pk], cp.series.benchmark_id)) if pk in ends else None
        if sides and (table := table_of(cp.series.benchmark.name, sides[Side.BASE], sides[Side.HEAD])):
            tables.append(table)
    return tables


def costs_of(result: Result) -> list[FunctionCosts]:
    """The costs that the counted processes of a result executed, one entry per process."""
    servers = (document.get("server", {}) for document in result.unpacked(histograms=None))
    return [FunctionCosts(c["inside"], c["functions"]) for server in servers if (c := server.get("counted"))]


def table_of(benchmark: str, base: Sequence[FunctionCosts], head: Sequence[FunctionCosts]) -> FunctionTable | None:
    """Each function with the median of its processes on both sides; None if a side has no process."""
    if not base or not head:
        return None
    old, new = (median_costs([process.functions for process in side]) for side in (base, head))
    every = [FunctionCost(name, old.get(name, 0.0), new.get(name, 0.0)) for name in old.keys() | new.keys()]
    largest = sorted(
        (cost for cost in every if abs(cost.growth) >= LEAST), key=lambda cost: (-abs(cost.growth), cost.name)
    )
    return FunctionTable(benchmark, head[-1].inside, sum(old.values()), sum(new.values()), largest[:MOST_FUNCTIONS])


def median_costs(processes: Sequence[dict[str, float]]) -> dict[str, float]:
    names = {name for process in processes for name in process}
    return {name: median(process.get(name, 0.0) for process in processes) for name in names}
