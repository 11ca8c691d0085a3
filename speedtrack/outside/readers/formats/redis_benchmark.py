"""redis-benchmark and valkey-benchmark, ``--csv``: one row per test. Several tables are repeats.

The shortest and the longest latency are left out: the extremes of one run hardly predict the next.
"""

import re
from collections.abc import Iterator

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import THROUGHPUT, Measure, time
from speedtrack.outside.readers.nodes import Node
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
BEGIN = re.compile(r'"test","rps"|".+","(\d{1,20}\.\d{1,10}|-?(nan|inf))"$')
MOST_NODES = 2100  # lines about a cluster that may stand before the table: a cluster has at most 1,000 primaries


def recognises(file: File) -> bool:
    first = next((line for line in file.readable_lines[:MOST_NODES] if line.startswith('"')), "")
    return BEGIN.match(first) is not None


def rows(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each row after its position. Before the first one there may be lines about a cluster."""
    is_table = False
    for number, line in enumerate(lines, 1):
        is_table = is_table or line.startswith('"')
        if is_table and line.strip():
            yield f"line {number}", line.strip()


def row_of(line: str, position: str) -> list[str]:
    """The columns of a row. The name of a test may contain quotes, which redis-benchmark does not double."""
    if len(line) < 2 or not line[0] == line[-1] == '"':
        raise ReadError("no row of a table", position, "the file may be cut off")
    return line[1:-1].replace('""', '"').split('","')


def gather(file: File, reading: FileResults) -> None:
    samples: Samples = {}
    positions: dict[str, str] = {}
    columns, tests = FIRST, set[str]()  # before version 6.2 there was no header line
    for position, line in rows(file.lines):
        with reading.part():
            row = row_of(line, position)
            if row[:2] == FIRST:
                columns, tests = row, set()
            else:
                check_row(columns, row, tests, position)
                positions.setdefault(row[0], position)
                add_row(samples, columns, row, position, reading)
    for (test, column), numbers in samples.items():
        reading.add(FileBenchmark(test), COLUMNS[column], numbers, FileOrigin(), positions[test])


def check_row(columns: list[str], row: list[str], tests: set[str], position: str) -> None:
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


def add_row(samples: Samples, columns: list[str], row: list[str], position: str, reading: FileResults) -> None:
    for column, text in zip(columns[1:], row[1:], strict=True):
        if column in COLUMNS and (value := reading.amount(Node(text, f"{position}, {column}"))) is not None:
            samples.setdefault((row[0], column), []).append(value)


READER = ToolReader("redis-benchmark", "redis-benchmark or valkey-benchmark, --csv", recognises, gather)
