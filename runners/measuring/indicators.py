"""Indicators of disturbances of a load, with their limits and flags, and their values between two readings.

An indicator that this machine does not offer is "unknown", and raises no flag.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TypeVar

from runners.machine.facts import UNKNOWN
from runners.machine.placement import Placement
from runners.measuring.kernel_counters import TICK_S, KernelCounters

READ_EVERY_S = 0.25  # while a load is watched: often enough to see a gap of a second, at a cost of 0.2% of a core

IndicatorValues = dict[str, float | str]


@dataclass(frozen=True)
class Indicator:
    """An indicator of a watched load. Above `limit` it raises `flag`; without a flag it is only recorded."""

    name: str
    unit: str
    source: str
    flag: str = ""
    limit: float = float("inf")
    reason: str = "recorded only"


CORE = "share of one core"
TIME = "share of the time"
_ALL = (
    Indicator(
        "steal",
        TIME,
        source="/proc/stat, the worst of the measured cores, less one clock tick",
        flag="steal",
        limit=0.02,
        reason="moves throughput by as much, which is more than the noise of a steady series",
    ),
    Indicator(
        "delay",
        CORE,
        source="/proc/PID/task/*/schedstat of the server: ready but not running; at most what others ran there "
        "(foreign_server), where that is known: its own threads may wait for each other",
        flag="delayed",
        limit=0.02,
        reason="as for steal: the server was ready to run and something else ran",
    ),
    Indicator(
        "foreign_server",
        CORE,
        source="what ran on the server's cores (/proc/schedstat, else cpuacct, else /proc/stat less one clock tick) "
        "less the CPU time of the server",
        flag="foreign",
        limit=0.02,
        reason="cools caches, and fills the gaps of an open loop, in which nothing waits for it",
    ),
    Indicator(
        "foreign_driver",
        CORE,
        source="the same on the driver's cores; checked only where they are not shared with housekeeping",
        flag="foreign",
        limit=0.05,
        reason="the driver has spare time, and reports its own waiting (client_delayed)",
    ),
    Indicator(
        "slowness",
        "share",
        source="the fastest of 20 rounds of hashing on the server's core (CPU time), the lesser of before and after, "
        "against the median of the latest 64 trials",
        flag="frequency",
        limit=0.1,
        reason="a lower clock or a busy hardware sibling all the time; a burst at one end says little about the load",
    ),
    Indicator(
        "throttled",
        "events",
        source="thermal_throttle/core_throttle_count",
        flag="frequency",
        limit=0,
        reason="the processor was slowed down because of heat during the load",
    ),
    Indicator("frequency_mhz", "MHz", source="scaling_cur_freq, the mean over the load"),
    Indicator(
        "major_faults",
        "faults",
        source="/proc/PID/stat of the server",
        flag="paging",
        limit=10,
        reason="each waits for a disk, 0.1 to 10 ms; a few are code that runs for the first time",
    ),
    Indicator(
        "swapped_pages",
        "pages",
        source="/proc/vmstat, in and out, the whole machine",
        flag="paging",
        limit=256,
        reason="1 MiB: with more the machine is short of memory",
    ),
    Indicator(
        "memory_full",
        TIME,
        source="/proc/pressure/memory: all tasks waited for memory",
        flag="paging",
        limit=0.01,
        reason="reclaim stops every task that allocates, including the server",
    ),
    Indicator(
        "suspended_s",
        "s",
        source="CLOCK_BOOTTIME less CLOCK_MONOTONIC, or the delay of a reading of the watcher",
        flag="suspended",
        limit=1.0,
        reason="no load delays a reading that much: the machine, or the runner, did not run",
    ),
    *(
        Indicator(f"{name}_{kind}", TIME, source=f"/proc/pressure/{name}")
        for name, kind in (("cpu", "some"), ("memory", "some"), ("io", "some"), ("io", "full"))
    ),
    *(
        Indicator(f"cgroup_{name}_some", TIME, source=f"{name}.pressure of the server's control group (version 2)")
        for name in ("cpu", "memory", "io")
    ),
)
INDICATORS = {indicator.name: indicator for indicator in _ALL}


@dataclass(frozen=True)
class Findings:
    """The flags of indicators above their limits, the values of all, and the reasons for the flags in words."""

    flags: dict[str, float]
    values: IndicatorValues
    reasons: tuple[str, ...] = ()


def check_limits(values: IndicatorValues, placement: Placement) -> Findings:
    """The findings for these values."""
    complete = {name: values.get(name, UNKNOWN) for name in INDICATORS}
    flags: dict[str, float] = {}
    reasons = []
    for name, value in complete.items():
        indicator = INDICATORS[name]
        is_checked = indicator.flag and not (name == "foreign_driver" and shares_driver(placement))
        if is_checked and exceeds(value, indicator.limit):
            flags.setdefault(indicator.flag, float(value))
            reasons.append(f"{indicator.flag}: {name} is {value:g} ({indicator.unit}), the limit {indicator.limit:g}")
    return Findings(flags, complete, tuple(reasons))


def shares_driver(placement: Placement) -> bool:
    """Whether the runner and the rest of the machine may use the driver's cores as well."""
    return bool(placement.driver & placement.housekeeping)


def exceeds(value: float | str, limit: float) -> bool:
    """Whether a value is known and above its limit."""
    return value != UNKNOWN and float(value) > limit


def indicator_values(readings: list[KernelCounters], placement: Placement) -> IndicatorValues:
    """The indicators between the first and the last reading, except slowness, which is not read from the kernel."""
    first, last = readings[0], readings[-1]
    window_s = max(last.at_s - first.at_s, 1e-9)
    foreign_s = _foreign_s(first, last, placement, placement.server)
    seconds = {
        "steal": max((growth_s - TICK_S for growth_s in _growth(first.steal_s, last.steal_s).values()), default=None),
        "delay": _delay_s(first, last, foreign_s),
        "foreign_server": foreign_s,
        "foreign_driver": _foreign_s(first, last, placement, placement.driver),
        **_growth(first.pressure_s, last.pressure_s),
    }
    shares = {name: None if one_s is None else round(max(0.0, one_s) / window_s, 5) for name, one_s in seconds.items()}
    late_s = max((after.at_s - before.at_s - READ_EVERY_S for before, after in pairwise(readings)), default=0.0)
    frequencies_mhz = [reading.frequency_mhz for reading in readings if reading.frequency_mhz is not None]
    counts = {
        "throttled": _difference(first.throttled, last.throttled),
        "frequency_mhz": round(fmean(frequencies_mhz), 1) if frequencies_mhz else None,
        "major_faults": _difference(first.major_faults, last.major_faults),
        "swapped_pages": _difference(first.swapped_pages, last.swapped_pages),
        "suspended_s": round(max(0.0, late_s) + last.asleep_s - first.asleep_s, 3),
    }
    values = {name: value for name, value in (shares | counts).items() if name in INDICATORS}
    return {name: UNKNOWN if value is None else value for name, value in values.items()}


def _delay_s(first: KernelCounters, last: KernelCounters, foreign_s: float | None) -> float | None:
    """Seconds that the server's threads waited for other processes; None if unknown."""
    delays_s = _growth(first.delay_s, last.delay_s)
    if not delays_s:
        return None
    return min(sum(delays_s.values()), float("inf") if foreign_s is None else foreign_s)


def _foreign_s(first: KernelCounters, last: KernelCounters, placement: Placement, cpus: frozenset[int]) -> float | None:
    """Seconds that these CPUs ran anything but the server, the driver and the runner; None if unknown."""
    owners = (
        (placement.server, _difference(first.server_s, last.server_s)),
        (placement.driver, last.driver_s - first.driver_s),
        (placement.housekeeping, last.runner_s - first.runner_s),
    )
    own_s = sum(used_s or 0.0 for where, used_s in owners if where & cpus)
    busy_s = _growth(first.busy_s, last.busy_s)
    if not cpus <= busy_s.keys():
        return None
    return sum(busy_s[cpu] for cpu in cpus) - own_s - last.busy_resolution_s


Key = TypeVar("Key")


def _growth(before: Mapping[Key, float], after: Mapping[Key, float]) -> dict[Key, float]:
    return {key: value - before.get(key, 0.0) for key, value in after.items()}


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
