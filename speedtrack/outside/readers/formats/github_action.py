"""github-action-benchmark: the file of its custom tools; its history ``data.js``, which names commits, or its JSON."""

import re

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import File, parse_json
from speedtrack.outside.readers.measures import Better, Measure, stated_measure
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary
from speedtrack.outside.readers.tools import ToolReader

Repeats = dict[tuple[str, str], list[Node]]  # entries by benchmark and unit
PREFIX = re.compile(r"\s*window\.BENCHMARK_DATA\s*=\s*")
STATED: dict[str, Better] = {"customBiggerIsBetter": "higher", "customSmallerIsBetter": "lower"}
RANGE = re.compile(r"\s*(?:±|\+/-)?\s*(\d{1,30}(?:\.\d{1,30})?)\s*(%?)\s*")
AGGREGATES = re.compile(r"_(mean|median|stddev|cv|BigO|RMS)$")  # rows that Google Benchmark adds to the repeats


def is_entry(node: Node) -> bool:
    return isinstance(node.value, dict) and node.value.keys() >= {"name", "value", "unit"}


def recognises_entries(file: File) -> bool:
    entries = file.json.value
    return isinstance(entries, list) and any(is_entry(Node(entry)) for entry in entries)


def recognises_history(file: File) -> bool:
    lines = file.readable_lines
    return bool(lines and PREFIX.match(lines[0])) or file.json.has("entries", "lastUpdate")


def gather_entries(file: File, reading: FileResults) -> None:
    for entry in file.document.list():
        with reading.part():
            unit = unit_of(entry)
            measure = stated_measure(unit, reading.direction(reading.measure("", unit).metric))
            add(reading, [entry], FileBenchmark(entry["name"].word()), measure, FileOrigin())


def gather_history(file: File, reading: FileResults) -> None:
    if reading.options.commit:
        raise ReadError("the history names the commit of each result", "commit", "leave the commit out")
    for suite, runs in history_of(file)["entries"].members():
        for run in runs.list():
            with reading.part():
                gather_run(suite, run, reading)


def history_of(file: File) -> Node:
    """The history as JSON.

    data.js is a script with one assignment: the assigned value is read, the script is never run.
    """
    match = PREFIX.match(file.text)
    if match is None:
        return file.document
    return Node(parse_json(file.text[match.end() :].rstrip().removesuffix(";")))


def gather_run(suite: str, run: Node, reading: FileResults) -> None:
    """Gather one call of the action: the results of one tool at one commit. Rows of one name are repeats."""
    date = reading.moment(run.get("date"), Node.milliseconds)
    origin = FileOrigin(run["commit"]["id"].text(), measured_at=date)
    tool = run["tool"].text()
    gather_entry = gather_go if tool == "go" else gather_single
    repeats: Repeats = {}
    combined: Repeats = {}
    for entry in run["benches"].list():
        with reading.part():
            gather_entry(entry, repeats, combined)
    for key, entries in combined.items():
        repeats.setdefault(key, entries)
    names = {name for name, _ in repeats}
    for (name, unit), entries in repeats.items():
        if tool != "googlecpp" or AGGREGATES.sub("", name) not in names - {name}:
            with reading.part():
                add(reading, entries, FileBenchmark(f"{suite}: {name}"), measure_by(tool, unit, reading), origin)


def gather_single(entry: Node, repeats: Repeats, combined: Repeats) -> None:
    repeats.setdefault((entry["name"].word(), unit_of(entry)), []).append(entry)


def gather_go(entry: Node, repeats: Repeats, combined: Repeats) -> None:
    """Gather an entry about Go, which may hold all values of a benchmark: the unit of the first holds the others.

    The action wrote only such entries before its version 1.18. Since then there is one for each value besides, named
    ``NAME - UNIT``.
    """
    unit, *further = unit_of(entry).split()
    name = entry["name"].word().removesuffix(f" - {unit}")
    gathered = combined if further else repeats
    gathered.setdefault((name, unit), []).append(entry)
    for value, next_unit in zip(further[::2], further[1::2], strict=False):
        gathered.setdefault((name, next_unit), []).append(Node({"value": value}, entry.pointer))


def measure_by(tool: str, unit: str, reading: FileResults) -> Measure:
    """The measure of a value.

    For the custom tools, the name of the tool states which direction is better; for others the unit does.
    """
    return stated_measure(unit, STATED[tool]) if tool in STATED else reading.measure("", unit)


def unit_of(entry: Node) -> str:
    return entry["unit"].word()


def add(
    reading: FileResults, entries: list[Node], benchmark: FileBenchmark, measure: Measure, origin: FileOrigin
) -> None:
    values = reading.amounts(entry["value"] for entry in entries)
    interval = interval_of(entries[0], values[0]) if len(entries) == len(values) == 1 else None
    reading.add(benchmark, measure, interval or values, origin, entries[0].pointer)


def interval_of(entry: Node, value: float) -> FileSummary | None:
    """The interval in ``range``, if that is a number or a percentage on both sides of the value."""
    text = entry.get("range")
    match = RANGE.fullmatch(text.word()) if text else None
    if match is None:
        return None
    half = float(match[1]) * (value / 100 if match[2] else 1)
    return FileSummary(value, value - half, value + half)


ENTRIES = ToolReader(
    "github-action",
    "github-action-benchmark, the file of a custom tool",
    recognises_entries,
    gather_entries,
)
HISTORY = ToolReader("github-action-history", "github-action-benchmark, data.js", recognises_history, gather_history)
