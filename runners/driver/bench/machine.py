"""The facts of the machine, and how much other processes used it."""

import hashlib
import os
import platform
import re
import subprocess
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

# Above these shares of the two cores, ratios of rates are unreliable; ratios of CPU time suffer less.
FOREIGN_LIMIT = 0.03
STEAL_LIMIT = 0.01
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT, _STEAL = 3, 4, 7


def two_cores() -> tuple[int, int]:
    """A CPU for the servers and one for the clients, on different cores where there are two."""
    cpus = sorted(os.sched_getaffinity(0))
    candidates = [cpu for cpu in cpus if cpu not in _siblings(cpus[0])]
    if not candidates:
        raise SystemExit("bench: one core only: use a machine with two, or allow two (taskset)")
    return cpus[0], candidates[-1]


def _siblings(cpu: int) -> set[int]:
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    text = path.read_text() if path.exists() else str(cpu)
    ends = [(span.split("-") * 2)[:2] for span in text.strip().split(",")]
    return {cpu for first, last in ends for cpu in range(int(first), int(last) + 1)}


@dataclass(frozen=True)
class Clocks:
    """Seconds since boot that CPUs were busy, and that the hypervisor took from them."""

    at_s: float
    busy_s: float
    steal_s: float

    @classmethod
    def read(cls, cpus: Collection[int]) -> "Clocks":
        names = {f"cpu{cpu}" for cpu in cpus}
        rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        ticks = [[int(count) for count in row[1:9]] for row in rows if row[0] in names]
        idle = sum(row[_IDLE] + row[_IOWAIT] for row in ticks)
        steal = sum(row[_STEAL] for row in ticks)
        busy = sum(map(sum, ticks)) - idle - steal
        return cls(time.monotonic(), busy / _TICKS_PER_S, steal / _TICKS_PER_S)


@dataclass(frozen=True)
class Quiet:
    """Shares of the time of both cores between two readings."""

    foreign: float
    steal: float
    load_before: float
    load_after: float

    @classmethod
    def between(cls, before: Clocks, after: Clocks, own_s: float, load_before: float, cpus: int = 2) -> "Quiet":
        """`own_s`: CPU time of the benchmark itself, its servers and its clients."""
        span_s = (after.at_s - before.at_s) * cpus
        foreign = max(after.busy_s - before.busy_s - own_s, 0.0) / span_s
        return cls(foreign, (after.steal_s - before.steal_s) / span_s, load_before, os.getloadavg()[0])

    @property
    def is_quiet(self) -> bool:
        return self.foreign < FOREIGN_LIMIT and self.steal < STEAL_LIMIT


def facts(driver: Path, **peers: str | None) -> dict[str, str]:
    """The machine and the versions of the programs, by name; a peer that is None is not installed and left out."""
    values = {
        "processor": _cpuinfo("model name"),
        "kernel": platform.release(),
        "clock source": _text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "virtual": "yes" if "hypervisor" in _cpuinfo("flags") else "no",
        "redis-server": _version("redis-server"),
        "redis-benchmark": _version("redis-benchmark"),
        "memcached": _version("memcached"),
        "speedbench": _version(str(driver)) + ", sha256 " + hashlib.sha256(driver.read_bytes()).hexdigest()[:12],
    }
    return values | {name.replace("_", "-"): _version(program) for name, program in peers.items() if program}


def _text(path: str) -> str:
    return Path(path).read_text().strip() if Path(path).exists() else "unknown"


def _cpuinfo(key: str) -> str:
    match = re.search(rf"^{key}\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else "unknown"


def _version(program: str) -> str:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"\d+(\.\d+)+", output)
    return match[0] if match else "unknown"
