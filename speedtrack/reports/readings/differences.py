"""What differs between the two sides of a comparison besides their commits."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from speedtrack.benchmarks.models import Benchmark
from speedtrack.ground.texts.text import listed
from speedtrack.judging.sides import ComparedRow, ComparedRows
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


def differences(sides: BothSides, rows: ComparedRows) -> list[Difference]:
    """Projects, machines, environments and definitions that differ; empty if both sides are alike."""
    entries, doubtful = [], rows.doubtful
    if sides.base.project != sides.head.project:
        entries.append(of_projects(sides, rows))
    if sides.base.machine != sides.head.machine:
        text = f"{sides.base.machine} measured the base, {sides.head.machine} the head."
        entries.append(Difference(text, "Two machines differ by more than most commits do."))
    if facts := changed_facts(doubtful):
        sentence = "The environment is not the same: " + counted_rows(doubtful, len(rows))
        meaning = "What differs below may come from the environment as well as from the code."
        entries.append(Difference(sentence, meaning, facts[:MOST_FACTS]))
    names = sorted({row.benchmark for row in doubtful if Caveat.DEFINITION in row.doubts})
    if names and sides.base.project == sides.head.project:
        meaning = "They measured something else under the same name."
        entries.append(Difference(f"The definition has changed of {listed(names)}.", meaning))
    return entries


def of_projects(sides: BothSides, rows: ComparedRows) -> Difference:
    """The difference of two projects, with the benchmarks that have one name but different workloads."""
    ids = rows.benchmark_pairs
    benchmarks = Benchmark.objects.filter(pk__in={pk for _, *both in ids for pk in both})
    workloads = dict(benchmarks.values_list("pk", "definition__workload"))
    differing = sorted({name for name, base, head in ids if workloads[base] != workloads[head]})
    title = f"Two projects: {sides.base.project.name} is the base, {sides.head.project.name} the head."
    if not ids:
        return Difference(title, "No benchmark has the same name in both.")
    if not differing:
        return Difference(title, "Benchmarks of the same name have the same workload in both.")
    return Difference(title, f"The workload is not the same of {listed(differing)}.")


def counted_rows(doubtful: Iterable[ComparedRow], total: int) -> str:
    count = sum(not {Caveat.ENVIRONMENT, Caveat.MACHINE}.isdisjoint(row.doubts) for row in doubtful)
    return f"this affects {'all' if count == total else f'{count} of'} {total} rows."


def changed_facts(rows: Iterable[ComparedRow]) -> list[ChangedFact]:
    """The facts that differ between the environments of these rows."""
    apart = {(row.base.environment_id, row.head.environment_id) for row in rows}
    apart = {(base, head) for base, head in apart if base != head}
    if not apart:
        return []
    by_pk = Environment.objects.in_bulk({pk for pair in apart for pk in pair})
    facts = (fact for base, head in sorted(apart) for fact in environments.changed_facts(by_pk[base], by_pk[head]))
    return list(dict.fromkeys(facts)) or [ChangedFact("facts", "not known", "not known")]
