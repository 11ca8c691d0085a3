"""The cost of a call: time by the clock, CPU time of this process and of PostgreSQL, number of queries."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from django.db import connection

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Of each of ``calls`` calls: milliseconds by the clock; of all together: CPU milliseconds and queries."""

    clock_ms: list[float]
    web_cpu_ms: float
    database_cpu_ms: float
    queries: int

    @property
    def calls(self) -> int:
        return len(self.clock_ms)

    @property
    def p50(self) -> float:
        return median(self.clock_ms)

    @property
    def p95(self) -> float:
        return sorted(self.clock_ms)[max(0, -(-self.calls * 95 // 100) - 1)]

    @property
    def cpu(self) -> float:
        """CPU milliseconds of a call."""
        return (self.web_cpu_ms + self.database_cpu_ms) / self.calls

    @property
    def queries_each(self) -> float:
        return self.queries / self.calls

    @property
    def seconds(self) -> float:
        return sum(self.clock_ms) / 1000


def postgresql_ms() -> float:
    """CPU time of the process that serves this connection, and of the parallel workers that have ended."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    own = stat_fields(pid)
    postmaster = stat_fields(int(own[1]))
    return sum(map(int, [*own[11:13], *postmaster[13:15]])) * TICK_MS


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@contextmanager
def counted_queries() -> Iterator[list[str]]:
    """The statements that this process sends meanwhile."""
    statements: list[str] = []

    def count(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        statements.append(sql)
        return execute(sql, *arguments)

    with connection.execute_wrapper(count):
        yield statements


def cost_of(calls: Sequence[Callable[[], object]], warm: bool = True) -> Cost:
    """``warm``: the first call is made once more before."""
    if warm:
        calls[0]()
    clock = []
    database, web = postgresql_ms(), process_time()
    with counted_queries() as statements:
        for call in calls:
            began_at = perf_counter()
            call()
            clock.append(1000 * (perf_counter() - began_at))
    web, database = 1000 * (process_time() - web), postgresql_ms() - database
    return Cost(clock, web, database, len(statements))


def together(costs: Sequence[Cost]) -> Cost:
    """Several measurements of the same thing as one."""
    return Cost(
        [ms for cost in costs for ms in cost.clock_ms],
        sum(cost.web_cpu_ms for cost in costs),
        sum(cost.database_cpu_ms for cost in costs),
        sum(cost.queries for cost in costs),
    )
