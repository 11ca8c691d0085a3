"""The metrics of benchmarks: units, better direction, smallest effect that matters, and flags that void a value."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any


class Direction(StrEnum):
    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True)
class Metric:
    """``smallest_effect`` is a ratio (0.01 = 1%); a suite may set its own. ``watched``: a change may raise an alert.

    ``voided_by``: flags of a trial that make this metric useless. If the driver is at its limit, for instance, the
    throughput is the driver's, but the CPU time per request is still the server's. ``exact``: the metric has no noise,
    so one sample is enough. ``counted``: a count of instructions in fresh processes, which the load of the machine does
    not change; a suspicion is settled by counting both sides again, and its smallest effect is at least the difference
    between two processes of one build. ``steady_effect``: the lowest possible smallest effect, for machines whose A/A
    pairs show changes below ``smallest_effect``.
    """

    name: str
    title: str
    unit: str
    better: Direction
    smallest_effect: float
    watched: bool
    voided_by: frozenset[str]
    exact: bool = False
    counted: bool = False
    steady_effect: float | None = None

    def is_worse(self, ratio: float) -> bool:
        """Return whether a value of ``ratio`` times the one before is a change for the worse."""
        return (ratio > 1) == (self.better == Direction.LOWER)

    @property
    def needs_no_trials(self) -> bool:
        """Return whether two single values can be compared: equal programs give values of nearly the same size."""
        return self.exact or self.counted

    @property
    def follows_floor(self) -> bool:
        """Return whether the smallest effect of a series depends on A/A runs of its machine."""
        return self.counted or self.steady_effect is not None


# A trial with wrong answers measured other work than the benchmark's.
OTHER_WORK = frozenset({"errors", "hit_rate", "key_count"})
# The same work took a different time: another clock frequency, no steady state yet, paging, a machine that slept.
VOIDS_CPU = frozenset({"steal", "unsteady", "no_steady_state", "frequency", "paging", "suspended"}) | OTHER_WORK
VOIDS_THROUGHPUT = VOIDS_CPU | {"delayed", "foreign", "client_bound", "clock"}
VOIDS_LATENCY = VOIDS_THROUGHPUT | {"client_delayed", "slipped"}

OUTSIDE_EFFECT = 0.03  # of a metric from outside, unless its project sets another
LONGEST_KEY = 100  # as Series.metric
OUTSIDE_KEY = re.compile(r"((?:\w|-[0-9A-F]{2})+)--((?:\w|-[0-9A-F]{2})*)--(higher|lower)", re.ASCII)


def outside_key(name: str, unit: str, better: Direction) -> str:
    """The name under which a metric from outside is stored and addressed: it encodes the whole definition.

    So every process can read it without the database, equal metrics of several projects can be compared, and a metric
    with another unit or direction is another metric. Letters, digits and ``_`` stay, all other bytes become ``-`` and
    two hexadecimal digits: so the key fits into addresses.
    """
    return f"{escaped(name)}--{escaped(unit)}--{better}"


def escaped(text: str) -> str:
    return "".join(
        chr(byte) if byte < 128 and (chr(byte).isalnum() or byte == ord("_")) else f"-{byte:02X}"
        for byte in text.encode()
    )


def unescaped(text: str) -> str:
    return re.sub(rb"-([0-9A-F]{2})", lambda match: bytes([int(match[1], 16)]), text.encode()).decode()


@lru_cache(maxsize=2000)
def outside_metric(key: str) -> Metric | None:
    """The metric from outside with this key; None if it is not a valid key."""
    match = OUTSIDE_KEY.fullmatch(key)
    if match is None:
        return None
    try:
        name, unit = unescaped(match[1]), unescaped(match[2])
    except UnicodeDecodeError:
        return None
    return Metric(key, name, unit, Direction(match[3]), OUTSIDE_EFFECT, True, frozenset())


def is_outside(key: str) -> bool:
    return outside_metric(key) is not None


class Metrics(dict[str, Metric]):
    """Metrics by name: a list of the runners' metrics, and metrics from outside, which it reads from their keys."""

    def __missing__(self, key: str) -> Metric:
        metric = outside_metric(key)
        if metric is None:
            raise KeyError(key)
        return metric

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and outside_metric(key) is not None)

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def among(self, names: Iterable[str]) -> list[Metric]:
        """The metrics with these names, in the order of pages."""
        distinct = set(names)
        own = [metric for metric in self.values() if metric.name in distinct]
        return own + sorted((self[name] for name in distinct - self.keys()), key=lambda metric: metric.title)


METRICS = Metrics(
    (m.name, m)
    for m in (
        Metric("server_cpu_ns_per_request", "Server CPU per request", "ns", Direction.LOWER, 0.01, True, VOIDS_CPU),
        Metric(
            "instructions_per_request",
            "Instructions per request",
            "",
            Direction.LOWER,
            0.01,
            True,
            OTHER_WORK,
            steady_effect=0.002,
        ),
        Metric("cycles_per_request", "Cycles per request", "", Direction.LOWER, 0.01, False, VOIDS_CPU),
        # These are measured once per run, so pairs cannot confirm a change.
        Metric(
            "callgrind_instructions_per_request",
            "Instructions per request (callgrind)",
            "",
            Direction.LOWER,
            0.05,
            False,
            frozenset(),
        ),
        Metric(
            "counted_instructions_per_request",
            "Instructions per request (counted)",
            "",
            Direction.LOWER,
            0.002,
            True,
            frozenset(),
            counted=True,
        ),
        Metric("throughput_rps", "Throughput", "requests/s", Direction.HIGHER, 0.03, True, VOIDS_THROUGHPUT),
        Metric("latency_us_p50", "Latency p50", "µs", Direction.LOWER, 0.05, False, VOIDS_LATENCY),
        Metric("latency_us_p99", "Latency p99", "µs", Direction.LOWER, 0.10, False, VOIDS_LATENCY),
        Metric("server_user_ns_per_request", "Server CPU in user mode", "ns", Direction.LOWER, 0.05, False, VOIDS_CPU),
        Metric(
            "server_system_ns_per_request", "Server CPU in the kernel", "ns", Direction.LOWER, 0.05, False, VOIDS_CPU
        ),
        Metric(
            "context_switches_per_request",
            "Context switches per request",
            "",
            Direction.LOWER,
            0.05,
            False,
            VOIDS_THROUGHPUT,
        ),
        Metric("bytes_per_key", "Memory per key", "bytes", Direction.LOWER, 0.02, False, frozenset({"paging"})),
        Metric("peak_rss_bytes", "Peak memory", "bytes", Direction.LOWER, 0.02, True, frozenset({"paging"})),
        Metric("build_seconds", "Build time", "s", Direction.LOWER, 0.10, False, frozenset({"ccache"})),
        Metric("binary_bytes", "Binary size", "bytes", Direction.LOWER, 0.01, False, frozenset(), exact=True),
    )
)

HEADLINE = "server_cpu_ns_per_request"
COUNTED = [metric.name for metric in METRICS.values() if metric.counted]
INSTRUCTIONS = [*COUNTED, "instructions_per_request"]  # of a request, the most exact first
WATCHED = [metric.name for metric in METRICS.values() if metric.watched]
