"""Google Benchmark, ``--benchmark_format=json``: the repeats, or the median if the file has only aggregates."""

from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import BANDWIDTH, NS, Measure, scaled, time
from speedtrack.outside.readers.nodes import ConflictingValues, Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary
from speedtrack.outside.readers.tools import ToolReader

FACTS = ("num_cpus", "cpu_scaling_enabled", "aslr_enabled", "library_version", "library_build_type")
TIME_UNITS = ("ns", "us", "ms", "s")
# Members of a row other than the author's counters.
OWN = {
    *("name", "run_name", "run_type", "label", "time_unit", "aggregate_name", "aggregate_unit", "big_o"),
    *("error_message", "skip_message"),
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
                check_unit(row["time_unit"])
                repeats.setdefault(name, []).append(row)
            elif row["aggregate_name"].text() == "median":
                check_unit(row["time_unit"])
                medians[name] = row
    for name, rows in repeats.items():
        with reading.part():
            add(reading, name, rows, origin, 0)
    for name, row in medians.items():
        if name not in repeats:
            with reading.part():
                add(reading, name, [row], origin, row["repetitions"].count() if row.has("repetitions") else 1)


def check_unit(unit: Node) -> None:
    if unit.text() not in TIME_UNITS:
        raise unit.refused(f"{unit.text()[:20]!r} is no unit of time", "ns, us, ms and s are known")


def reason_of(row: Node) -> str:
    message = row.get("error_message") or row.get("skip_message")
    return message.text() if message else "it says no reason"


def add(reading: FileResults, name: str, rows: list[Node], origin: FileOrigin, n: int) -> None:
    """Add a benchmark's result.

    ``n``: the number of repeats if the only row is their median; 0 if each row is a repeat.
    """
    benchmark, position = FileBenchmark(name), rows[0].pointer
    for metric in ("real_time", "cpu_time"):
        measure = time("time" if metric == "real_time" else metric, "ns")
        values = times_of(rows, metric, reading)
        reading.add(benchmark, measure, numbers(values, n), origin, position)
    for counter in counters(rows):
        values = reading.amounts(node for row in rows if (node := row.member(counter)))
        measure = rate_of(counter) or reading.measure(counter, "")
        reading.add(benchmark, measure, numbers(values, n), origin, f"{position}/{counter}")


def times_of(rows: list[Node], metric: str, reading: FileResults) -> list[float]:
    """The times of rows in ns; each row has its own unit. Rows whose time cannot be read are left out."""
    times = []
    for row in rows:
        with reading.part():
            times.append(scaled(row[metric].amount(), NS[row["time_unit"].text()]))
    return times


def numbers(values: list[float], n: int) -> list[float] | FileSummary:
    return FileSummary(values[0], n=n) if n and values else values


def counters(rows: list[Node]) -> list[str]:
    return list(
        dict.fromkeys(
            name for row in rows for name, node in row.members() if name not in OWN and may_be_counter(name, node.value)
        )
    )


def may_be_counter(name: str, value: object) -> bool:
    """Return whether a member is the author's counter, perhaps without a usable number, and no text."""
    if isinstance(value, str):
        return rate_of(name) is not None or is_number(value)
    return value is None or (isinstance(value, int | float | ConflictingValues) and not isinstance(value, bool))


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def rate_of(counter: str) -> Measure | None:
    if counter == "bytes_per_second":
        return BANDWIDTH
    return Measure("items/s", "items/s", "higher") if counter == "items_per_second" else None


def origin_of(context: Node, reading: FileResults) -> FileOrigin:
    facts = reading.words((name, context.get(name)) for name in FACTS)
    host, date = context.get("host_name"), reading.moment(context.get("date"), Node.moment)
    return FileOrigin(machine=host.text() if host else "", environment=facts, measured_at=date)


READER = ToolReader("google-benchmark", "Google Benchmark, JSON", recognises, gather)
