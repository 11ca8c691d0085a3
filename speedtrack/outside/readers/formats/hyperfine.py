"""hyperfine, ``--export-json``: the time of each run; CPU time and memory if it has them."""

from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import PEAK_MEMORY, TIME_S, time
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary
from speedtrack.outside.readers.tools import ToolReader


def recognises(file: File) -> bool:
    results = file.json.value.get("results") if isinstance(file.json.value, dict) else None
    return isinstance(results, list) and bool(results) and Node(results[0]).has("command", "mean")


def gather(file: File, reading: FileResults) -> None:
    for result in file.document["results"].list():
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
    times = result.get("times")
    runs = times.amounts() if times else ()
    median = FileSummary((result.get("median") or result["mean"]).amount())
    reading.add(benchmark, TIME_S, runs or median, FileOrigin(), result.pointer)
    for name in ("user", "system"):
        if (mean := result.get(name)) and mean.amount() > 0:
            reading.add(
                benchmark,
                time(f"{name}_time", "s"),
                FileSummary(mean.amount(), n=len(runs)),
                FileOrigin(),
                mean.pointer,
            )
    if memory := result.get("memory_usage_byte"):
        reading.add(benchmark, PEAK_MEMORY, memory.amounts(), FileOrigin(), memory.pointer)


READER = ToolReader("hyperfine", "hyperfine, --export-json", recognises, gather)
