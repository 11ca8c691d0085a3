"""How many rows PostgreSQL reads for a call, by its own plans: so growth is tested without a clock."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from django.db import connection, transaction

from speedtrack.web.tests.world import counted

COUNTERS = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")


def rows_read(call: Callable[[], object]) -> int:
    """The rows that the queries of a call read from tables and indexes, as on tables too large to be read whole."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with counted() as context:
        call()
    statements = [query["sql"] for query in context.captured_queries]
    return sum(rows_of(sql) for sql in statements if sql.lstrip().startswith(("SELECT", "WITH")))


def rows_of(sql: str) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + sql.replace("%", "%%"), [])
        document = cursor.fetchone()[0]
        cursor.execute("SET LOCAL enable_seqscan = on")
    (plan,) = json.loads(document) if isinstance(document, str) else document
    return sum(
        round(node["Actual Loops"] * sum(node.get(name, 0) for name in COUNTERS)) for node in scans(plan["Plan"])
    )


def scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Scan" in node["Node Type"] and node["Node Type"] not in ("Subquery Scan", "CTE Scan", "Function Scan"):
        yield node
    for inner in node.get("Plans", []):
        yield from scans(inner)
