"""JMH, ``-rf json``: the score of each iteration of each fork. The mode is part of the metric."""

from collections.abc import Iterator

from speedtrack.outside.readers import Word
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import ALLOCATED, Measure, known_unit
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults
from speedtrack.outside.readers.tools import ToolReader

METRICS = {"thrpt": "rate", "avgt": "time", "sample": "sampled_time", "ss": "single_shot_time"}
FACTS = ("jdkVersion", "vmName", "vmVersion")
PERCENTILES = {"p0.50": "sampled_time_p50", "p0.99": "sampled_time_p99"}  # of the mode sample
ALLOCATION = "gc.alloc.rate.norm"  # of -prof gc, bytes per operation


def recognises(file: File) -> bool:
    rows = file.json.value
    return isinstance(rows, list) and bool(rows) and Node(rows[0]).has("benchmark", "mode", "primaryMetric")


def gather(file: File, reading: FileResults) -> None:
    for row in file.document.list():
        with reading.part():
            gather_row(row, reading)


def gather_row(row: Node, reading: FileResults) -> None:
    mode = row["mode"].text()
    if mode not in METRICS:
        raise row["mode"].refused(f"{mode[:20]!r} is no mode of JMH", f"known are {', '.join(METRICS)}")
    benchmark, primary = FileBenchmark(row["benchmark"].text(), parameters_of(row)), row["primaryMetric"]
    measure = measure_by(METRICS[mode], primary, reading)
    origin = FileOrigin(environment=reading.words((name, row.get(name)) for name in FACTS))
    reading.add(benchmark, measure, list(scores(primary, reading)), origin, primary.pointer)
    if secondary := row.get("secondaryMetrics"):
        gather_secondary(benchmark, secondary, origin, reading)


def gather_secondary(benchmark: FileBenchmark, secondary: Node, origin: FileOrigin, reading: FileResults) -> None:
    """Gather allocation, and two percentiles of the mode "sample". Numbers of other profilers are left out."""
    for name, metric in secondary.members():
        plain = name.rpartition("·")[2]
        if plain == ALLOCATION:
            reading.add(benchmark, ALLOCATED, list(scores(metric, reading)), origin, metric.pointer)
        elif plain in PERCENTILES:
            measure = measure_by(PERCENTILES[plain], metric, reading)
            reading.add(benchmark, measure, list(scores(metric, reading)), origin, metric.pointer)


def measure_by(metric: str, score: Node, reading: FileResults) -> Measure:
    unit = score["scoreUnit"].text()
    return reading.measure(metric if known_unit(unit) else "", unit)


def scores(metric: Node, reading: FileResults) -> Iterator[float]:
    """The scores, one per iteration.

    The mode "sample" has a histogram of calls instead, whose mean is the score.
    """
    if raw := metric.get("rawData"):
        for fork in raw.list():
            yield from reading.amounts(fork.list())
    else:
        for fork in metric["rawDataHistogram"].list():
            for iteration in fork.list():
                with reading.part():
                    yield mean_of(iteration)


def mean_of(histogram: Node) -> float:
    pairs = [pair.list() for pair in histogram.list()]
    for pair in pairs:
        if len(pair) != 2:
            raise histogram.refused("a bar of the histogram is not a value and a count")
    total = sum(count.count() for _, count in pairs)
    if total == 0:
        raise histogram.refused("it has no calls")
    return sum(value.amount() * count.count() for value, count in pairs) / total


def parameters_of(row: Node) -> dict[str, Word]:
    """The author's parameters, and the number of threads if it is more than one."""
    params = row.get("params")
    parameters: dict[str, Word] = {name: node.word() for name, node in params.members()} if params else {}
    threads = row.get("threads")
    return parameters | ({"threads": threads.word()} if threads and threads.value != 1 else {})


READER = ToolReader("jmh", "JMH, -rf json", recognises, gather)
