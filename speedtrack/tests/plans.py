"""How many rows PostgreSQL reads for a call, by its own plans: so growth is tested without a clock."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

COUNTERS = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")


@dataclass(frozen=True)
class Reading:
    """A statement, and the rows that it reads from tables and indexes."""

    sql: str
    rows: int


def rows_read(call: Callable[[], object]) -> int:
    """The rows that the queries of a call read from tables and indexes, as on tables too large to be read whole."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return sum(reading.rows for reading in readings_of(call))


def readings_of(call: Callable[[], object]) -> list[Reading]:
    """What each query of a call reads. Each is sent again, with the same parameters, once the call is over."""
    sent: list[tuple[str, Any]] = []

    def note(execute: Callable[..., Any], sql: str, parameters: Any, *rest: Any) -> Any:
        sent.append((sql, parameters))
        return execute(sql, parameters, *rest)

    with connection.execute_wrapper(note):
        call()
    queries = [(sql, parameters) for sql, parameters in sent if sql.lstrip().startswith(("SELECT", "WITH"))]
    return [Reading(sql, rows_of(sql, parameters)) for sql, parameters in queries]


def rows_of(sql: str, parameters: Any = None) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", parameters)
        document = cursor.fetchone()[0]
        cursor.execute("SET LOCAL enable_seqscan = on")
    (plan,) = json.loads(document) if isinstance(document, str) else document
    return sum(
        round(node["Actual Loops"] * sum(node.get(name, 0) for name in COUNTERS)) for node in scans(plan["Plan"])
    )


def scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a plan that read tables or indexes.

    A bitmap of an index counts the dead rows that earlier tests left, too. The scan of the table above it counts the
    living ones, but for what several bitmaps have in common.
    """
    if "Scan" in node["Node Type"] and node["Node Type"] not in ("Subquery Scan", "CTE Scan", "Function Scan"):
        yield node
    for inner in node.get("Plans", []):
        if inner["Node Type"] != "Bitmap Index Scan" or node["Node Type"] == "BitmapAnd":
            yield from scans(inner)
