"""What counts of instructions show about changes: whether the server executes more of them, and in which functions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from django.db.models import Exists, OuterRef

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.effects import SmallestEffects
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import COUNTED, INSTRUCTIONS, VOIDS_CPU
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


def function_tables(points: Sequence[ChangePoint]) -> list[FunctionTable]:
    """A table for each change of counts that was counted again, from the counts of the commits at its ends."""
    changes = {cp.pk: cp for cp in points if cp.metric.counted}
    if not changes:
        return []
    ends = {
        verdict.change_point_id: (verdict.base_id, verdict.commit_id)
        for verdict in Verdict.objects.filter(change_point__in=changes, answer=Verdict.Answer.DIFFERENT).order_by("-id")
    }
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
    servers = (document.get("server", {}) for document in result.unpacked())
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


def which_moved(points: Sequence[ChangePoint]) -> list[str]:
    """A sentence for each changed benchmark with known instructions: it takes more of them, or longer for the same."""
    instructions = [
        f"{cp.series.benchmark.name}: {numbers.effect(cp.metric, cp.is_slowdown)} ({numbers.change(cp.ratio)})"
        for cp in changed_instructions(points).values()
    ]
    same = same_instructions(points)
    slower = [
        f"{cp.series.benchmark.name}: the same instructions ({numbers.change(same[cp.pk])}), "
        + ("slower" if cp.is_slowdown else "faster")
        for cp in points
        if cp.pk in same
    ]
    return list(dict.fromkeys(instructions + slower))


def changed_instructions(points: Sequence[ChangePoint]) -> dict[tuple[int, int], ChangePoint]:
    """By (benchmark id, machine id): its change of instructions, from the exact series if there is one.

    Otherwise from the processor's counter.
    """
    changes = [cp for cp in points if cp.metric.name in INSTRUCTIONS]
    exactest_last = sorted(changes, key=lambda cp: -INSTRUCTIONS.index(cp.metric.name))
    return {(cp.series.benchmark_id, cp.series.machine_id): cp for cp in exactest_last}


def same_instructions(points: Sequence[ChangePoint]) -> dict[int, float]:
    """By id of each change of time in which the server executes the same instructions: the ratio of the counts.

    The processor's counter is used where no exact series was counted. Benchmarks without either, or not counted at both
    commits, are left out.
    """
    changes_of_counts = changed_instructions(points)
    time_changes = [
        cp
        for cp in points
        if takes_time(cp) and (cp.series.benchmark_id, cp.series.machine_id) not in changes_of_counts
    ]
    values = values_at(time_changes)
    ratios = {}
    for cp in time_changes:
        for metric in INSTRUCTIONS:
            key = (metric, cp.series.benchmark_id, cp.series.machine_id)
            before, after = (values.get((*key, end)) for end in (cp.before_id, cp.commit_id))
            if before and after:
                if is_same(cp, metric, after / before):
                    ratios[cp.pk] = after / before
                break
    return ratios


def takes_time(cp: ChangePoint) -> bool:
    """Return whether it is a change of time or throughput.

    These depend on the clock, so they are voided by what voids CPU time.
    """
    return cp.metric.voided_by >= VOIDS_CPU


def is_same(cp: ChangePoint, metric: str, ratio: float) -> bool:
    """Return whether two counts, given as their ratio, differ by less than the smallest effect."""
    return abs(ratio - 1) < SmallestEffects(cp.series.project_id).of(metric)


def values_at(points: Iterable[ChangePoint]) -> dict[tuple[str, int, int, int], float]:
    """By (metric, benchmark id, machine id, commit id): the newest count, at both ends of these changes."""
    changes = list(points)
    ends = {commit for cp in changes for commit in (cp.before_id, cp.commit_id)}
    benchmarks = {cp.series.benchmark_id for cp in changes}
    rows = lines.clean_measurements().filter(
        series__metric__in=INSTRUCTIONS, series__benchmark__in=benchmarks, commit__in=ends
    )
    columns = ("series__metric", "series__benchmark", "series__machine", "commit", "value")
    return {tuple(key): value for *key, value in rows.order_by("id").values_list(*columns)}
