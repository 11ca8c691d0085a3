"""Suites and benchmarks as rows."""

from pydantic import ValidationError

from speedtrack.benchmarks.definitions import Definition, DefinitionError
from speedtrack.benchmarks.digests import Content, benchmark_meaning, json_digest
from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.benchmarks.suitefiles import explain_mistake
from speedtrack.projects.models import Project


def definition_of(suite: Suite) -> Definition:
    """A stored suite as the definition it was; keys added since have their defaults. Raises DefinitionError."""
    try:
        return Definition.model_validate(suite.definition)
    except ValidationError as e:
        mistakes = "; ".join(explain_mistake(f"suite {suite}", error) for error in e.errors())
        raise DefinitionError(
            f"another version of SpeedTrack stored this suite, and this one cannot read it: {mistakes}: "
            "correct the suite file and queue the commit again (`manage.py measure`)"
        ) from e


def usual_benchmarks(definition: Definition, benchmarks: list[Benchmark]) -> list[Benchmark]:
    """Those of a suite's benchmarks that are measured without being asked for."""
    extended = {section.name for section in definition.benchmark if section.extended}
    return [benchmark for benchmark in benchmarks if benchmark.name not in extended]


def store_suite(project: Project, definition: Definition) -> tuple[Suite, list[Benchmark]]:
    """The rows of a suite and of its benchmarks, in the file's order, made where they are missing."""
    content = definition.model_dump()
    suite, _ = Suite.objects.get_or_create(
        digest=json_digest(content), defaults={"name": definition.name, "definition": content}
    )
    return suite, [store_benchmark(project, content, section) for section in content["benchmark"]]


def store_benchmark(project: Project, content: Content, section: Content) -> Benchmark:
    told = benchmark_meaning(content, section)
    benchmark, _ = Benchmark.objects.update_or_create(
        project=project,
        name=section["name"],
        digest=json_digest(told),
        defaults={"definition": told, "why": section["why"]},
    )
    return benchmark
