"""What differs between the two sides of a comparison besides their commits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from speedtrack.benchmarks.models import Benchmark
from speedtrack.ground.texts.text import listed
from speedtrack.judging.sides import ComparedRow
from speedtrack.judging.verdicts import Caveat
from speedtrack.reports.readings.sides import BothSides
from speedtrack.runs.models import Environment
from speedtrack.runs.results import environments
from speedtrack.runs.results.environments import ChangedFact

MOST_FACTS = 12


@dataclass(frozen=True)
class Difference:
    """A difference between the sides besides their commits, and what follows from it."""

    title: str
    meaning: str
    facts: list[ChangedFact] = field(default_factory=list)


def differences(sides: BothSides, rows: Sequence[ComparedRow]) -> list[Difference]:
    """Projects, machines, environments and definitions that differ; empty if both sides are alike."""
    entries = []
    if sides.base.project != sides.head.project:
        entries.append(of_projects(sides, rows))
    if sides.base.machine != sides.head.machine:
        text = f"{sides.base.machine} measured the base, {sides.head.machine} the head."
        entries.append(Difference(text, "Two machines differ by more than most commits do."))
    if facts := changed_facts(rows):
        sentence = "The environment is not the same: " + counted_rows(rows, Caveat.ENVIRONMENT, Caveat.MACHINE)
        meaning = "What differs below may come from the environment as well as from the code."
        entries.append(Difference(sentence, meaning, facts[:MOST_FACTS]))
    names = sorted({row.benchmark for row in rows if Caveat.DEFINITION in row.doubts})
    if names and sides.base.project == sides.head.project:
        meaning = "They measured something else under the same name."
        entries.append(Difference(f"The definition has changed of {listed(names)}.", meaning))
    return entries


def of_projects(sides: BothSides, rows: Sequence[ComparedRow]) -> Difference:
    """The difference of two projects, with the benchmarks that have one name but different workloads."""
    ids = {(row.benchmark, row.base.benchmark_id, row.head.benchmark_id) for row in rows}
    benchmarks = Benchmark.objects.filter(pk__in={pk for _, *both in ids for pk in both})
    workloads = dict(benchmarks.values_list("pk", "definition__workload"))
    differing = sorted({name for name, base, head in ids if workloads[base] != workloads[head]})
    title = f"Two projects: {sides.base.project.name} is the base, {sides.head.project.name} the head."
    if not ids:
        return Difference(title, "No benchmark has the same name in both.")
    if not differing:
        return Difference(title, "Benchmarks of the same name have the same workload in both.")
    return Difference(title, f"The workload is not the same of {listed(differing)}.")


def counted_rows(rows: Sequence[ComparedRow], *doubts: Caveat) -> str:
    count = sum(any(doubt in row.doubts for doubt in doubts) for row in rows)
    return f"this affects {'all' if count == len(rows) else f'{count} of'} {len(rows)} rows."


def changed_facts(rows: Iterable[ComparedRow]) -> list[ChangedFact]:
    """The facts that differ between the environments of the rows without pairs."""
    apart = {(row.base.environment_id, row.head.environment_id) for row in rows if row.doubts}
    apart = {(base, head) for base, head in apart if base != head}
    if not apart:
        return []
    by_pk = Environment.objects.in_bulk({pk for pair in apart for pk in pair})
    facts = (fact for base, head in sorted(apart) for fact in environments.changed_facts(by_pk[base], by_pk[head]))
    return list(dict.fromkeys(facts)) or [ChangedFact("facts", "not known", "not known")]
