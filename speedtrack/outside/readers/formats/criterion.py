"""Criterion: the folder ``target/criterion`` as a tar archive, and the messages of cargo-criterion.

The repeats are the samples, each divided by its iterations. If a benchmark has only estimates, the median is used.
"""

from collections.abc import Mapping

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import File, parse_json
from speedtrack.outside.readers.measures import TIME
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary, end_of
from speedtrack.outside.readers.tools import ToolReader

NEWEST = "new/benchmark.json"  # its neighbour "base" has the run that it was compared with
COMPLETE = "benchmark-complete"


def recognises_folder(file: File) -> bool:
    return any(path == NEWEST or path.endswith(f"/{NEWEST}") for path in file.folder)


def gather_folder(file: File, reading: FileResults) -> None:
    for path in sorted(file.members):
        if path == NEWEST or path.endswith(f"/{NEWEST}"):
            with reading.part():
                gather_benchmark(file.members, path.removesuffix("benchmark.json"), reading)


def gather_benchmark(members: Mapping[str, File], folder: str, reading: FileResults) -> None:
    name = member(members, folder, "benchmark.json")["full_id"].text()
    numbers: list[float] | FileSummary
    if f"{folder}sample.json" in members:
        sample = member(members, folder, "sample.json")
        numbers = per_iteration(sample["times"], sample["iters"], reading)
    else:
        median = member(members, folder, "estimates.json")["median"]
        ends = median["confidence_interval"]
        numbers = FileSummary(
            median["point_estimate"].amount(),
            end_of(ends["lower_bound"]),
            end_of(ends["upper_bound"]),
        )
    reading.add(FileBenchmark(name), TIME, numbers, FileOrigin(), folder.removesuffix("/new/"))


def member(members: Mapping[str, File], folder: str, name: str) -> Node:
    path = f"{folder}{name}"
    if path not in members:
        raise ReadError(f"beside benchmark.json there is no {name}", folder, "pack the whole folder target/criterion")
    return Node(parse_json(members[path].text, path), f"{path}#")


def per_iteration(times: Node, iterations: Node, reading: FileResults) -> list[float]:
    """The time of one iteration in each sample, without samples that are left out."""
    counts = iterations.list()
    if len(counts) != len(times.list()):
        raise iterations.refused(f"{len(counts)} counts of iterations for {len(times.list())} times")
    samples = []
    for time, count in zip(times.list(), counts, strict=True):
        with reading.part():
            if count.amount() == 0:
                raise count.refused("no iteration")
            samples.append(time.amount() / count.amount())
    return samples


def recognises_messages(file: File) -> bool:
    return any(line.startswith("{") and f'"{COMPLETE}"' in line for line in file.readable_lines)


def gather_messages(file: File, reading: FileResults) -> None:
    for number, line in enumerate(file.lines, 1):
        if line.startswith("{"):
            message = Node(parse_json(line, f"line {number}"), f"line {number}#")
            if message.has("reason") and message["reason"].value == COMPLETE:
                with reading.part():
                    gather_message(message, reading)


def gather_message(message: Node, reading: FileResults) -> None:
    numbers = per_iteration(message["measured_values"], message["iteration_count"], reading)
    measure = reading.measure("", message["unit"].text())
    reading.add(FileBenchmark(message["id"].text()), measure, numbers, FileOrigin(), message.place)


FOLDER = ToolReader("criterion", "Criterion, the folder target/criterion", recognises_folder, gather_folder)
MESSAGES = ToolReader("cargo-criterion", "cargo criterion --message-format=json", recognises_messages, gather_messages)
