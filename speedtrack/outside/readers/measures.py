"""The measures here that correspond to units of other tools.

Times are in nanoseconds, sizes in bytes and rates per second, whatever the file's unit: so files of several tools fit
into one project, whose metrics have one unit each, and pages can show 3 µs next to 3 ms.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Better = Literal["higher", "lower"]
LONGEST_UNIT, LONGEST_METRIC = 20, 60  # as in the native document

NS = {
    name: Decimal(factor)
    for names, factor in (
        ("ns nsec nanosecond nanoseconds", "1"),
        ("us µs μs usec microsecond microseconds", "1e3"),
        ("ms msec millisecond milliseconds", "1e6"),
        ("s sec second seconds", "1e9"),
        ("min minute minutes", "6e10"),
        ("hr hour hours", "3.6e12"),
        ("day days", "8.64e13"),
    )
    for name in names.split()
}
BYTES = {
    name: Decimal(factor)
    for names, factor in (
        ("B byte bytes", 1),
        ("kB KB kilobyte kilobytes", 10**3),
        ("MB megabyte megabytes", 10**6),
        ("GB gigabyte gigabytes", 10**9),
        ("KiB kibibyte kibibytes", 2**10),
        ("MiB mebibyte mebibytes", 2**20),
        ("GiB gibibyte gibibytes", 2**30),
    )
    for name in names.split()
}
UNNAMED = "value"
PER_ONE = re.compile(r" ?/ ?(op|iter|ops|iteration)$")
PER_TIME = re.compile(rf"(.*?) ?/ ?({'|'.join(NS)})")
REQUESTS = ("req", "reqs", "request", "requests")
OPERATIONS = ("op", "ops", "operation", "operations", "iter", "iters", "iterations")


@dataclass(frozen=True)
class Measure:
    """A metric in its stored form. ``better``: None if unknown. ``factor``: from the file's unit to ``unit``."""

    metric: str
    unit: str
    better: Better | None
    factor: Decimal = Decimal(1)


def time(metric: str, unit: str) -> Measure:
    """A time in one of the units of NS."""
    return Measure(metric, "ns", "lower", NS[unit])


TIME = time("time", "ns")
TIME_S = time("time", "s")
MEMORY = Measure("memory", "bytes", "lower")
PEAK_MEMORY = Measure("peak_memory", "bytes", "lower")
THROUGHPUT = Measure("throughput", "requests/s", "higher")
RATE = Measure("rate", "ops/s", "higher")
BANDWIDTH = Measure("bandwidth", "bytes/s", "higher")
ALLOCATED = Measure("allocated", "bytes", "lower")
ALLOCATIONS = Measure("allocations", "allocs/op", "lower")


def stated_measure(unit: str, stated: Better | None) -> Measure:
    """The measure of a unit for which the author has stated the better direction.

    If that contradicts a known unit, the statement counts: the unit itself is then the metric.
    """
    measure = known_unit(unit)
    if measure is None or (stated and measure.better != stated):
        return Measure(unit or UNNAMED, unit, stated)
    return measure


def known_unit(unit: str) -> Measure | None:
    """The measure of a unit that determines it; None for other units."""
    plain = PER_ONE.sub("", unit)
    if plain in NS:
        return Measure("time", "ns", "lower", NS[plain])
    if unit in ("B/op", "B/iter"):
        return ALLOCATED
    if plain in BYTES:
        return Measure("memory", "bytes", "lower", BYTES[plain])
    if plain == "allocs":
        return ALLOCATIONS
    return rate_of(unit)


def factor_between(unit: str, other: str) -> Decimal | None:
    """What values in a unit are multiplied by to be in another; None if these are not known to be of one dimension."""
    if unit == other:
        return Decimal(1)
    measure, other_measure = known_unit(unit), known_unit(other)
    if measure is None or other_measure is None or measure.unit != other_measure.unit:
        return None
    return measure.factor / other_measure.factor


def scaled(value: float, factor: Decimal) -> float:
    """A value in another unit, computed in decimal so that 0.1 ms is exactly 100000 ns."""
    return value if factor == 1 else float(Decimal(repr(value)) * factor)


def rate_of(unit: str) -> Measure | None:
    match = PER_TIME.fullmatch(unit)
    if match is None:
        return None
    quantity, each_second = match[1], Decimal(10**9) / NS[match[2]]
    if quantity in REQUESTS:
        return Measure("throughput", "requests/s", "higher", each_second)
    if quantity in OPERATIONS:
        return Measure("rate", "ops/s", "higher", each_second)
    if quantity in BYTES:
        return Measure("bandwidth", "bytes/s", "higher", each_second * BYTES[quantity])
    return Measure(f"{quantity}/s", f"{quantity}/s", "higher", each_second) if quantity else None
