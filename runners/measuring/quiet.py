"""The quiet gate: no trial begins before the measured cores are quiet, and none counts that was disturbed.

Every measure has its row in MEASURES: what it is, where its limit lies and why there, and the flag that it raises. One
that this machine does not offer is "unknown"; it raises nothing.
"""

import contextlib
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import TypeVar

from runners.machine.facts import UNKNOWN
from runners.machine.placement import Placement
from runners.measuring.readings import PROC, SYS, TICK_S, Reader, Reading, Roots
from runners.processes.children import affinity
from runners.processes.control import Control

TICK_EVERY_S = 0.25  # of the watcher: often enough to see a hole of a second, rarely enough to cost 0.2% of a core
LOOK_S = 0.2  # before a trial
BUSY_LIMIT = 0.05  # of a look, on a core that is for the measured alone: the runner itself takes 1%
SHARED_BUSY_LIMIT = 0.25  # on a core that the runner and the rest of the machine share by plan
SPIN_ROUNDS, SPINS = 500, 20  # about 0.1 ms each; the fastest of 20 has no interrupt in it
SPINS_KEPT, FEWEST_SPINS = 64, 8  # of the latest trials: what is usual on this machine

Measured = dict[str, float | str]


@dataclass(frozen=True)
class Measure:
    """What is read of a watched load. Above `limit` it raises `flag`; without a flag it is recorded only."""

    name: str
    unit: str
    read: str
    flag: str = ""
    limit: float = float("inf")
    why: str = "recorded only"


SHARE = "share of one core"
WINDOW = "share of the time"
MEASURES = {
    measure.name: measure
    for measure in (
        Measure("steal", WINDOW, "/proc/stat, the worst of the measured cores, less one clock tick", "steal", 0.02,
                "moves throughput by as much, which is more than a steady series scatters by"),
        Measure("delay", SHARE, "/proc/PID/task/*/schedstat of the server: ready without running; no more than others "
                "ran there (foreign_server), where that is known: its threads may wait for each other", "delayed", 0.02,
                "as for steal: the server wanted to run and another did"),
        Measure("foreign_server", SHARE, "what ran on the server's cores (/proc/schedstat, else cpuacct, else "
                "/proc/stat less one clock tick) less the server's CPU clock", "foreign", 0.02,
                "cools caches and fills the gaps of an open loop, where nobody waits for it"),
        Measure("foreign_driver", SHARE, "the same on the driver's cores; judged where housekeeping is elsewhere",
                "foreign", 0.05, "the driver has slack and tells its own waiting (client_delayed)"),
        Measure("slowness", "share", "fastest of 20 spins of hashing on the server's core, before and after, of which "
                "the lesser counts, against the median of the latest 64 trials (CPU time)", "frequency", 0.1,
                "a lower clock or a busy hardware sibling all along; a burst at one end tells little of the load"),
        Measure("throttled", "events", "thermal_throttle/core_throttle_count", "frequency", 0,
                "the processor was slowed down by heat in the middle of it"),
        Measure("frequency_mhz", "MHz", "scaling_cur_freq, the mean over the load"),
        Measure("major_faults", "faults", "/proc/PID/stat of the server", "paging", 10,
                "each waits for a disk, 0.1 to 10 ms; a few are code that is run the first time"),
        Measure("swapped_pages", "pages", "/proc/vmstat, in and out, the whole machine", "paging", 256,
                "a MiB: more is a machine short of memory"),
        Measure("memory_full", WINDOW, "/proc/pressure/memory: nobody could go on", "paging", 0.01,
                "reclaim stops whoever allocates, the server too"),
        Measure("suspended_s", "s", "CLOCK_BOOTTIME less CLOCK_MONOTONIC, or what a tick of the watcher came too late",
                "suspended", 1.0, "no load delays a tick so: the machine, or the runner, stood still"),
        *(Measure(f"{name}_{kind}", WINDOW, f"/proc/pressure/{name}")
          for name, kind in (("cpu", "some"), ("memory", "some"), ("io", "some"), ("io", "full"))),
        *(Measure(f"cgroup_{name}_some", WINDOW, f"{name}.pressure of the server's control group (version 2)")
          for name in ("cpu", "memory", "io")),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Waited:
    """How long a trial was held back; `gave_up`: something was still busy then. Of what, and the last look's values."""

    seconds: float
    gave_up: bool
    measures: Measured
    reason: str = ""

    def __str__(self) -> str:
        end = "went on all the same" if self.gave_up else "went on when it was quiet"
        return f"waited for {self.seconds:.1f} s because {self.reason}; {end}"


@dataclass(frozen=True)
class Findings:
    """What was over its limit (flag: the value), all that was read by the names of the measures, and why, in words."""

    flags: dict[str, float]
    measures: Measured
    reasons: tuple[str, ...] = ()


@dataclass
class Watch:
    """One watched load, read every quarter of a second. Its `findings` hold when the watch has ended."""

    placement: Placement
    readings: list[Reading]
    slowness: float | str = UNKNOWN
    window: tuple[float, float] = (float("-inf"), float("inf"))

    @property
    def findings(self) -> Findings:
        """Of the window; the readings nearest to its ends, outside of it, are taken for them."""
        begin_s, end_s = self.window
        first = max((at for at, one in enumerate(self.readings) if one.at_s <= begin_s), default=0)
        last = min((at for at, one in enumerate(self.readings) if one.at_s >= end_s), default=len(self.readings) - 1)
        values = measured(self.readings[first : last + 1], self.placement) | {"slowness": self.slowness}
        return judge(values, self.placement)


@dataclass
class Memory:
    """What a gate knows of the machine from trials before, also those of other runs on other cores of it."""

    left_s: float = float("inf")  # of patience
    spins_ns: deque[int] = field(default_factory=lambda: deque(maxlen=SPINS_KEPT))


@dataclass(frozen=True)
class Gate:
    """Waits for a quiet machine before a trial and tells whether it stayed so.

    A machine that stayed busy for the whole of `patience_s` is waited for half as long the next time, so that one which
    is never quiet costs little; patience returns with quiet.
    """

    placement: Placement
    proc: Path = PROC
    sys: Path = SYS
    patience_s: float = 10.0
    memory: Memory = field(default_factory=Memory)

    def await_quiet(self, control: Control) -> Waited:
        """Returns when the measured cores are quiet, or patience ends. Raises the error of an abort."""
        began = time.monotonic()
        patience_s = min(self.patience_s, self.memory.left_s)
        reasons: list[str] = []
        while True:
            measures = self._look(control)
            reason = self._busy(measures)
            waited_s = time.monotonic() - began
            if not reason or waited_s >= patience_s:
                break
            reasons.append(reason)
        self.memory.left_s = max(LOOK_S, patience_s / 2) if reason else float("inf")
        return Waited(round(waited_s, 3), bool(reason), measures, reason or next(iter(reasons), ""))

    @contextlib.contextmanager
    def watch(self, server_pid: int, driver_pid: Callable[[], int | None] = lambda: None) -> Iterator[Watch]:
        """Reads the machine from here to the end of the block. `driver_pid` is asked all along."""

        def read() -> Reading:
            return self._reader.read(server_pid, driver_pid())

        before_ns = self._spin_ns()
        watch, ended = Watch(self.placement, [read()]), threading.Event()

        def tick() -> None:
            while not ended.wait(TICK_EVERY_S):
                watch.readings.append(read())

        watcher = threading.Thread(target=tick, name="quiet", daemon=True)
        watcher.start()
        try:
            yield watch
        finally:
            ended.set()
            watcher.join()
            watch.readings.append(read())
            # Bursts of a neighbour are shorter than a load: one that meets a spin says nothing of what lies between.
            watch.slowness = self._slowness(min(before_ns, self._spin_ns()))

    @property
    def _reader(self) -> Reader:
        return Reader(self.placement.server | self.placement.driver, self.placement.server, Roots(self.proc, self.sys))

    def _look(self, control: Control) -> Measured:
        before = self._reader.read()
        control.sleep(LOOK_S)
        after = self._reader.read()
        return {name: value for name, value in measured([before, after], self.placement).items() if name in LOOKED_AT}

    def _busy(self, measures: Measured) -> str:
        """What is over the limit of a look, in words."""
        limits = dict.fromkeys(LOOKED_AT, BUSY_LIMIT)
        if shares_driver(self.placement):
            limits["foreign_driver"] = SHARED_BUSY_LIMIT
        over = {name: float(measures[name]) for name, limit in limits.items() if exceeds(measures[name], limit)}
        return ", ".join(f"{LOOKED_AT[name]} for {value:.0%} of a look" for name, value in over.items())

    def _spin_ns(self) -> int:
        """CPU time of a fixed piece of work on the slowest of the server's cores."""
        return max(spin_ns(cpu) for cpu in self.placement.server)

    def _slowness(self, faster_ns: int) -> float | str:
        self.memory.spins_ns.append(faster_ns)
        return slowness(self.memory.spins_ns)


LOOKED_AT = {
    "steal": "the hypervisor took a measured core",
    "foreign_server": "the server's core was busy",
    "foreign_driver": "the driver's core was busy",
}


def worst(several: Sequence[Mapping[str, float | str]]) -> Measured:
    """The greatest value of each measure, where one is known; of the frequency the least."""
    found: Measured = {}
    for name in MEASURES:
        known = [float(measures[name]) for measures in several if measures.get(name, UNKNOWN) != UNKNOWN]
        found[name] = (min if name == "frequency_mhz" else max)(known) if known else UNKNOWN
    return found


def judge(measures: Measured, placement: Placement) -> Findings:
    """The flags of what is over its limit, beside all measures by name."""
    values = {name: measures.get(name, UNKNOWN) for name in MEASURES}
    flags: dict[str, float] = {}
    reasons = []
    for name, value in values.items():
        measure = MEASURES[name]
        judged = measure.flag and not (name == "foreign_driver" and shares_driver(placement))
        if judged and exceeds(value, measure.limit):
            flags.setdefault(measure.flag, float(value))
            reasons.append(f"{measure.flag}: {name} is {value:g} ({measure.unit}), the limit {measure.limit:g}")
    return Findings(flags, values, tuple(reasons))


def shares_driver(placement: Placement) -> bool:
    """Whether the plan lets the runner and the rest of the machine use the driver's cores, too."""
    return bool(placement.driver & placement.housekeeping)


def exceeds(value: float | str, limit: float) -> bool:
    """Whether a value is known and above its limit."""
    return value != UNKNOWN and float(value) > limit


def spin_ns(cpu: int) -> int:
    """CPU time of the fastest of some rounds of hashing on this CPU: its clock, and nothing of memory or the kernel."""
    with affinity(frozenset({cpu})):
        return min(_spin() for _ in range(SPINS))


def slowness(spins_ns: Sequence[int]) -> float | str:
    """How much longer than usual the newest of these spins took, as a share; unknown while little is usual.

    Usual is the median, not the best: a core that rested is faster for a moment than it ever works.
    """
    return round(spins_ns[-1] / median(spins_ns) - 1, 4) if len(spins_ns) >= FEWEST_SPINS else UNKNOWN


def _spin() -> int:
    begin = time.thread_time_ns()
    hashlib.pbkdf2_hmac("sha256", b"speed", b"track", SPIN_ROUNDS)
    return time.thread_time_ns() - begin


def measured(readings: list[Reading], placement: Placement) -> Measured:
    """What happened between the first and the last reading, as far as it is known. Without the spins."""
    first, last = readings[0], readings[-1]
    window_s = max(last.at_s - first.at_s, 1e-9)
    foreign_s = _foreign_s(first, last, placement, placement.server)
    spent_s = {
        "steal": max((one - TICK_S for one in _growth(first.steal_s, last.steal_s).values()), default=None),
        "delay": _delay_s(first, last, foreign_s),
        "foreign_server": foreign_s,
        "foreign_driver": _foreign_s(first, last, placement, placement.driver),
        **_growth(first.pressure_s, last.pressure_s),
    }
    shares = {name: None if one_s is None else round(max(0.0, one_s) / window_s, 5) for name, one_s in spent_s.items()}
    latest_s = max((after.at_s - before.at_s - TICK_EVERY_S for before, after in pairwise(readings)), default=0.0)
    frequencies_mhz = [one.frequency_mhz for one in readings if one.frequency_mhz is not None]
    counts = {
        "throttled": _difference(first.throttled, last.throttled),
        "frequency_mhz": round(fmean(frequencies_mhz), 1) if frequencies_mhz else None,
        "major_faults": _difference(first.major_faults, last.major_faults),
        "swapped_pages": _difference(first.swapped_pages, last.swapped_pages),
        "suspended_s": round(max(0.0, latest_s) + last.asleep_s - first.asleep_s, 3),
    }
    values = {name: value for name, value in (shares | counts).items() if name in MEASURES}
    return {name: UNKNOWN if value is None else value for name, value in values.items()}


def _delay_s(first: Reading, last: Reading, foreign_s: float | None) -> float | None:
    """How long the server's threads waited for others than each other; None where it cannot be told."""
    delays_s = _growth(first.delay_s, last.delay_s)
    if not delays_s:
        return None
    return min(sum(delays_s.values()), float("inf") if foreign_s is None else foreign_s)


def _foreign_s(first: Reading, last: Reading, placement: Placement, cpus: frozenset[int]) -> float | None:
    """What ran on these CPUs that neither was measured nor measures; None where it cannot be told."""
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
