"""Was the machine quiet during a trial? Time stolen by the host and run-queue delay of the server's threads."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

# A hypervisor that takes 2% of a window moves throughput by 2%: above what a steady series scatters by, so a trial
# with more would be a visible outlier; below it the median of five trials does not notice.
STEAL_LIMIT = 0.02
# The same for a server thread that was ready and had to wait for its core because something else ran there.
DELAY_LIMIT = 0.02

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STEAL_COLUMN = 8


@dataclass(frozen=True)
class Reading:
    """Counters at one moment; seconds since some fixed point, per CPU and per thread."""

    at_s: float
    steal_s: dict[int, float]
    delay_s: dict[int, float]


def read(pid: int, cpus: frozenset[int], proc: Path = PROC) -> Reading:
    """The counters of these CPUs and of the threads of this process, now."""
    return Reading(time.monotonic(), _steal(cpus, proc / "stat"), _delays(proc / str(pid) / "task"))


def disturbances(before: Reading, after: Reading) -> dict[str, float]:
    """What was above its limit between two readings: the flag, and the share of the window that was lost."""
    window_s = after.at_s - before.at_s
    if window_s <= 0:
        return {}
    steal = max(_growth(before.steal_s, after.steal_s), default=0.0) / window_s
    delay = sum(_growth(before.delay_s, after.delay_s)) / window_s
    found = {"steal": (steal, STEAL_LIMIT), "delayed": (delay, DELAY_LIMIT)}
    return {flag: share for flag, (share, limit) in found.items() if share > limit}


def _growth(before: dict[int, float], after: dict[int, float]) -> list[float]:
    return [value - before.get(key, 0.0) for key, value in after.items()]


def _steal(cpus: frozenset[int], stat: Path) -> dict[int, float]:
    wanted = {f"cpu{cpu}": cpu for cpu in cpus}
    rows = (line.split() for line in stat.read_text().splitlines() if line.startswith("cpu"))
    return {
        wanted[row[0]]: int(row[_STEAL_COLUMN]) / _TICKS_PER_S
        for row in rows
        if row[0] in wanted and len(row) > _STEAL_COLUMN
    }


def _delays(tasks: Path) -> dict[int, float]:
    """Seconds each thread was ready without running; empty where the kernel keeps no such account."""
    delays = {}
    for task in tasks.glob("[0-9]*"):
        try:
            delays[int(task.name)] = int((task / "schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            continue
    return delays
