"""pyperf: the values of all worker processes, without calibration and warm-up."""

from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults
from speedtrack.outside.readers.tools import ToolReader

UNITS = {"second": "s", "byte": "B", "integer": ""}
FACTS = (
    "cpu_model_name",
    "cpu_count",
    "cpu_affinity",
    "aslr",
    "platform",
    "python_implementation",
    "python_version",
    "python_compiler",
    "python_hash_seed",
    "python_gc",
)


def recognises(file: File) -> bool:
    document = file.json
    if not document.has("version", "benchmarks") or not isinstance(document.value["benchmarks"], list):
        return False
    benchmarks = document.value["benchmarks"]
    return bool(benchmarks) and Node(benchmarks[0]).has("runs")


def gather(file: File, reading: FileResults) -> None:
    shared = metadata_of(file.document)
    for benchmark in file.document["benchmarks"].list():
        with reading.part():
            gather_benchmark(benchmark, shared, reading)


def gather_benchmark(benchmark: Node, shared: dict[str, Node], reading: FileResults) -> None:
    runs = [run for run in benchmark["runs"].list() if run.has("values")]
    facts = shared | metadata_of(benchmark) | (metadata_of(runs[0]) if runs else {})
    if "name" not in facts:
        raise benchmark.refused("it has no name in its metadata", "name it (pyperf: --name)")
    name, unit = FileBenchmark(facts["name"].text()), unit_of(facts)
    values = reading.amounts(value for run in runs for value in run["values"].list())
    if values:
        origin = origin_of(facts, reading)
        reading.add(name, reading.measure(metric_of(unit), unit), values, origin, benchmark.pointer)
    else:
        reading.skip(benchmark.pointer, f"{name.name!r} has no values")


def metadata_of(node: Node) -> dict[str, Node]:
    metadata = node.get("metadata")
    return dict(metadata.members()) if metadata else {}


def unit_of(facts: dict[str, Node]) -> str:
    unit = facts.get("unit")
    if unit is None:
        return "s"
    if unit.text() not in UNITS:
        raise unit.refused(f"{unit.text()[:20]!r} is no unit of pyperf", "second, byte and integer are known")
    return UNITS[unit.text()]


def metric_of(unit: str) -> str:
    return {"s": "time", "B": "memory"}.get(unit, "value")


def origin_of(facts: dict[str, Node], reading: FileResults) -> FileOrigin:
    environment = reading.words((name, facts.get(name)) for name in FACTS)
    return FileOrigin(
        commit=facts["commit_id"].text() if "commit_id" in facts else "",
        machine=facts["hostname"].text() if "hostname" in facts else "",
        environment={name: str(fact)[:300] for name, fact in environment.items()},
        measured_at=reading.moment(facts.get("date"), Node.moment),
    )


READER = ToolReader("pyperf", "pyperf, -o FILE", recognises, gather)
