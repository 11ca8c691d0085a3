"""Output of ``go test -bench`` (the Go benchmark format), plain or as ``-json``: lines of one name are repeats.

https://go.dev/design/14313-benchmark-format describes it, golang.org/x/perf/benchfmt the lines that begin with Unit.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import File, parse_json
from speedtrack.outside.readers.measures import Better, Measure
from speedtrack.outside.readers.nodes import LONGEST_TEXT, Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults
from speedtrack.outside.readers.tools import ToolReader

RESULT = re.compile(r"Benchmark(?![a-z])(\S*)\s+(\d+)\s(.*)")
FACT = re.compile(r"([a-z][\w-]{0,60}):\s(.*)")
UNIT = re.compile(r"Unit\s+(\S+)\s.*\bbetter=(higher|lower)\b.*")
BEGUN = re.compile(r"(Benchmark(?![a-z])\S*)\s")
NAMELESS = re.compile(r"\s*\d+\s+[\d.]+ ns/op\b.*")
EVENT = re.compile(r'\{"(?:Time|Action|ImportPath)":')
FAILED = re.compile(r"--- (FAIL|SKIP): (Benchmark\S*)")
MOST_BEFORE = 1000  # lines that tools around the tests may print first
FACTS = ("goos", "goarch", "cpu", "toolchain", "goamd64")


@dataclass
class GoOutput:
    """The facts in the lines read so far. ``begun``: the benchmark that began last, without a result so far."""

    facts: dict[str, str] = field(default_factory=dict)
    directions: dict[str, Better] = field(default_factory=dict)
    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    positions: dict[str, str] = field(default_factory=dict)
    origins: dict[str, FileOrigin] = field(default_factory=dict)
    begun: str = ""


def recognises(file: File) -> bool:
    return any("/op" in line and (RESULT.match(line) or is_event(line)) for line in file.readable_lines)


def is_event(line: str) -> bool:
    """Return whether this is a line of ``go test -json`` about a benchmark."""
    return EVENT.match(line) is not None and "ns/op" in line


def gather(file: File, reading: FileResults) -> None:
    lines = GoOutput()
    for number, line in printed_lines(file, reading):
        if result := RESULT.match(line):
            lines.begun = ""
            with reading.part():
                add_result(lines, result, f"line {number}", reading)
        elif NAMELESS.fullmatch(line) and lines.begun:
            cause = f"{lines.begun[:100]} printed something between its name and its numbers: let it print nothing"
            reading.fault(f"line {number}", cause)
        elif begun := BEGUN.match(line):
            lines.begun = begun[1]
        elif unit := UNIT.fullmatch(line):
            lines.directions[unit[1]] = "higher" if unit[2] == "higher" else "lower"
        elif fact := FACT.fullmatch(line):
            lines.facts[fact[1]] = fact[2].strip()
        elif failed := FAILED.match(line.strip()):
            reading.skip(f"line {number}", f"{failed[2][:100]} {'failed' if failed[1] == 'FAIL' else 'was skipped'}")
    for (name, unit_name), numbers in lines.samples.items():
        measure = measure_by(unit_name, lines, reading)
        reading.add(FileBenchmark(name), measure, numbers, lines.origins[name], lines.positions[name])


def printed_lines(file: File, reading: FileResults) -> Iterator[tuple[int, str]]:
    """The lines that the tests printed, with their numbers in the file; of ``-json``, package by package.

    There an event may hold a part of a line, and events of several packages may alternate.
    """
    if not any(EVENT.match(line) for line in file.lines[:MOST_BEFORE]):
        yield from enumerate(file.lines, 1)
        return
    packages: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(file.lines, 1):
        if EVENT.match(line):
            with reading.part():
                event = Node(parse_json(line, f"line {number}"), f"line {number}#")
                if event["Action"].value == "output":
                    package = event.get("Package")
                    pieces = packages.setdefault(package.text() if package else "", [])
                    pieces.append((number, str(event["Output"].value)))
    for pieces in packages.values():
        yield from whole_lines(pieces)


def whole_lines(pieces: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Lines put together of pieces, each with the number of its last piece."""
    beginning: list[str] = []
    for number, piece in pieces:
        *ends, remainder = piece.split("\n")
        for end in ends:
            yield number, "".join(beginning) + end
            beginning = []
        beginning.append(remainder)
    if pieces and any(beginning):
        yield pieces[-1][0], "".join(beginning)


def add_result(lines: GoOutput, result: re.Match[str], position: str, reading: FileResults) -> None:
    name = full_name(result[1], lines.facts.get("pkg", ""))
    fields = result[3].split()
    if len(fields) % 2 or not fields:
        raise ReadError("a value stands there without its unit", position, "the file may be cut off")
    if not name.isprintable() or len(name) > LONGEST_TEXT:
        raise ReadError("this is no name of a benchmark", position)
    lines.positions.setdefault(name, position)
    lines.origins.setdefault(name, origin_of(lines.facts))
    units = fields[1::2]
    if len(set(units)) != len(units):
        raise ReadError("it has two values of one unit", position)
    for number_text, unit in zip(fields[::2], units, strict=True):
        if (value := reading.amount(Node(number_text, f"{position}, {unit[:60]}"))) is not None:
            lines.samples.setdefault((name, unit), []).append(value)


def full_name(name: str, package: str) -> str:
    """The name with its package, since several packages may have a benchmark with the same name."""
    return f"{package}.{name}" if package else name


def measure_by(unit: str, lines: GoOutput, reading: FileResults) -> Measure:
    """The measure of a unit.

    Less is better for a unit per operation (``/op``), unless the unit itself, a line or the caller states otherwise.
    """
    measure = reading.measure("", unit)
    usual: Better | None = "lower" if unit.endswith("/op") else None
    return replace(measure, better=measure.better or lines.directions.get(unit) or usual)


def origin_of(facts: dict[str, str]) -> FileOrigin:
    environment = {name: facts[name][:300] for name in FACTS if facts.get(name)}
    return FileOrigin(commit=facts.get("commit", "")[:64], environment=environment)


READER = ToolReader("go", "go test -bench", recognises, gather)
