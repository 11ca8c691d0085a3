"""memtier_benchmark, ``--json-out-file``. It has the raw repeats of ``-x N`` only with ``--print-all-runs``."""

import re
from collections.abc import Iterator
from datetime import datetime

from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import THROUGHPUT, Measure, time
from speedtrack.outside.readers.nodes import ConflictingValues, Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary
from speedtrack.outside.readers.tools import ToolReader

RUN = re.compile(r"RUN #\d+ RESULTS")
AVERAGES = re.compile(r"AGGREGATED AVERAGE RESULTS \((\d{1,4}) runs\)")
PARAMETERS = (
    ("protocol", "protocol", ""),
    ("threads", "threads", ""),
    ("clients", "clients", ""),
    ("pipeline", "pipeline", "1"),
    ("ratio", "ratio", ""),
    ("data_size", "data_size", ""),
    ("data_size_range", "data_size_range", "0:0"),
    ("data_size_list", "data_size_list", ""),
    ("key_pattern", "key_pattern", ""),
    ("key_maximum", "key_maximum", ""),
    ("rate_limit", "rate_limit", "0"),
    ("tls", "tls", "false"),
)
PERCENTILES = {"p50.00": "latency_p50", "p99.00": "latency_p99", "p99.90": "latency_p99_9"}


def recognises(file: File) -> bool:
    return file.json.has("configuration") and any(is_run(name) for name in file.json.value)


def is_run(name: object) -> bool:
    return isinstance(name, str) and bool(name == "ALL STATS" or RUN.fullmatch(name) or AVERAGES.fullmatch(name))


def gather(file: File, reading: FileResults) -> None:
    document = file.document
    runs = [run for name, run in document.members() if name == "ALL STATS" or RUN.fullmatch(name)]
    for name, averages in document.members():
        if not runs and (match := AVERAGES.fullmatch(name)):
            gather_runs([averages], document, reading, n=int(match[1]))
    gather_runs(runs, document, reading)


def gather_runs(runs: list[Node], document: Node, reading: FileResults, n: int = 0) -> None:
    """Gather the results of runs. ``n``: the number of runs if the only entry is their average, else 0."""
    samples: dict[tuple[str, Measure], list[float]] = {}
    for run in runs:
        for operation, stats in run.members():
            if (
                operation != "Runtime"
                and isinstance(stats.value, dict | ConflictingValues)
                and was_called(stats, reading)
            ):
                for measure, value in values(stats, reading):
                    samples.setdefault((operation, measure), []).append(value)
    parameters = parameters_of(document["configuration"])
    origin = FileOrigin(measured_at=begin_of(runs, reading))
    for (operation, measure), numbers in samples.items():
        summary = FileSummary(numbers[0], n=n) if n else numbers
        reading.add(FileBenchmark(f"memtier {operation}", parameters), measure, summary, origin, f"/{operation}")


def was_called(stats: Node, reading: FileResults) -> bool:
    with reading.part():
        count = stats.member("Count")
        return count is not None and reading.amount(count) != 0
    return False


def values(stats: Node, reading: FileResults) -> Iterator[tuple[Measure, float]]:
    """The measures of one kind of operation. Latencies that memtier did not compute are written as zero."""
    with reading.part():
        yield THROUGHPUT, stats["Ops/sec"].amount()
    if average := reading.amount(stats.member("Average Latency") or stats.member("Latency")):
        yield time("latency_avg", "ms"), average
    percentiles = stats.get("Percentile Latencies")
    if percentiles and reading.amount(stats.member("Accumulated Latency")) != 0:
        with reading.part():
            for name, metric in PERCENTILES.items():
                if (value := reading.amount(percentiles.member(name))) is not None:
                    yield time(metric, "ms"), value


def parameters_of(configuration: Node) -> dict[str, str]:
    """The settings that change the load, without those that have their defaults."""
    parameters = {}
    for key, name, default in PARAMETERS:
        value = configuration.get(key)
        if value and (text := value.word()) not in (default, "None"):
            parameters[name] = text
    return parameters


def begin_of(runs: list[Node], reading: FileResults) -> datetime | None:
    begins = [begin for run in runs if (runtime := run.get("Runtime")) and (begin := runtime.get("Start time"))]
    return reading.moment(begins[0] if begins and begins[0].value else None, Node.milliseconds)


READER = ToolReader("memtier", "memtier_benchmark, --json-out-file", recognises, gather)
