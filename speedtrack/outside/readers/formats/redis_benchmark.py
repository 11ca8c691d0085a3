"""redis-benchmark and valkey-benchmark, ``--csv``: one row per test. Several tables are repeats.

The shortest and the longest latency are left out: the extremes of one run hardly predict the next.
"""

import csv
import re
from collections.abc import Iterator

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import THROUGHPUT, Measure, time
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults
from speedtrack.outside.readers.tools import ToolReader

Samples = dict[tuple[str, str], list[float]]
FIRST = ["test", "rps"]
COLUMNS: dict[str, Measure] = {
    "rps": THROUGHPUT,
    "avg_latency_ms": time("latency_avg", "ms"),
    "p50_latency_ms": time("latency_p50", "ms"),
    "p95_latency_ms": time("latency_p95", "ms"),
    "p99_latency_ms": time("latency_p99", "ms"),
}
LONGEST_TEST = 200
BEGIN = re.compile(r'"test","rps"|"([^"]|"")+","\d{1,20}\.\d{1,10}"$')


def recognises(file: File) -> bool:
    return bool(file.readable_lines and BEGIN.match(file.readable_lines[0]))


def rows(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its line. The name of a test may contain a command, but no line end."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, next(csv.reader([line], strict=True))
            except csv.Error as wrong:
                raise ReadError(f"no CSV ({wrong})", f"line {number}", "the file may be cut off") from wrong


def is_number(text: str) -> bool:
    try:
        return float(text) >= 0 and len(text) < 30
    except ValueError:
        return False


def gather(file: File, reading: FileResults) -> None:
    samples: Samples = {}
    positions: dict[str, str] = {}
    columns, tests = FIRST, set[str]()  # before version 6.2 there was no header line
    for number, row in rows(file.lines):
        position = f"line {number}"
        if row[:2] == FIRST:
            columns, tests = row, set()
        else:
            add_row(samples, columns, row, tests, position)
            positions.setdefault(row[0], position)
    for (test, column), numbers in samples.items():
        reading.add(FileBenchmark(test), COLUMNS[column], numbers, FileOrigin(), positions[test])


def add_row(samples: Samples, columns: list[str], row: list[str], tests: set[str], position: str) -> None:
    if len(row) != len(columns):
        raise ReadError(f"{len(row)} columns instead of {len(columns)}", position, "the file may be cut off")
    test = row[0]
    if columns is not FIRST and test in tests:
        raise ReadError(
            f"the test {test[:60]!r} is there twice", position, "keep one, or repeat the line of names before it"
        )
    if not test.isprintable() or not 0 < len(test) <= LONGEST_TEST:
        raise ReadError("this is no name of a test", position)
    tests.add(test)
    for column, text in zip(columns[1:], row[1:], strict=True):
        if not is_number(text):
            raise ReadError(f"{column[:40]} is {text[:40]!r}, no number that can have been measured", position)
        if column in COLUMNS:
            samples.setdefault((test, column), []).append(float(text))


READER = ToolReader("redis-benchmark", "redis-benchmark or valkey-benchmark, --csv", recognises, gather)
