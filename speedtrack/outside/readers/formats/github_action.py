"""github-action-benchmark: the file of its custom tools; its history ``data.js``, which names commits, or its JSON."""

import re

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import File, parse_json
from speedtrack.outside.readers.measures import Better, Measure, stated_measure
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary
from speedtrack.outside.readers.tools import ToolReader

PREFIX = re.compile(r"\s*window\.BENCHMARK_DATA\s*=\s*")
STATED: dict[str, Better] = {"customBiggerIsBetter": "higher", "customSmallerIsBetter": "lower"}
RANGE = re.compile(r"\s*(?:±|\+/-)?\s*(\d{1,30}(?:\.\d{1,30})?)\s*(%?)\s*")
AGGREGATES = re.compile(r"_(mean|median|stddev|cv|BigO|RMS)$")  # rows that Google Benchmark adds to the repeats


def is_entry(node: Node) -> bool:
    return node.has("name", "value", "unit")


def recognises_entries(file: File) -> bool:
    entries = file.json.value
    return isinstance(entries, list) and bool(entries) and is_entry(Node(entries[0]))


def recognises_history(file: File) -> bool:
    lines = file.readable_lines
    return bool(lines and PREFIX.match(lines[0])) or file.json.has("entries", "lastUpdate")


def gather_entries(file: File, reading: FileResults) -> None:
    for entry in file.document.list():
        unit = unit_of(entry)
        measure = stated_measure(unit, reading.direction(reading.measure("", unit).metric))
        add(reading, [entry], FileBenchmark(entry["name"].word()), measure, FileOrigin())


def gather_history(file: File, reading: FileResults) -> None:
    if reading.options.commit:
        raise ReadError("the history names the commit of each result", "commit", "leave the commit out")
    for suite, runs in history_of(file)["entries"].members():
        for run in runs.list():
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
    date = run.get("date")
    origin = FileOrigin(run["commit"]["id"].text(), measured_at=date.milliseconds() if date else None)
    tool = run["tool"].text()
    repeats: dict[tuple[str, str], list[Node]] = {}
    for entry in run["benches"].list():
        repeats.setdefault((entry["name"].word(), unit_of(entry)), []).append(entry)
    names = {name for name, _ in repeats}
    for (name, unit), entries in repeats.items():
        if tool != "googlecpp" or AGGREGATES.sub("", name) not in names - {name}:
            add(reading, entries, FileBenchmark(f"{suite}: {name}"), measure_by(tool, unit, reading), origin)


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
    values = [entry["value"].amount() for entry in entries]
    interval = interval_of(entries[0], values[0]) if len(entries) == 1 else None
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
