"""The metrics: what is read off a benchmark, which way is better, and how small a change still matters."""

from dataclasses import dataclass
from enum import StrEnum


class Direction(StrEnum):
    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True)
class Metric:
    """``smallest_effect`` is a ratio (0.01 = 1%); a suite may set its own. ``watched``: a change may raise an alert.

    ``voided_by`` names the trial flags under which this metric says nothing: a driver at its limit hides the server's
    throughput, yet the server's CPU time per request stays what it was.
    """

    name: str
    title: str
    unit: str
    better: Direction
    smallest_effect: float
    watched: bool
    voided_by: frozenset[str]


# Wrong answers cost what wrong answers cost: nothing that was measured of them speaks of the benchmark.
OTHER_WORK = frozenset({"errors", "hit_rate", "key_count"})
VOIDS_THROUGHPUT = frozenset({"steal", "delayed", "unsteady", "client_bound", "clock"}) | OTHER_WORK
VOIDS_LATENCY = VOIDS_THROUGHPUT | {"client_delayed", "slipped"}

METRICS = {
    m.name: m
    for m in (
        Metric("server_cpu_ns_per_request", "Server CPU per request", "ns", Direction.LOWER, 0.01, True,
               frozenset({"steal", "unsteady"}) | OTHER_WORK),
        Metric("throughput_rps", "Throughput", "requests/s", Direction.HIGHER, 0.03, True, VOIDS_THROUGHPUT),
        Metric("latency_us_p50", "Latency p50", "µs", Direction.LOWER, 0.05, False, VOIDS_LATENCY),
        Metric("latency_us_p99", "Latency p99", "µs", Direction.LOWER, 0.10, False, VOIDS_LATENCY),
        Metric("peak_rss_bytes", "Peak memory", "bytes", Direction.LOWER, 0.02, True, frozenset()),
    )
}  # fmt: skip

HEADLINE = "server_cpu_ns_per_request"
