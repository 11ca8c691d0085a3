"""Write many rows at once, by COPY: numpy columns in PostgreSQL's binary format, or Python rows as text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from django.db import connection

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
BLOCK = 1 << 22
Array = np.ndarray[Any, np.dtype[Any]]


class Column(NamedTuple):
    """``kind`` is a big-endian numpy type, as PostgreSQL sends it; ``values`` one value, or one for each row."""

    kind: str
    values: Any


def integers(values: Any) -> Column:
    return Column(">i4", values)


def smallints(values: Any) -> Column:
    return Column(">i2", values)


def ids(values: Any) -> Column:
    return Column(">i8", values)


def floats(values: Any) -> Column:
    return Column(">f8", values)


def flags(values: Any) -> Column:
    return Column("u1", values)


def constant(value: bytes) -> Column:
    """The same bytes in each row: a text, a JSON document (with a 1 before it), an array."""
    return Column(f"V{len(value)}", np.void(value))


def head_of_array(kind: int, length: int) -> bytes:
    """What precedes the elements, each of which follows its number of bytes. ``kind``: the oid of their type.

    These are the number of dimensions, 0 for no nulls, the type, the length, and the first index.
    """
    return b"".join(number.to_bytes(4, "big") for number in (1, 0, kind, length, 1))


def array_of_smallints(numbers: Sequence[int]) -> bytes:
    return head_of_array(21, len(numbers)) + b"".join(b"\0\0\0\2" + number.to_bytes(2, "big") for number in numbers)


def arrays_of_floats(values: Array) -> Column:
    """An array of each row of a matrix."""
    rows, length = values.shape
    head = head_of_array(701, length)
    block = np.zeros(
        rows, dtype=[("head", f"V{len(head)}"), ("elements", [("bytes", ">i4"), ("value", ">f8")], length)]
    )
    block["head"] = np.void(head)
    block["elements"]["bytes"], block["elements"]["value"] = 8, values
    return Column(f"V{block.dtype.itemsize}", block.view(f"V{block.dtype.itemsize}").reshape(rows))


def copy_columns(table: str, columns: Mapping[str, Column], rows: int) -> None:
    """Append rows whose columns all have a fixed width. Columns that are left out must have a default, or be null."""
    kinds: list[tuple[str, str]] = [("fields", ">i2")]
    for name, column in columns.items():
        kinds += [(f"length of {name}", ">i4"), (name, column.kind)]
    block = np.zeros(rows, dtype=kinds)
    block["fields"] = len(columns)
    for name, column in columns.items():
        block[f"length of {name}"] = block.dtype[name].itemsize
        block[name] = column.values
    content = HEADER + block.tobytes() + TRAILER
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        for begin in range(0, len(content), BLOCK):
            copy.write(content[begin : begin + BLOCK])


def copy_rows(table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
    """Append rows of any width; JSON is given as text."""
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


TABLES = (
    *("projects_commit", "projects_delivery", "runs_run", "runs_attempt", "runs_runevent"),
    *("runs_build", "runs_logchunk", "runs_measurement", "runs_result"),
)


class Ids:
    """The ids that rows get: in each of TABLES those behind its largest one."""

    def __init__(self) -> None:
        # Now, since rows are numbered while they are copied, when the connection takes no other statement.
        self.before = {table: largest_id(table) for table in TABLES}
        self.last: dict[str, int] = {}

    def take(self, table: str, count: int) -> Array:
        first = self.last.get(table, self.before[table]) + 1
        self.last[table] = first + count - 1
        return np.arange(first, first + count)

    def hand_over(self) -> None:
        """Let the database's own sequences go on behind them."""
        with connection.cursor() as cursor:
            for table, last in self.last.items():
                cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, last])


def largest_id(table: str) -> int:
    """The largest id of a table; 0 if it is empty."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT coalesce(max(id), 0) FROM {table}")  # noqa: S608 - one of TABLES
        return int(cursor.fetchone()[0])
