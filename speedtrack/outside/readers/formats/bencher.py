"""Bencher Metric Format: benchmarks with their measures; each has a value and perhaps both ends of an interval."""

from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import Measure
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary, end_of
from speedtrack.outside.readers.tools import ToolReader

# The units of Bencher's own measures. Other measures have an unknown unit and direction.
UNITS = {"latency": "ns", "throughput": "ops/s", "build-time": "s", "file-size": "B", "allocated": "B/op"}
METRICS = {"latency": "latency", "throughput": "rate", "build-time": "build_time", "file-size": "file_size"}
COUNTS = ("instructions", "estimated-cycles", "l1-accesses", "l2-accesses", "ram-accesses", "total-operations")


def recognises(file: File) -> bool:
    benchmarks = file.json.value
    return isinstance(benchmarks, dict) and any(map(has_measure, benchmarks.values()))


def has_measure(measures: object) -> bool:
    return isinstance(measures, dict) and any(
        isinstance(measure, dict) and "value" in measure for measure in measures.values()
    )


def gather(file: File, reading: FileResults) -> None:
    for name, measures in file.document.members():
        with reading.part():
            for measure, metric in measures.members():
                with reading.part():
                    value = metric["value"].amount()
                    low, high = (metric.get(end) for end in ("lower_value", "upper_value"))
                    summary = FileSummary(value, end_of(low), end_of(high))
                    add(reading, name, measure, summary, metric.pointer)


def add(reading: FileResults, benchmark: str, name: str, summary: FileSummary, position: str) -> None:
    key = name.lower().replace(" ", "-")
    count_measure = Measure(key, "", "lower") if key in COUNTS else None
    measure = count_measure or reading.measure(METRICS.get(key, name), UNITS.get(key, ""))
    reading.add(FileBenchmark(benchmark), measure, summary, FileOrigin(), position)


READER = ToolReader("bencher", "Bencher Metric Format", recognises, gather)
