"""Bencher Metric Format: benchmarks, their measures, and of each a value with perhaps both ends of an interval."""

from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import Measure
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import Benchmark, Origin, Reading, Summary
from speedtrack.outside.readers.tools import ToolReader

# The units of Bencher's own measures. Of others neither the unit nor the direction is known.
UNITS = {"latency": "ns", "throughput": "ops/s", "build-time": "s", "file-size": "B", "allocated": "B/op"}
METRICS = {"latency": "latency", "throughput": "rate", "build-time": "build_time", "file-size": "file_size"}
COUNTS = ("instructions", "estimated-cycles", "l1-accesses", "l2-accesses", "ram-accesses", "total-operations")


def recognises(file: File) -> bool:
    benchmarks = file.json.value
    return isinstance(benchmarks, dict) and bool(benchmarks) and all(map(has_measures, benchmarks.values()))


def has_measures(measures: object) -> bool:
    return isinstance(measures, dict) and bool(measures) and all(Node(one).has("value") for one in measures.values())


def gather(file: File, reading: Reading) -> None:
    for name, measures in file.document.members():
        for measure, metric in measures.members():
            value = metric["value"].amount()
            low, high = (metric.get(end) for end in ("lower_value", "upper_value"))
            summary = Summary(value, low.number() if low else None, high.number() if high else None)
            add(reading, name, measure, summary, metric.pointer)


def add(reading: Reading, benchmark: str, measure: str, summary: Summary, place: str) -> None:
    word = measure.lower().replace(" ", "-")
    if word in COUNTS:
        reading.add(Benchmark(benchmark), Measure(word, "", "lower"), summary, Origin(), place)
    else:
        metric = METRICS.get(word) or measure
        reading.named(Benchmark(benchmark), metric, UNITS.get(word, ""), summary, Origin(), place)


READER = ToolReader("bencher", "Bencher Metric Format", recognises, gather)
