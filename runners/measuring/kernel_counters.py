"""The kernel's counters up to now, of the measured cores and of the measured processes.

A counter that this kernel does not keep, or that this user may not read, is None or missing, not an error and not 0.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from runners.processes.control import boottime
from runners.processes.cpu_time import ended_children_s, process_cpu_ns

PROC = Path("/proc")
Number = TypeVar("Number", int, float)
SYS = Path("/sys")
PAGING = ("pswpin", "pswpout")
PRESSURES = ("cpu", "memory", "io")

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TICK_S = 1 / _TICKS_PER_S  # the resolution of /proc/stat
_USER, _NICE, _SYSTEM, _STEAL = 1, 2, 3, 8  # columns of /proc/stat
_RUN_NS = 7  # of /proc/schedstat: the time that tasks have run on a CPU
_MAJOR_FAULTS = 9  # of /proc/PID/stat, counted after the name


@dataclass(frozen=True)
class Roots:
    """The directories of the kernel's files; tests read recorded machines from elsewhere."""

    proc: Path = PROC
    sys: Path = SYS


@dataclass(frozen=True)
class KernelCounters:
    """Counters at one moment: seconds since some fixed point, unless the name says otherwise.

    `driver_s` does not jump when the driver ends: it is its CPU time while it runs, and later that of ended children.
    """

    at_s: float
    asleep_s: float
    runner_s: float
    server_s: float | None
    driver_s: float
    steal_s: Mapping[int, float]
    busy_s: Mapping[int, float]
    busy_resolution_s: float
    delay_s: Mapping[int, float]
    pressure_s: Mapping[str, float]
    major_faults: int | None
    swapped_pages: int | None
    throttled: int | None
    frequency_mhz: float | None


@dataclass(frozen=True)
class CounterReader:
    """Reads the counters of these CPUs, and of servers and the driver while they exist."""

    cpus: frozenset[int]
    server_cpus: frozenset[int]
    roots: Roots = Roots()

    def read(self, servers: Sequence[int] = (), driver: int | None = None) -> KernelCounters:
        """All counters, now. Those of servers are summed up over all `servers`."""
        proc = self.roots.proc
        rows = _rows(proc / "stat")
        busy_s, resolution_s = self._busy(rows)
        return KernelCounters(
            at_s=time.monotonic(),
            asleep_s=boottime() - time.monotonic(),
            runner_s=time.process_time(),
            server_s=_known_sum([cpu_s(server) for server in servers]),
            driver_s=ended_children_s() + (cpu_s(driver) or 0.0),
            steal_s={cpu: int(row[_STEAL]) * TICK_S for cpu, row in self._of_cpus(rows).items() if len(row) > _STEAL},
            busy_s=busy_s,
            busy_resolution_s=resolution_s,
            delay_s={thread: s for server in servers for thread, s in delays(proc / str(server) / "task").items()},
            pressure_s=self._pressures(next(iter(servers), None)),
            major_faults=_known_sum([_major_faults(proc / str(server) / "stat") for server in servers]),
            swapped_pages=_swapped_pages(proc / "vmstat"),
            throttled=_sum(self._cpu_files("thermal_throttle/core_throttle_count")),
            frequency_mhz=_least_mhz(self._cpu_files("cpufreq/scaling_cur_freq")),
        )

    def _of_cpus(self, rows: Mapping[str, list[str]]) -> dict[int, list[str]]:
        return {cpu: rows[f"cpu{cpu}"] for cpu in self.cpus if f"cpu{cpu}" in rows}

    def _busy(self, rows: Mapping[str, list[str]]) -> tuple[dict[int, float], float]:
        """How long tasks have run on each CPU, from the finest source there is, and its resolution, both in seconds.

        Interrupts are left out where the kernel counts them separately: many belong to the server's own network
        traffic.
        """
        exact = self._busy_by_scheduler() or self._busy_by_cpuacct()
        if exact:
            return exact, 0.0
        ticks = {
            cpu: sum(int(row[column]) for column in (_USER, _NICE, _SYSTEM)) for cpu, row in self._of_cpus(rows).items()
        }
        return {cpu: count * TICK_S for cpu, count in ticks.items()}, TICK_S

    def _busy_by_scheduler(self) -> dict[int, float]:
        rows = self._of_cpus(_rows(self.roots.proc / "schedstat"))
        return {cpu: int(row[_RUN_NS]) / 1e9 for cpu, row in rows.items() if len(row) > _RUN_NS}

    def _busy_by_cpuacct(self) -> dict[int, float]:
        """The root control group (version 1): all tasks of the machine."""
        numbers = _text(self.roots.sys / "fs/cgroup/cpuacct/cpuacct.usage_percpu").split()
        return {cpu: int(numbers[cpu]) / 1e9 for cpu in self.cpus if cpu < len(numbers)}

    def _pressures(self, server: int | None) -> dict[str, float]:
        """`cpu_some`, `memory_full` and so on of the machine, and of the server's control group where it has one."""
        pressures_s: dict[str, float] = {}
        group = self._group(server)
        for resource in PRESSURES:
            files = {"": self.roots.proc / "pressure" / resource}
            if group:
                files["cgroup_"] = group / f"{resource}.pressure"
            for prefix, file in files.items():
                pressures_s |= {f"{prefix}{resource}_{kind}": one_s for kind, one_s in _pressure(file).items()}
        return pressures_s

    def _group(self, server: int | None) -> Path | None:
        """The control group (version 2) of the server; None if it is the root group, which is the whole machine."""
        lines = _text(self.roots.proc / str(server) / "cgroup").splitlines() if server else []
        path = next((line.removeprefix("0::") for line in lines if line.startswith("0::/")), "/").strip("/")
        return self.roots.sys / "fs/cgroup" / path if path else None

    def _cpu_files(self, name: str) -> list[float]:
        texts = (_text(self.roots.sys / f"devices/system/cpu/cpu{cpu}" / name) for cpu in self.server_cpus)
        return [float(text) for text in texts if text.strip().isdigit()]


def cpu_s(pid: int | None) -> float | None:
    """CPU seconds of a process so far, all threads; None if there is no such process."""
    try:
        return None if pid is None else process_cpu_ns(pid) / 1e9
    except OSError:
        return None


def delays(tasks: Path) -> dict[int, float]:
    """How long each thread was ready but not running, in seconds; empty where the kernel does not count it."""
    seconds = {}
    for task in tasks.glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            seconds[int(task.name)] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return seconds


def _text(file: Path) -> str:
    """The content; empty if it cannot be read. If PSI is switched off, reading fails, not opening."""
    try:
        return file.read_text()
    except OSError:
        return ""


def _rows(file: Path) -> dict[str, list[str]]:
    rows = (line.split() for line in _text(file).splitlines() if line.startswith("cpu"))
    return {row[0]: row for row in rows}


def _pressure(file: Path) -> dict[str, float]:
    """The seconds by kind, from `some avg10=0.00 avg60=0.00 avg300=0.00 total=77016616`."""
    lines = (line.split() for line in _text(file).splitlines())
    return {fields[0]: int(fields[-1].partition("=")[2]) / 1e6 for fields in lines if fields}


def _major_faults(stat: Path) -> int | None:
    fields = _text(stat).rpartition(")")[2].split()
    return int(fields[_MAJOR_FAULTS]) if len(fields) > _MAJOR_FAULTS else None


def _swapped_pages(vmstat: Path) -> int | None:
    lines = (line.split() for line in _text(vmstat).splitlines())
    return _sum([float(fields[1]) for fields in lines if fields[0] in PAGING])


def _known_sum(numbers: Sequence[Number | None]) -> Number | None:
    """The sum; None if there are none, or one is not known."""
    values = [number for number in numbers if number is not None]
    return sum(values[1:], values[0]) if values and len(values) == len(numbers) else None


def _sum(numbers: Iterable[float]) -> int | None:
    values = list(numbers)
    return int(sum(values)) if values else None


def _least_mhz(khz: list[float]) -> float | None:
    return min(khz) / 1000 if khz else None
