"""One trial: a fresh server, loaded once while the machine is watched."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from runners.build import Build
from runners.documents import Benchmark, Job
from runners.errors import BenchmarkFailed, Stopped
from runners.loads.speedbench import Target
from runners.measuring import reproduce
from runners.measuring.reproduce import Seeded
from runners.measuring.tools import Tools
from runners.processes.control import Control
from runners.reporting.runlog import RunLog
from runners.servers import counters
from runners.servers.server import Server

MEASURE = "measure"
# A driver at the end of its core, waiting for it (housekeeping shares it on two cores), or behind its schedule, is a
# property of the workload and the machine: once a repeat has said the same, repeating the other trials of that
# benchmark tells nothing new.
STRUCTURAL_FLAGS = frozenset({"client_bound", "client_delayed", "clock", "slipped"})


@dataclass(frozen=True)
class Trial:
    """One fresh server, measured. `order` is its place in the whole attempt, dropped trials included.

    `pairing`: its block, of a paired run (docs/result-format.md).
    """

    trial: int
    order: int
    started_at: str
    seconds: float
    metrics: dict[str, float]
    flags: tuple[str, ...]
    driver: dict[str, Any]
    pairing: dict[str, Any] | None = None
    quiet: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    reproduce: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        return {
            "trial": self.trial,
            "order": self.order,
            "started_at": self.started_at,
            "seconds": self.seconds,
            "metrics": self.metrics,
            "flags": list(self.flags),
            "pairing": self.pairing,
            "quiet": self.quiet,
            "server": self.server,
            "reproduce": self.reproduce,
            "driver": self.driver,
        }

    @property
    def sliced(self) -> bool:
        """Measured in slices, of which the noisy ones were repeated already."""
        return bool(self.pairing and "slices" in self.pairing)


@dataclass(frozen=True)
class Load:
    """What one load of a server showed, and what disturbed it."""

    metrics: dict[str, float]
    flags: tuple[str, ...]
    driver: dict[str, Any]
    quiet: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Begin:
    """When a trial began, by the clock on the wall and by one that never jumps."""

    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    monotonic_s: float = field(default_factory=time.monotonic)

    @property
    def timestamp(self) -> str:
        return self.at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.at.microsecond // 1000:03d}Z"

    @property
    def seconds(self) -> float:
        """Since then."""
        return round(time.monotonic() - self.monotonic_s, 3)


@dataclass
class Rig:
    """What the trials of one run share. `order` counts those that were begun, dropped ones included."""

    job: Job
    tools: Tools
    control: Control
    log: RunLog
    chance: Random
    builds: dict[str, Build] = field(default_factory=dict)
    order: int = 0
    #: By benchmark: why its sides cannot be up at once.
    apart: dict[str, str] = field(default_factory=dict)
    #: By benchmark: structural flags that a repeat has shown again.
    believed: defaultdict[str, frozenset[str]] = field(default_factory=lambda: defaultdict(frozenset))

    def check(self) -> None:
        """Raises the error of an abort, or Stopped when the runner is to end: the place between two trials."""
        if self.control.stopping.is_set():
            raise Stopped("runner is shutting down")
        self.control.check()

    def name(self, benchmark: Benchmark, side: str) -> str:
        """A benchmark, and its side where there are two, as the log and the run's page call it."""
        return benchmark.name + (f" ({side})" if len(self.job.sides) > 1 else "")

    def await_quiet(self, name: str) -> None:
        """Returns when the measured cores are quiet, or patience ends; says so if that took waiting."""
        waited = self.tools.gate.await_quiet(self.control)
        if waited.reason:
            self.log.line(MEASURE, f"{name}: {waited}")

    def believe(self, benchmark: Benchmark, repeated: frozenset[str]) -> None:
        """Of flags that a measurement and its repeat both had, the structural ones cause no more repeats."""
        self.believed[benchmark.name] |= repeated & STRUCTURAL_FLAGS

    def next_order(self) -> int:
        self.order += 1
        return self.order - 1

    def recipe(self, server: Server, loads: Sequence[Seeded]) -> dict[str, Any]:
        """How to repeat by hand what a server was loaded with."""
        return reproduce.recipe(self.job, loads, server, self.tools.launcher, self.tools.external)

    @contextmanager
    def fresh_server(self, benchmark: Benchmark, side: str, slot: int = 0) -> Iterator[Server]:
        """A server of that side's build that answers. Raises as `Launcher.running`."""
        programs = {name: one.path for name, one in self.builds[side].artifacts.items()}
        with self.tools.launcher.running(
            self.job.server, benchmark.transport, programs, self.chance, self.control, slot
        ) as server:
            yield server

    def load(self, benchmark: Benchmark, server: Server, seed: int, name: str) -> Load:
        """Loads a server once, watched. A server that ended meanwhile is the reason of any failure."""
        native = benchmark.driver == "speedbench"
        driver = self.tools.driver if native else self.tools.external
        target = Target(self.job.server.protocol, server.address, server.pid, server.output.parent)
        before = counters.own_counters(server.address, target.protocol)
        try:
            with self.tools.gate.watch(server.pid, lambda: self.started_after(server)) as watch:
                outcome = driver.run(benchmark, target, seed, self.control)
        except BenchmarkFailed:
            server.check_alive()
            raise
        watch.window = outcome.window
        found = watch.findings
        for reason in found.reasons:
            self.log.line(MEASURE, f"{name}: {reason}")
        stats = counters.growth(before, counters.own_counters(server.address, target.protocol))
        server.check_alive()
        return Load(
            outcome.metrics,
            (*outcome.flags, *found.flags),
            outcome.document,
            found.measures,
            counters.of_trial(outcome.document, stats),
        )

    def started_after(self, server: Server) -> int | None:
        """The process that loads the server, once there is one."""
        latest = self.tools.launcher.processes.latest
        return None if latest == server.pid else latest


def measure(rig: Rig, benchmark: Benchmark, side: str, number: int) -> Trial:
    """One trial of one side. Raises BenchmarkFailed, or what ends the run."""
    rig.check()
    name = f"{rig.name(benchmark, side)}, trial {number + 1}"
    rig.await_quiet(name)
    begin = Begin()
    seed = rig.job.seed + number
    with rig.fresh_server(benchmark, side) as server:
        load = rig.load(benchmark, server, seed, name)
        recipe = rig.recipe(server, [(benchmark, seed)])
        metrics = load.metrics | {"peak_rss_bytes": float(server.peak_rss_bytes())}
    trial = Trial(
        number,
        rig.next_order(),
        begin.timestamp,
        begin.seconds,
        metrics,
        load.flags,
        load.driver,
        quiet=load.quiet,
        server=load.server,
        reproduce=recipe,
    )
    rig.log.line(MEASURE, f"{name}: {shown(trial)}")
    return trial


_SHOWN = {
    "server_cpu_ns_per_request": "{:.0f} ns of server CPU per request",
    "throughput_rps": "{:.0f} requests/s",
    "latency_us_p50": "p50 {:.0f} us",
    "latency_us_p99": "p99 {:.0f} us",
}


def shown(trial: Trial) -> str:
    """A trial on one line of the log."""
    flags = f" [{', '.join(trial.flags)}]" if trial.flags else ""
    parts = [text.format(trial.metrics[metric]) for metric, text in _SHOWN.items() if metric in trial.metrics]
    return f"{', '.join(parts)}, in {trial.seconds:.2f} s{flags}"
