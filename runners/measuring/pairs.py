"""Blocks of a paired run: a fresh server of each side, both running at once, loaded in turn on the same cores.

One process of the driver has connections to both and alternates between them every 20 to 100 ms (`speedbench duel`), so
a disturbance of the machine hits both; pairs of slices in which it hit only one of them are trimmed. The random part of
each start (memory layout, and the slot: which one starts first, its port and directory) differs from block to block and
is by far the largest part of the noise; so does the order of the functions in both programs, if the suite has random
layouts. So a block is short, and it is one pair, however many slices it has. The slots
are assigned at random for each block. If both builds were the same, swapping their names would change nothing; the test
of the pairs' signs needs no more than that.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runners.documents import Benchmark
from runners.errors import BenchmarkFailed
from runners.measuring.layouts import Layout
from runners.measuring.trials import MEASURE, Trial, TrialRunner, TrialStart, measure_trial, summary_line
from runners.servers.server import ServerProcess

SIDES = ("base", "head")
WINDOW_S = 0.6  # of each side of a block, at most: more blocks are worth more than longer ones
SHORT_WINDOW_S = {"effect": 0.2}  # by reason of a run: where all benchmarks of a suite share two minutes
WARMUP_S = 0.1  # of each side; the prefill has warmed up the server, too
SETTLING_REQUESTS = 1000  # of a server that is filled to measure its size
WINDOW_KEYS = ("duration_s", "warmup_most_s", "mode", "rate", "arrivals")  # of a workload: how long and how fast it is
ROOM = 4  # free memory that a block needs, in multiples of one server's peak: there are two, and each may fork
MEMINFO = Path("/proc/meminfo")
SLOWEST_RPS = 100  # of an open loop: with fewer a slice of 100 ms would not hold the rate
# By key that keeps a workload from being divided into slices: the reason.
NOT_SLICED = {
    "requests": "its length is a number of requests, not a time",
    "ttl_s": "its keys expire, and a block takes longer than a trial",
    "probe": "its probe would load one server while the other is measured",
}


class NoRoom(Exception):
    """The servers of both sides are too large to run at the same time."""


def measure_pair(runner: TrialRunner, benchmark: Benchmark, number: int) -> dict[str, Trial]:
    """The next trial of both sides. Raises as `measure_trial`."""
    if reason := runner.apart_reasons.get(benchmark.name) or reason_not_to_slice(benchmark):
        return one_after_the_other(runner, benchmark, number, reason)
    try:
        return Block(runner, benchmark, number).measure()
    except NoRoom as error:
        runner.apart_reasons[benchmark.name] = str(error)
        runner.log.line(MEASURE, f"{benchmark.name}: {error}: its sides are measured one after the other")
        return one_after_the_other(runner, benchmark, number, str(error))


def values_of(trials: Mapping[str, Sequence[Trial]], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """What the trials of both sides show of these metrics, pair by pair, with the flags of either side."""
    return [
        {side: {name: trial.metrics[name] for name in metrics if name in trial.metrics} for side, trial in both.items()}
        | {"flags": sorted({flag for trial in both.values() for flag in trial.flags})}
        for both in (dict(zip(trials, pair, strict=True)) for pair in zip(*trials.values(), strict=False))
    ]


def one_after_the_other(runner: TrialRunner, benchmark: Benchmark, number: int, reason: str) -> dict[str, Trial]:
    """A whole trial of each side, one directly after the other in random order, because of `reason`."""
    sides = runner.rng.sample([side.side for side in runner.job.sides], len(runner.job.sides))
    trials = runner.in_layouts(
        benchmark,
        lambda layouts: {side: measure_trial(runner, benchmark, side, number, layouts.get(side)) for side in sides},
    )
    return {side: replace(trial, pairing={"block": number, "apart": reason}) for side, trial in trials.items()}


def reason_not_to_slice(benchmark: Benchmark) -> str | None:
    """Why the load of this benchmark cannot be divided into slices; None if it can."""
    if benchmark.driver != "speedbench":
        return f"{benchmark.driver} loads the server as a whole"
    for key, reason in NOT_SLICED.items():
        if key in benchmark.workload:
            return reason
    if "keys" in benchmark.workload.get("expect", {}):
        return "the keys that it leaves are counted"
    return _reason_of_mode(benchmark.workload)


def _reason_of_mode(workload: Mapping[str, Any]) -> str | None:
    match workload.get("mode", "closed"):
        case "closed":
            return None
        case "open":
            too_slow = workload["rate"] < SLOWEST_RPS
            return f"its rate is below {SLOWEST_RPS} requests/s" if too_slow else None
        case mode:
            return f"mode {mode} has no slices"


@dataclass(frozen=True)
class Block:
    """Two running servers that are measured in turn."""

    runner: TrialRunner
    benchmark: Benchmark
    number: int

    def measure(self) -> dict[str, Trial]:
        """One trial of each side. Raises NoRoom, BenchmarkFailed, or what ends the run."""
        self.runner.check()
        name = f"{self.benchmark.name}, pair {self.number + 1}"
        if self.number == 0:
            self._require_room(name)
            self.runner.await_quiet(name)  # later bursts hit both sides
        return self.runner.in_layouts(self.benchmark, lambda layouts: self._measured(name, layouts))

    def _measured(self, name: str, layouts: Mapping[str, Layout]) -> dict[str, Trial]:
        begin, slots = TrialStart(), self.runner.rng.sample(SIDES, 2)
        orders = {side: self.runner.next_order() for side in slots}
        with ExitStack() as stack:
            servers = self._start(stack, slots, layouts)
            loads = self.runner.run_duel(self._load, [servers[side] for side in SIDES], self._seed, name)
            peaks = {side: float(servers[side].peak_rss_bytes()) for side in SIDES}
        trials = {}
        for side, load in zip(SIDES, loads, strict=True):
            layout, seeded = layouts.get(side), (self._load, self._seed)
            trials[side] = Trial(
                self.number,
                orders[side],
                begin.timestamp,
                begin.seconds,
                load.metrics | {"peak_rss_bytes": peaks[side]},
                load.flags,
                load.driver,
                {"block": self.number, "slot": slots.index(side), **load.pairing},
                load.quiet,
                load.server,
                self.runner.recipe(servers[side], [seeded], layout),
                layout.seed if layout else None,
            )
            self.runner.log.line(MEASURE, f"{name} ({side}): {summary_line(trials[side])}")
        return trials

    @property
    def _load(self) -> Benchmark:
        return block_load(self.benchmark, SHORT_WINDOW_S.get(self.runner.job.reason, WINDOW_S))

    @property
    def _seed(self) -> int:
        return self.runner.job.seed + self.number

    def _start(self, stack: ExitStack, slots: Sequence[str], layouts: Mapping[str, Layout]) -> dict[str, ServerProcess]:
        """Starts both servers in the order of their slots; the second one in the network of the first."""
        servers: dict[str, ServerProcess] = {}
        for slot, side in enumerate(slots):
            beside = next(iter(servers.values()), None)
            server = self.runner.fresh_server(self.benchmark, side, slot, beside, layouts.get(side))
            servers[side] = stack.enter_context(server)
        return servers

    def _require_room(self, name: str) -> None:
        """Fills a server to measure its size. Raises NoRoom if there is too little memory for two of it."""
        with self.runner.fresh_server(self.benchmark, SIDES[0]) as server:
            self.runner.run_load(settling_load(self.benchmark), server, self._seed, name)
            peak_bytes = server.peak_rss_bytes()
        check_room(peak_bytes, available_bytes())


def settling_load(benchmark: Benchmark) -> Benchmark:
    """The workload with a few requests after the prefill instead of its window, in a closed loop.

    The size of a server does not depend on the loop, and of Poisson arrivals the driver can play no exact number.
    """
    workload = {key: value for key, value in benchmark.workload.items() if key not in WINDOW_KEYS}
    requests = max(SETTLING_REQUESTS, workload["clients"] * workload["pipeline"])
    return replace(benchmark, workload=workload | {"warmup_s": 0.0, "requests": requests})


def block_load(benchmark: Benchmark, window_s: float) -> Benchmark:
    """The workload with the short window of a block, and a warm-up of fixed length before it."""
    workload = {key: value for key, value in benchmark.workload.items() if key != "warmup_most_s"}
    lengths = {"warmup_s": WARMUP_S, "duration_s": window_s}
    return replace(benchmark, workload=workload | {key: min(workload[key], most) for key, most in lengths.items()})


def check_room(peak_bytes: int, free_bytes: int) -> None:
    """Raises NoRoom if there is too little memory for two servers of this size."""
    if free_bytes < ROOM * peak_bytes:
        raise NoRoom(
            f"a server takes {peak_bytes >> 20} MiB and {free_bytes >> 20} MiB are free, "
            f"{ROOM * peak_bytes >> 20} are needed to run two at once"
        )


def available_bytes() -> int:
    """The memory that can be used without swapping, as the kernel estimates it."""
    fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    try:
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (KeyError, ValueError, IndexError) as error:
        raise BenchmarkFailed(f"{MEMINFO} does not report the available memory") from error
