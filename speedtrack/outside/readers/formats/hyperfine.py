"""hyperfine, ``--export-json``: the time of each run; CPU time and memory if it has them."""

from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import PEAK_MEMORY, TIME_S, time
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary
from speedtrack.outside.readers.tools import ToolReader


def recognises(file: File) -> bool:
    results = file.json.value.get("results") if isinstance(file.json.value, dict) else None
    return isinstance(results, list) and any(Node(result).has("command", "mean") for result in results)


def gather(file: File, reading: FileResults) -> None:
    for result in file.document["results"].list():
        with reading.part():
            gather_result(result, reading)


def gather_result(result: Node, reading: FileResults) -> None:
    parameters = result.get("parameters")
    benchmark = FileBenchmark(
        result["command"].text(), {name: node.word() for name, node in parameters.members()} if parameters else {}
    )
    codes = result.get("exit_codes")
    if codes and any(node.value != 0 for node in codes.list()):
        reading.skip(codes.pointer, f"{benchmark.name!r} failed in some runs")
    else:
        add(reading, benchmark, result)


def add(reading: FileResults, benchmark: FileBenchmark, result: Node) -> None:
    times, memory = result.get("times"), result.get("memory_usage_byte")
    runs = times.list() if times else []
    numbers = reading.amounts(runs) if runs else FileSummary((result.get("median") or result["mean"]).amount())
    reading.add(benchmark, TIME_S, numbers, FileOrigin(), result.pointer)
    for name in ("user", "system"):
        node = result.member(name)
        if node and (mean := reading.amount(node)) is not None:
            summary = FileSummary(mean, n=len(runs))
            reading.add(benchmark, time(f"{name}_time", "s"), summary, FileOrigin(), node.pointer)
    if memory:
        reading.add(benchmark, PEAK_MEMORY, reading.amounts(memory.list()), FileOrigin(), memory.pointer)


READER = ToolReader("hyperfine", "hyperfine, --export-json", recognises, gather)
