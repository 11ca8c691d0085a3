"""Store suites, benchmarks and sets of benchmarks as rows."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from django.db import transaction
from pydantic import ValidationError

from speedtrack.benchmarks.definitions import Definition, DefinitionError
from speedtrack.benchmarks.digests import Content, benchmark_digests, benchmark_meaning, json_digest, rate_reference
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet, Suite
from speedtrack.benchmarks.suitefiles import explain_mistake, load_suite
from speedtrack.projects.models import Project


@lru_cache(maxsize=50)
def suite_of(suite_id: int) -> Suite:
    """A stored suite. It never changes, so it is cached."""
    return Suite.objects.get(pk=suite_id)


@lru_cache(maxsize=50)
def definition_of(suite_id: int) -> Definition:
    """The definition in a stored suite. Newer keys have their defaults.

    Raises DefinitionError. A stored suite never changes, so the result is cached: reading and checking it takes longer
    than the rest of a claim.
    """
    suite = Suite.objects.get(pk=suite_id)
    try:
        return Definition.model_validate(suite.definition)
    except ValidationError as e:
        mistakes = "; ".join(explain_mistake(f"suite {suite}", error) for error in e.errors())
        raise DefinitionError(
            f"another version of SpeedTrack stored this suite, and this one cannot read it: {mistakes}: "
            "correct the suite file and queue the commit again"
        ) from e


def usual_benchmarks(definition: Definition, benchmarks: list[Benchmark]) -> list[Benchmark]:
    """The benchmarks of a suite that are measured without a request: those that are not extended."""
    extended = {section.name for section in definition.benchmark if section.extended}
    return [benchmark for benchmark in benchmarks if benchmark.name not in extended]


def usual_set(project: Project, suite_name: str) -> tuple[Suite, BenchmarkSet]:
    """A suite as its file is now, and the set of its usual benchmarks, both stored. Raises DefinitionError."""
    definition = load_suite(suite_name)
    suite, benchmarks = store_suite(project, definition)
    return suite, store_set(suite, usual_benchmarks(definition, benchmarks))


def ladders_of(benchmarks: list[Benchmark]) -> list[list[Benchmark]]:
    """The rungs among the benchmarks of a suite, ladder by ladder."""
    ladders: dict[str, list[Benchmark]] = {}
    for benchmark in benchmarks:
        if benchmark.ladder:
            ladders.setdefault(benchmark.ladder, []).append(benchmark)
    return list(ladders.values())


def store_suite(project: Project, definition: Definition) -> tuple[Suite, list[Benchmark]]:
    """The rows of a suite and of its benchmarks in the file's order, made where they are missing."""
    content = definition.model_dump()
    suite, _ = Suite.objects.get_or_create(
        digest=json_digest(content), defaults={"name": definition.name, "definition": content}
    )
    rows: dict[str, Benchmark] = {}
    sections = content["benchmark"]
    for of_rates in (False, True):  # a benchmark that sets another one's rate has none itself
        batch = [section for section in sections if bool(rate_reference(content, section)) == of_rates]
        rows |= store_benchmarks([benchmark_row(project, content, section, rows) for section in batch])
    return suite, [rows[section["name"]] for section in sections]


def benchmark_row(project: Project, content: Content, section: Content, rows: Mapping[str, Benchmark]) -> Benchmark:
    """The unsaved row of a benchmark, from its section. ``rows``: they contain the reference of its rate."""
    meaning = benchmark_meaning(content, section)
    reference = rate_reference(content, section)
    rung = section.get("rung") or {"ladder": "", "axis": "", "value": None}
    return Benchmark(
        project=project,
        name=section["name"],
        digest=json_digest(meaning),
        definition=meaning,
        why=section["why"],
        ladder=rung["ladder"],
        axis=rung["axis"],
        rung=rung["value"],
        rate_from=rows[reference["name"]] if reference else None,
    )


OUTSIDE = ("why", "ladder", "axis", "rung", "rate_from_id")  # columns that do not affect the digest


def store_benchmarks(rows: Sequence[Benchmark]) -> dict[str, Benchmark]:
    """By name: the rows of these benchmarks of one project, created or updated if necessary."""
    if not rows:
        return {}
    same = Benchmark.objects.filter(project=rows[0].project, digest__in=[row.digest for row in rows])
    by_key = {(benchmark.name, benchmark.digest): benchmark for benchmark in same.defer("definition")}
    new = [row for row in rows if not is_up_to_date(row, by_key.get((row.name, row.digest)))]
    identity = ("project", "name", "digest")
    Benchmark.objects.bulk_create(new, update_conflicts=True, unique_fields=identity, update_fields=OUTSIDE)
    return {row.name: row if row.pk else by_key[row.name, row.digest] for row in rows}


def is_up_to_date(row: Benchmark, existing: Benchmark | None) -> bool:
    return existing is not None and all(getattr(row, name) == getattr(existing, name) for name in OUTSIDE)


def store_set(suite: Suite, benchmarks: Sequence[Benchmark]) -> BenchmarkSet:
    """The set of these benchmarks of one project, created if it is missing.

    A benchmark that the suite defines differently is left out, since a run follows its suite.
    """
    digests = benchmark_digests(suite.definition)
    members = [
        benchmark for benchmark in benchmarks if digests.get(benchmark.name, benchmark.digest) == benchmark.digest
    ]
    digest = json_digest(sorted(benchmark.digest + benchmark.name for benchmark in members))
    with transaction.atomic():
        benchmark_set, is_new = BenchmarkSet.objects.get_or_create(project_id=benchmarks[0].project_id, digest=digest)
        if is_new:
            benchmark_set.benchmarks.set(members)
    return benchmark_set
