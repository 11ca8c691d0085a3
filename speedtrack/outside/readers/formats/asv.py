"""asv: its folder of results as a tar archive. Each file in it names the commit, the time and the machine.

With ``asv run --record-samples`` it has the repeats; otherwise the median and its interval are used.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import isnan

from speedtrack.outside.readers import ReadError, Word
from speedtrack.outside.readers.files import File, Folder, parse_json
from speedtrack.outside.readers.measures import MEMORY, PEAK_MEMORY, TIME_S, Measure
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary, end_of
from speedtrack.outside.readers.tools import ToolReader

BENCHMARKS, MACHINE = "benchmarks.json", "machine.json"
MEASURES = {"time": TIME_S, "timeraw": TIME_S, "memory": MEMORY, "peakmemory": PEAK_MEMORY}
FORMAT = 2  # of files of results
FILES_AT_ONCE = 50  # of results: a history of years has ten thousands
MOST_COMBINATIONS = 100_000  # of parameters of one benchmark
MACHINE_FACTS = ("arch", "cpu", "num_cpu", "os", "ram")


@dataclass(frozen=True)
class AsvRow:
    """The values of one file about one benchmark, by column name."""

    columns: dict[str, Node]
    pointer: str

    def at(self, column: str, index: int) -> Node | None:
        """The value in a column for the combination of parameters with this index."""
        values = self.columns.get(column)
        if values is None or values.value is None:
            return None
        values_of_column = values.list()
        return (
            values_of_column[index]
            if index < len(values_of_column) and values_of_column[index].value is not None
            else None
        )


def recognises(file: File) -> bool:
    if file.is_archive:
        return any(path.rpartition("/")[2] == BENCHMARKS for path in file.folder)
    return file.json.has("commit_hash", "result_columns")


def parts(file: File) -> Iterator[File]:
    """Parts of a few files of one machine, each with what describes them."""
    if not file.is_archive:
        yield file
        return
    for folder in folders_of(file):
        by_machine: dict[str, list[str]] = {}
        for path in sorted(file.members):
            machine, _, name = path.removeprefix(folder).rpartition("/")
            if path.startswith(folder) and machine and "/" not in machine and name != MACHINE:
                by_machine.setdefault(machine, []).append(path)
        for machine, paths in by_machine.items():
            shared = [
                path for path in (f"{folder}{BENCHMARKS}", f"{folder}{machine}/{MACHINE}") if path in file.members
            ]
            for first in range(0, len(paths), FILES_AT_ONCE):
                members = [*shared, *paths[first : first + FILES_AT_ONCE]]
                yield Folder(name=file.name, files={path: file.members[path] for path in members})


def folders_of(file: File) -> Iterator[str]:
    """Where the folders of results are in the archive: "" or a path that ends with a slash."""
    for path in file.members:
        folder, _, name = path.rpartition("/")
        if name == BENCHMARKS:
            yield f"{folder}/" if folder else ""


def gather(file: File, reading: FileResults) -> None:
    if not file.is_archive:
        raise ReadError("one file of asv has neither units nor types", "file", "give the whole folder of results")
    if reading.options.commit:
        raise ReadError("asv's files name the commit of each result", "commit", "leave the commit out")
    for folder in folders_of(file):
        gather_folder(file.members, folder, reading)


def gather_folder(members: Mapping[str, File], folder: str, reading: FileResults) -> None:
    definitions = document_of(members, f"{folder}{BENCHMARKS}")
    for path in members:
        machine, _, name = path.removeprefix(folder).rpartition("/")
        if machine and name != MACHINE:
            with reading.part():
                facts = document_of(members, f"{folder}{machine}/{MACHINE}")
                gather_file(document_of(members, path), definitions, facts, reading)


def document_of(members: Mapping[str, File], path: str) -> Node:
    if path not in members:
        raise ReadError(f"the archive has no {path}", "file", "pack asv's whole folder of results")
    return Node(parse_json(members[path].text, path), f"{path}#")


def gather_file(document: Node, definitions: Node, facts: Node, reading: FileResults) -> None:
    if document["version"].value != FORMAT:
        raise document["version"].refused(f"format {document['version'].word()[:20]}", f"asv update makes it {FORMAT}")
    columns = [column.text() for column in document["result_columns"].list()]
    origin = origin_of(document, facts)
    for name, values in document["results"].members():
        if values.value is not None:
            with reading.part():
                gather_benchmark(name, values, columns, definitions, origin, reading)


def gather_benchmark(
    name: str, values: Node, columns: list[str], definitions: Node, origin: FileOrigin, reading: FileResults
) -> None:
    row = AsvRow(dict(zip(columns, values.list(), strict=False)), values.pointer)
    definition = definitions.get(name)
    if definition is None or version_of(definition) != version_of_row(row):
        reading.skip(row.pointer, f"{name!r} is of another version than {BENCHMARKS} has")
    elif row.columns.get("result") is None or row.columns["result"].value is None:
        reading.skip(row.pointer, f"{name!r} failed")
    else:
        gather_row(name, row, definition, origin, reading)


def version_of(definition: Node) -> str:
    version = definition.get("version")
    return version.word() if version else ""


def version_of_row(row: AsvRow) -> str:
    version = row.columns.get("version")
    return version.word() if version and version.value is not None else ""


def gather_row(name: str, row: AsvRow, definition: Node, origin: FileOrigin, reading: FileResults) -> None:
    measure = measure_by(definition, reading)
    results, started = row.columns["result"].list(), row.columns.get("started_at")
    at = reading.moment(started if started and started.value is not None else None, Node.milliseconds)
    there = FileOrigin(origin.commit, origin.machine, origin.environment, at)
    skipped_count = 0
    for index, parameters in enumerate(combinations(row, definition)):
        if index >= len(results):
            raise row.columns["result"].refused("it has fewer results than its parameters have combinations")
        if is_skipped(results[index]):
            skipped_count += 1
            continue
        with reading.part():
            numbers = numbers_of(row, index, reading)
            reading.add(FileBenchmark(name, parameters), measure, numbers, there, results[index].pointer)
    if skipped_count:  # one sentence of all: histories have thousands of such rows
        counts = f"{skipped_count} of {len(results)} combinations"
        reading.skip(row.columns["result"].pointer, f"{name!r} failed, was skipped or has no number in {counts}")


def is_skipped(result: Node) -> bool:
    """Return whether the combination failed or was skipped: asv then writes null or NaN."""
    return result.value is None or (isinstance(result.value, float) and isnan(result.value))


def numbers_of(row: AsvRow, index: int, reading: FileResults) -> list[float] | FileSummary:
    samples = row.at("samples", index)
    if samples and samples.list():
        return reading.amounts(samples.list())
    result, repeats = row.columns["result"].list()[index], row.at("stats_repeat", index)
    low, high = row.at("stats_ci_99_a", index), row.at("stats_ci_99_b", index)
    n = repeats.count() if repeats else 0
    return FileSummary(result.amount(), end_of(low), end_of(high), n or None)


def combinations(row: AsvRow, definition: Node) -> Iterator[dict[str, Word]]:
    """The parameters of each result, in asv's order."""
    params = row.columns.get("params")
    axes = [[value.word() for value in axis.list()] for axis in params.list()] if params and params.value else []
    total = 1
    for axis in axes:
        total *= len(axis)
    if params and total > MOST_COMBINATIONS:
        raise params.refused(f"{total:,} combinations of parameters", f"at most {MOST_COMBINATIONS:,}")
    stated = definition.get("param_names")
    names = [name.text() for name in stated.list()] if stated else []
    names += [f"parameter {number + 1}" for number in range(len(names), len(axes))]
    for values in product(*axes):
        yield dict(zip(names, values, strict=False))


def measure_by(definition: Node, reading: FileResults) -> Measure:
    kind, unit = definition["type"].text(), definition.get("unit")
    if kind in MEASURES:
        return MEASURES[kind]
    unit_text = unit.text() if unit and unit.value != "unit" else ""
    return reading.measure("", unit_text)


def origin_of(document: Node, facts: Node) -> FileOrigin:
    stated = document.get("params")
    machine = (stated.get("machine") if stated else None) or facts["machine"]
    return FileOrigin(document["commit_hash"].text(), machine.text(), environment_of(document, facts))


def environment_of(document: Node, facts: Node) -> dict[str, Word]:
    environment: dict[str, Word] = {
        name: fact.word() for name in MACHINE_FACTS if (fact := facts.get(name)) and fact.value != ""
    }
    python = document.get("python")
    if python:
        environment["python"] = python.word()
    for group in ("requirements", "env_vars"):
        if group_facts := document.get(group):
            environment |= {name: fact.word() for name, fact in group_facts.members() if fact.value is not None}
    return environment


READER = ToolReader("asv", "asv, the folder of results", recognises, gather, parts)
