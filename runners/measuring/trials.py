"""One trial: a fresh server process, loaded once while the machine is watched."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

from runners.build import Build
from runners.build.layouts import by_hand
from runners.documents import Benchmark, Job
from runners.errors import BenchmarkFailed, Stopped
from runners.loads.driver_document import server_object
from runners.loads.target import LoadOutcome, Target
from runners.measuring import reproduce
from runners.measuring.layouts import Layout, LayoutPool
from runners.measuring.reproduce import SeededBenchmark
from runners.measuring.tools import Tools
from runners.processes.control import Control
from runners.reporting.runlog import RunLog
from runners.servers import capacity, counters
from runners.servers.server import ServerProcess, ServerSpec

MEASURE = "measure"
Measured = TypeVar("Measured")
# If a driver uses its whole core, waits for it (on two cores housekeeping shares it) or falls behind its schedule, the
# cause is the workload and the machine: once a repeat had the same flag, further repeats would have it, too.
STRUCTURAL_FLAGS = frozenset({"client_bound", "client_delayed", "clock", "slipped"})


@dataclass(frozen=True)
class Trial:
    """One measurement of a fresh server. `order` is its position in the whole attempt, dropped trials included.

    `pairing`: its block in a paired run (docs/result-format.md). `layout`: the seed of its program's layout.
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
    layout: int | None = None

    def document(self) -> dict[str, Any]:
        return {
            "trial": self.trial,
            "order": self.order,
            "started_at": self.started_at,
            "seconds": self.seconds,
            "metrics": self.metrics,
            "flags": list(self.flags),
            "pairing": self.pairing,
            "layout": self.layout,
            "quiet": self.quiet,
            "server": self.server,
            "reproduce": self.reproduce,
            "driver": self.driver,
        }


@dataclass(frozen=True)
class LoadResult:
    """The result of one load of a server, and its disturbances."""

    metrics: dict[str, float]
    flags: tuple[str, ...]
    driver: dict[str, Any]
    quiet: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    pairing: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialStart:
    """When a trial began, by the wall clock and by the monotonic clock."""

    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    monotonic_s: float = field(default_factory=time.monotonic)

    @property
    def timestamp(self) -> str:
        return self.at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.at.microsecond // 1000:03d}Z"

    @property
    def seconds(self) -> float:
        """The seconds since then."""
        return round(time.monotonic() - self.monotonic_s, 3)


@dataclass
class TrialRunner:
    """Runs the trials of one run. `order` counts those that have begun, dropped ones included."""

    job: Job
    tools: Tools
    control: Control
    log: RunLog
    rng: Random
    builds: dict[str, Build] = field(default_factory=dict)
    layouts: LayoutPool | None = None
    order: int = 0
    #: By benchmark: why its sides cannot run at once.
    apart_reasons: dict[str, str] = field(default_factory=dict)
    #: By benchmark: structural flags that a repeat had again, which cause no more repeats.
    accepted_flags: defaultdict[str, frozenset[str]] = field(default_factory=lambda: defaultdict(frozenset))

    def check(self) -> None:
        """Raises the error of an abort, or Stopped if the runner is to stop. Called between two trials."""
        if self.control.stopping.is_set():
            raise Stopped("runner is shutting down")
        self.control.check()

    def name(self, benchmark: Benchmark, side: str) -> str:
        """The benchmark's name, with its side if there are two, for the log and the page of the run."""
        return benchmark.name + (f" ({side})" if len(self.job.sides) > 1 else "")

    def await_quiet(self, name: str) -> None:
        """Returns when the measured cores are quiet, or after its time limit; logs a line if it had to wait."""
        wait = self.tools.gate.await_quiet(self.control)
        if wait.reason:
            self.log.line(MEASURE, f"{name}: {wait}")

    def accept_flags(self, benchmark: Benchmark, repeated: frozenset[str]) -> None:
        """Records flags that a measurement and its repeat both had: the structural ones cause no more repeats."""
        self.accepted_flags[benchmark.name] |= repeated & STRUCTURAL_FLAGS

    def next_order(self) -> int:
        self.order += 1
        return self.order - 1

    def recipe(
        self, server: ServerProcess, loads: Sequence[SeededBenchmark], layout: Layout | None = None
    ) -> dict[str, Any]:
        """The commands that repeat by hand the work with this server."""
        commands = reproduce.recipe(self.job, loads, server, self.tools.launcher, self.tools.external)
        return commands | {"relink": by_hand(self.job.build, layout.seed)} if layout else commands

    def in_layouts(self, benchmark: Benchmark, measure: Callable[[Mapping[str, Layout]], Measured]) -> Measured:
        """Measures with a fresh layout of each side; without, if the run has none, or none that starts.

        A trial whose layouts do not start is repeated with others. Raises as `measure`.
        """
        pool = self.layouts
        while pool and not pool.refusal:
            layouts = pool.draw()
            try:
                if layouts:
                    measured = measure(layouts)
                    pool.failed.clear()
                    return measured
            except BenchmarkFailed:
                if not (broken := pool.leave_out_broken(layouts, benchmark)):
                    raise
                self.log.line(MEASURE, f"left out: {'; '.join(broken)}")
            if pool.refusal:
                self.log.line(MEASURE, f"measured without random layouts: {pool.refusal}")
        return measure({})

    @contextmanager
    def fresh_server(
        self,
        benchmark: Benchmark,
        side: str,
        slot: int = 0,
        beside: ServerProcess | None = None,
        layout: Layout | None = None,
    ) -> Iterator[ServerProcess]:
        """A fresh server of this side's build that answers. Raises as `Launcher.running`.

        `beside`: the server whose network it shares. `layout`: measured instead of the plain program.
        """
        plain = {name: artifact.path for name, artifact in self.builds[side].artifacts.items()}
        programs = layout.programs if layout else plain
        spec = ServerSpec(capacity.recipe_for(self.job.server, benchmark), benchmark.transport, programs, slot, beside)
        with (
            capacity.open_files(capacity.files_needed(benchmark)),
            self.tools.launcher.running(spec, self.rng, self.control) as server,
        ):
            yield server

    def run_load(self, benchmark: Benchmark, server: ServerProcess, seed: int, name: str) -> LoadResult:
        """Loads a server once while the machine is watched. If the server has ended, that is reported as the cause."""
        native = benchmark.driver == "speedbench"
        driver = self.tools.driver if native else self.tools.external
        return self._watched([server], name, lambda targets: [driver.run(benchmark, targets[0], seed, self.control)])[0]

    def run_duel(
        self, benchmark: Benchmark, servers: Sequence[ServerProcess], seed: int, name: str
    ) -> list[LoadResult]:
        """Loads two servers in slices that alternate, the second of which is `head`; otherwise as `run_load`."""
        duel = self.tools.driver.duel
        return self._watched(servers, name, lambda targets: duel(benchmark, targets, seed, self.control))

    def _watched(
        self, servers: Sequence[ServerProcess], name: str, load: Callable[[list[Target]], list[LoadOutcome]]
    ) -> list[LoadResult]:
        protocol = self.job.server.protocol
        targets = [Target(protocol, server.address, server.pid, server.output.parent) for server in servers]
        before = [counters.own_counters(server.address, protocol) for server in servers]
        pids = [server.pid for server in servers]
        try:
            with self.tools.gate.watch(pids, lambda: self.started_after(pids)) as watch:
                outcomes = load(targets)
        except BenchmarkFailed:
            for server in servers:
                server.check_alive()
            raise
        watch.window = outcomes[0].window
        findings = watch.findings
        for reason in findings.reasons:
            self.log.line(MEASURE, f"{name}: {reason}")
        results = []
        for server, outcome, earlier in zip(servers, outcomes, before, strict=True):
            stats = counters.counter_growth(earlier, counters.own_counters(server.address, protocol))
            server.check_alive()
            flags, served = (*outcome.flags, *findings.flags), server_object(outcome.document, stats)
            results.append(
                LoadResult(outcome.metrics, flags, outcome.document, findings.values, served, outcome.pairing)
            )
        return results

    def started_after(self, servers: Sequence[int]) -> int | None:
        """The process that loads these servers: the one started after them; None if there is none yet."""
        latest = self.tools.launcher.processes.latest
        return None if latest in servers else latest


def measure_trial(
    runner: TrialRunner, benchmark: Benchmark, side: str, number: int, layout: Layout | None = None
) -> Trial:
    """One trial of one side. Raises BenchmarkFailed, or what ends the run."""
    runner.check()
    name = f"{runner.name(benchmark, side)}, trial {number + 1}"
    runner.await_quiet(name)
    begin = TrialStart()
    seed = runner.job.seed + number
    with runner.fresh_server(benchmark, side, layout=layout) as server:
        load = runner.run_load(benchmark, server, seed, name)
        recipe = runner.recipe(server, [(benchmark, seed)], layout)
        metrics = load.metrics | {"peak_rss_bytes": float(server.peak_rss_bytes())}
    trial = Trial(
        number,
        runner.next_order(),
        begin.timestamp,
        begin.seconds,
        metrics,
        load.flags,
        load.driver,
        quiet=load.quiet,
        server=load.server,
        reproduce=recipe,
        layout=layout.seed if layout else None,
    )
    runner.log.line(MEASURE, f"{name}: {summary_line(trial)}")
    return trial


_SUMMARY = {
    "server_cpu_ns_per_request": "{:.0f} ns of server CPU per request",
    "throughput_rps": "{:.0f} requests/s",
    "latency_us_p50": "p50 {:.0f} us",
    "latency_us_p99": "p99 {:.0f} us",
}


def summary_line(trial: Trial) -> str:
    """The line of a trial in the log."""
    flags = f" [{', '.join(trial.flags)}]" if trial.flags else ""
    phrases = [text.format(trial.metrics[metric]) for metric, text in _SUMMARY.items() if metric in trial.metrics]
    return f"{', '.join(phrases)}, in {trial.seconds:.2f} s{flags}"
