"""Output of ``go test -bench`` (the Go benchmark format): lines of one name are repeats (``-count``).

https://go.dev/design/14313-benchmark-format describes it, golang.org/x/perf/benchfmt the lines that begin with Unit.
"""

import math
import re
from dataclasses import dataclass, field, replace

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import Better, Measure
from speedtrack.outside.readers.nodes import LONGEST_TEXT
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults
from speedtrack.outside.readers.tools import ToolReader

RESULT = re.compile(r"Benchmark(?![a-z])(\S*)\s+(\d+)\s(.*)")
FACT = re.compile(r"([a-z][\w-]{0,60}):\s(.*)")
UNIT = re.compile(r"Unit\s+(\S+)\s.*\bbetter=(higher|lower)\b.*")
FAILED = re.compile(r"--- (FAIL|SKIP): (Benchmark\S*)")
FACTS = ("goos", "goarch", "cpu", "toolchain", "goamd64")


@dataclass
class Lines:
    """The facts in the lines read so far."""

    facts: dict[str, str] = field(default_factory=dict)
    directions: dict[str, Better] = field(default_factory=dict)
    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    positions: dict[str, str] = field(default_factory=dict)
    origins: dict[str, FileOrigin] = field(default_factory=dict)


def recognises(file: File) -> bool:
    return any(RESULT.match(line) and "/op" in line for line in file.readable_lines)


def gather(file: File, reading: FileResults) -> None:
    lines = Lines()
    for number, line in enumerate(file.lines, 1):
        if result := RESULT.match(line):
            add_result(lines, result, f"line {number}")
        elif unit := UNIT.fullmatch(line):
            lines.directions[unit[1]] = "higher" if unit[2] == "higher" else "lower"
        elif fact := FACT.fullmatch(line):
            lines.facts[fact[1]] = fact[2].strip()
        elif failed := FAILED.match(line.strip()):
            reading.skip(f"line {number}", f"{failed[2][:100]} {'failed' if failed[1] == 'FAIL' else 'was skipped'}")
    for (name, unit_name), numbers in lines.samples.items():
        measure = measure_by(unit_name, lines, reading)
        reading.add(FileBenchmark(name), measure, numbers, lines.origins[name], lines.positions[name])


def add_result(lines: Lines, result: re.Match[str], position: str) -> None:
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
        lines.samples.setdefault((name, unit), []).append(number_of(number_text, position))


def full_name(name: str, package: str) -> str:
    """The name with its package, since several packages may have a benchmark with the same name."""
    return f"{package}.{name}" if package else name


def number_of(text: str, position: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ReadError(f"{text[:40]!r} is no number that can have been measured", position)
    return number


def measure_by(unit: str, lines: Lines, reading: FileResults) -> Measure:
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
