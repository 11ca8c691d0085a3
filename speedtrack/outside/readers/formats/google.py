"""Google Benchmark, ``--benchmark_format=json``: the repeats, or the median if the file has only aggregates."""

from collections.abc import Iterable

from speedtrack.outside.readers import Word
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import BANDWIDTH, Measure, time
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary
from speedtrack.outside.readers.tools import ToolReader

FACTS = ("num_cpus", "cpu_scaling_enabled", "aslr_enabled", "library_version", "library_build_type")
# Numbers of a row other than the author's counters.
OWN = {
    *("family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations"),
    *("real_time", "cpu_time", "cpu_coefficient", "real_coefficient", "rms"),
}


def recognises(file: File) -> bool:
    document = file.json
    return document.has("context", "benchmarks") and Node(document.value["context"]).has("num_cpus")


def gather(file: File, reading: FileResults) -> None:
    origin = origin_of(file.document["context"], reading)
    repeats: dict[str, list[Node]] = {}
    medians: dict[str, Node] = {}
    for row in file.document["benchmarks"].list():
        with reading.part():
            name = (row.get("run_name") or row["name"]).text()
            if row.get("error_occurred") or row.get("skipped"):
                reading.skip(row.pointer, f"{name!r} was not measured: {reason_of(row)}")
            elif not row.has("run_type") or row["run_type"].text() == "iteration":
                repeats.setdefault(name, []).append(row)
            elif row["aggregate_name"].text() == "median":
                medians[name] = row
    for name, rows in repeats.items():
        with reading.part():
            add(reading, name, rows, origin, 0)
    for name, row in medians.items():
        if name not in repeats:
            with reading.part():
                add(reading, name, [row], origin, row["repetitions"].count() if row.has("repetitions") else 1)


def reason_of(row: Node) -> str:
    message = row.get("error_message") or row.get("skip_message")
    return message.text() if message else "it says no reason"


def add(reading: FileResults, name: str, rows: list[Node], origin: FileOrigin, n: int) -> None:
    """Add a benchmark's result.

    ``n``: the number of repeats if the only row is their median; 0 if each row is a repeat.
    """
    benchmark, position = FileBenchmark(name), rows[0].pointer
    for metric in ("real_time", "cpu_time"):
        unit = rows[0]["time_unit"]
        if unit.text() not in ("ns", "us", "ms", "s"):
            raise unit.refused(f"{unit.text()[:20]!r} is no unit of time", "ns, us, ms and s are known")
        measure = time("time" if metric == "real_time" else metric, unit.text())
        with reading.part():
            reading.add(benchmark, measure, numbers([row[metric] for row in rows], n, reading), origin, position)
    for counter in counters(rows[0]):
        nodes = [row[counter] for row in rows if row.has(counter)]
        measure = rate_of(counter) or reading.measure(counter, "")
        reading.add(benchmark, measure, numbers(nodes, n, reading), origin, f"{position}/{counter}")


def numbers(nodes: Iterable[Node], n: int, reading: FileResults) -> list[float] | FileSummary:
    values = reading.amounts(nodes)
    return FileSummary(values[0], n=n) if n and values else values


def counters(row: Node) -> list[str]:
    return [
        name
        for name, node in row.members()
        if name not in OWN and isinstance(node.value, int | float) and not isinstance(node.value, bool)
    ]


def rate_of(counter: str) -> Measure | None:
    if counter == "bytes_per_second":
        return BANDWIDTH
    return Measure("items/s", "items/s", "higher") if counter == "items_per_second" else None


def origin_of(context: Node, reading: FileResults) -> FileOrigin:
    facts: dict[str, Word] = {name: node.word() for name in FACTS if (node := context.get(name))}
    host, date = context.get("host_name"), reading.moment(context.get("date"), Node.moment)
    return FileOrigin(machine=host.text() if host else "", environment=facts, measured_at=date)


READER = ToolReader("google-benchmark", "Google Benchmark, JSON", recognises, gather)
