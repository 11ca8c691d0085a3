"""Store suites, benchmarks and sets of benchmarks as rows."""

import json
from collections.abc import Sequence
from functools import lru_cache

from django.db import transaction
from pydantic import ValidationError

from speedtrack.benchmarks.definitions import Definition, DefinitionError
from speedtrack.benchmarks.digests import Content, benchmark_digests, benchmark_meaning, json_digest, rate_reference
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet, Suite
from speedtrack.benchmarks.suitefiles import explain_mistake
from speedtrack.projects.models import Project


@lru_cache(maxsize=50)
def parsed(content: str) -> Definition:
    """To check a definition takes longer than all else that a claim does."""
    return Definition.model_validate(json.loads(content))


def definition_of(suite: Suite) -> Definition:
    """The definition in a stored suite; keys that were added since have their defaults. Raises DefinitionError."""
    try:
        return parsed(json.dumps(suite.definition))
    except ValidationError as e:
        mistakes = "; ".join(explain_mistake(f"suite {suite}", error) for error in e.errors())
        raise DefinitionError(
            f"another version of SpeedTrack stored this suite, and this one cannot read it: {mistakes}: "
            "correct the suite file and queue the commit again (`manage.py measure`)"
        ) from e


def usual_benchmarks(definition: Definition, benchmarks: list[Benchmark]) -> list[Benchmark]:
    """The benchmarks of a suite that are measured without being requested: those that are not extended."""
    extended = {section.name for section in definition.benchmark if section.extended}
    return [benchmark for benchmark in benchmarks if benchmark.name not in extended]


def ladder_benchmarks(benchmarks: list[Benchmark]) -> list[Benchmark]:
    """The rungs among the benchmarks of a suite."""
    return [benchmark for benchmark in benchmarks if benchmark.ladder]


def store_suite(project: Project, definition: Definition) -> tuple[Suite, list[Benchmark]]:
    """The rows of a suite and of its benchmarks in the file's order, made where they are missing."""
    content = definition.model_dump()
    suite, _ = Suite.objects.get_or_create(
        digest=json_digest(content), defaults={"name": definition.name, "definition": content}
    )
    return suite, [store_benchmark(project, content, section) for section in content["benchmark"]]


def store_benchmark(project: Project, content: Content, section: Content) -> Benchmark:
    """The row of a benchmark, and of the one that sets its rate."""
    meaning = benchmark_meaning(content, section)
    reference = rate_reference(content, section)
    rung = section.get("rung") or {"ladder": "", "axis": "", "value": None}
    benchmark, _ = Benchmark.objects.update_or_create(
        project=project,
        name=section["name"],
        digest=json_digest(meaning),
        defaults={
            "definition": meaning,
            "why": section["why"],
            "ladder": rung["ladder"],
            "axis": rung["axis"],
            "rung": rung["value"],
            "rate_from": store_benchmark(project, content, reference) if reference else None,
        },
    )
    return benchmark


def store_set(suite: Suite, benchmarks: Sequence[Benchmark]) -> BenchmarkSet:
    """The set of these benchmarks of one project, made where it is missing.

    A run measures what its suite says, so a benchmark that the suite defines in another way is left out.
    """
    digests = benchmark_digests(suite.definition)
    members = [one for one in benchmarks if digests.get(one.name, one.digest) == one.digest]
    digest = json_digest(sorted(one.digest + one.name for one in members))
    with transaction.atomic():
        found, made = BenchmarkSet.objects.get_or_create(project_id=benchmarks[0].project_id, digest=digest)
        if made:
            found.benchmarks.set(members)
    return found
