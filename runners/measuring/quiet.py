"""The quiet gate: a trial begins when the measured cores are quiet, and is flagged if it was disturbed."""

import contextlib
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from runners.machine.facts import UNKNOWN
from runners.machine.placement import Placement
from runners.measuring.indicators import (
    READ_EVERY_S,
    Findings,
    IndicatorValues,
    check_limits,
    exceeds,
    indicator_values,
    shares_driver,
)
from runners.measuring.kernel_counters import PROC, SYS, CounterReader, KernelCounters, Roots
from runners.processes.affinity import affinity
from runners.processes.control import Control

SAMPLE_S = 0.2  # how long the cores are watched to decide whether they are quiet
FRESH_S = 1.0  # after a load with quiet cores they need not be watched again for so long
BUSY_LIMIT = 0.05  # of a sample, on a core that only measured processes may use: the runner itself takes 1%
SHARED_BUSY_LIMIT = 0.25  # on a core that the placement shares with the runner and the rest of the machine
SPIN_ROUNDS, SPINS = 500, 20  # about 0.1 ms each; the fastest of 20 was not interrupted
SPINS_KEPT, FEWEST_SPINS = 64, 8  # of the latest trials, to find out what is usual on this machine
# The indicators that hold a trial back, and the reason for the log.
BUSY_REASONS = {
    "steal": "the hypervisor took a measured core",
    "foreign_server": "the server's core was busy",
    "foreign_driver": "the driver's core was busy",
}


@dataclass(frozen=True)
class QuietWait:
    """How long a trial was held back and why. `gave_up`: the cores were still busy at the end."""

    seconds: float
    gave_up: bool
    reason: str = ""

    def __str__(self) -> str:
        end = "the trial began nevertheless" if self.gave_up else "the trial began when they were quiet"
        return f"waited for {self.seconds:.1f} s because {self.reason}; {end}"


@dataclass
class Watch:
    """A load that is watched. Its `findings` are complete when the watch has ended."""

    placement: Placement
    readings: list[KernelCounters]
    slowness: float | str = UNKNOWN
    window: tuple[float, float] = (float("-inf"), float("inf"))

    @property
    def findings(self) -> Findings:
        """The findings within the window, from the nearest reading before it to the nearest one after it."""
        begin_s, end_s = self.window
        first = max((at for at, reading in enumerate(self.readings) if reading.at_s <= begin_s), default=0)
        last = min(
            (at for at, reading in enumerate(self.readings) if reading.at_s >= end_s), default=len(self.readings) - 1
        )
        values = indicator_values(self.readings[first : last + 1], self.placement) | {"slowness": self.slowness}
        return check_limits(values, self.placement)


@dataclass
class GateHistory:
    """The gate's memory of earlier trials on this machine, also of other runs on other cores."""

    patience_left_s: float = float("inf")
    quiet_at_s: float = float("-inf")  # when the last load ended, on time.monotonic's clock, if the cores were quiet
    spins_ns: deque[int] = field(default_factory=lambda: deque(maxlen=SPINS_KEPT))


@dataclass(frozen=True)
class QuietGate:
    """Waits for a quiet machine before a trial, and checks whether it stayed quiet.

    After the machine was busy for the whole of `patience_s`, the next wait is half as long, so that a machine that is
    never quiet costs little time; once it is quiet, waits have their full length again.
    """

    placement: Placement
    proc: Path = PROC
    sys: Path = SYS
    patience_s: float = 10.0
    history: GateHistory = field(default_factory=GateHistory)

    def await_quiet(self, control: Control) -> QuietWait:
        """Returns when the measured cores are quiet, or after `patience_s`. Raises the error of an abort.

        Returns at once if they were quiet during a load that has just ended.
        """
        began = time.monotonic()
        if began - self.history.quiet_at_s < FRESH_S:
            return QuietWait(0.0, gave_up=False)
        patience_s = min(self.patience_s, self.history.patience_left_s)
        reasons: list[str] = []
        while True:
            reason = self._busy_reason(self._sample(control))
            waited_s = time.monotonic() - began
            if not reason or waited_s >= patience_s:
                break
            reasons.append(reason)
        self.history.patience_left_s = max(SAMPLE_S, patience_s / 2) if reason else float("inf")
        return QuietWait(round(waited_s, 3), bool(reason), reason or next(iter(reasons), ""))

    @contextlib.contextmanager
    def watch(self, servers: Sequence[int], driver_pid: Callable[[], int | None] = lambda: None) -> Iterator[Watch]:
        """Reads the counters of the kernel until the end of the block. `driver_pid` is called for each reading."""

        def read() -> KernelCounters:
            return self._reader.read(servers, driver_pid())

        before_ns = self._spin_ns()
        watch, end = Watch(self.placement, [read()]), threading.Event()

        def keep_reading() -> None:
            while not end.wait(READ_EVERY_S):
                watch.readings.append(read())

        watcher = threading.Thread(target=keep_reading, name="quiet", daemon=True)
        watcher.start()
        try:
            yield watch
        finally:
            end.set()
            watcher.join()
            watch.readings.append(read())
            # Bursts of a neighbour are shorter than a load: one during a spin says nothing about the load between.
            watch.slowness = self._slowness(min(before_ns, self._spin_ns()))
            was_quiet = not self._busy_reason(watch.findings.values)
            self.history.quiet_at_s = time.monotonic() if was_quiet else float("-inf")

    @property
    def _reader(self) -> CounterReader:
        roots = Roots(self.proc, self.sys)
        return CounterReader(self.placement.server | self.placement.driver, self.placement.server, roots)

    def _sample(self, control: Control) -> IndicatorValues:
        before = self._reader.read()
        control.sleep(SAMPLE_S)
        after = self._reader.read()
        return indicator_values([before, after], self.placement)

    def _busy_reason(self, values: IndicatorValues) -> str:
        """The indicators above their limits, in words; empty if the cores are quiet."""
        limits = dict.fromkeys(BUSY_REASONS, BUSY_LIMIT)
        if shares_driver(self.placement):
            limits["foreign_driver"] = SHARED_BUSY_LIMIT
        above = {name: float(values[name]) for name, limit in limits.items() if exceeds(values[name], limit)}
        return ", ".join(f"{BUSY_REASONS[name]} for {value:.0%} of {SAMPLE_S:g} s" for name, value in above.items())

    def _spin_ns(self) -> int:
        """CPU time of a fixed piece of work on the slowest of the server's cores."""
        return max(spin_ns(cpu) for cpu in self.placement.server)

    def _slowness(self, fastest_ns: int) -> float | str:
        self.history.spins_ns.append(fastest_ns)
        return slowness(self.history.spins_ns)


def spin_ns(cpu: int) -> int:
    """CPU time of the fastest of some rounds of hashing on this CPU: it depends on the clock, not on memory."""
    with affinity(frozenset({cpu})):
        return min(_spin() for _ in range(SPINS))


def slowness(spins_ns: Sequence[int]) -> float | str:
    """The share by which the last of these spins took longer than usual; unknown below FEWEST_SPINS.

    The median is usual, not the best: after a rest a core is faster for a moment than it ever is under load.
    """
    return round(spins_ns[-1] / median(spins_ns) - 1, 4) if len(spins_ns) >= FEWEST_SPINS else UNKNOWN


def _spin() -> int:
    begin = time.thread_time_ns()
    hashlib.pbkdf2_hmac("sha256", b"speed", b"track", SPIN_ROUNDS)
    return time.thread_time_ns() - begin
