"""Blocks of a paired run: a fresh server of each side, both running at once, loaded in turn on the same cores.

Slow changes, of a clock speed or a neighbour, affect both sides alike: each slice of one side is within a second of a
slice of the other. What is random at each start (memory layout, and the slot: which one starts first, its port and
directory) differs from block to block, so a block is one pair, however many slices it has: the comparison resamples
blocks. The slots are assigned at random for each block. If both builds were the same, swapping their names would change
nothing; the sign-flip test needs no more than that.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from runners.documents import Benchmark
from runners.errors import BenchmarkFailed, Transient
from runners.measuring.indicators import worst_values
from runners.measuring.trials import MEASURE, LoadResult, Trial, TrialRunner, TrialStart, measure_trial, summary_line
from runners.servers.server import ServerProcess

TRIES = 3  # of a slice
SLICES = 4  # of each side: together as long as the window of a trial
SHORTEST_SLICE_S = 0.1
SETTLING_REQUESTS = 1000  # after prefill and warm-up; their results are not used
WARMUP_S = 0.1  # of a slice: the server is warm, but the other one has used the caches of its core
ROOM = 2  # free memory for the second server, in multiples of the first one's peak: it may fork as well
MEMINFO = Path("/proc/meminfo")
# Keys of a workload that cannot be divided into slices, and why.
NOT_SLICED = {
    "requests": "its length is a number of requests, not a time",
    "ttl_s": "its keys expire, and a block takes longer than a trial",
}


class NoRoom(Exception):
    """The servers of both sides are too large to run at once."""


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


def one_after_the_other(runner: TrialRunner, benchmark: Benchmark, number: int, reason: str) -> dict[str, Trial]:
    """A whole trial of each side, one directly after the other in random order."""
    sides = runner.rng.sample(runner.job.sides, len(runner.job.sides))
    trials = {side.side: measure_trial(runner, benchmark, side.side, number) for side in sides}
    return {side: replace(trial, pairing={"block": number, "apart": reason}) for side, trial in trials.items()}


def reason_not_to_slice(benchmark: Benchmark) -> str | None:
    """Why the load of this benchmark cannot be divided into slices; None: it can."""
    if benchmark.driver != "speedbench":
        return f"{benchmark.driver} loads the server as a whole"
    for key, reason in NOT_SLICED.items():
        if key in benchmark.workload:
            return reason
    if "keys" in benchmark.workload.get("expect", {}):
        return "the keys that it leaves are counted"
    return None


@dataclass
class Slot:
    """One side of a block: its server and its slices. `repeated` counts the slices that were dropped and repeated."""

    side: str
    number: int
    order: int
    server: ServerProcess
    slices: list[dict[str, Any]] = field(default_factory=list)
    loads: list[LoadResult] = field(default_factory=list)
    repeated: int = 0


@dataclass(frozen=True)
class Block:
    """Two servers that are measured in turn."""

    runner: TrialRunner
    benchmark: Benchmark
    number: int

    def measure(self) -> dict[str, Trial]:
        """One trial of each side. Raises NoRoom, BenchmarkFailed, or what ends the run."""
        self.runner.check()
        self.runner.await_quiet(f"{self.benchmark.name}, pair {self.number + 1}")
        begin, shuffled = TrialStart(), self.runner.rng.sample
        with ExitStack() as stack:
            sides = shuffled(self.runner.job.sides, 2)
            slots = [self._start(stack, number, side.side) for number, side in enumerate(sides)]
            for turn in range(SLICES):
                for slot in shuffled(slots, 2):
                    self._slice(slot, turn, begin)
            trials = {slot.side: self._trial(slot, begin) for slot in slots}
        for side, trial in trials.items():
            self.runner.log.line(MEASURE, f"{self._name(side)}: {summary_line(trial)}")
        return trials

    def _name(self, side: str) -> str:
        return f"{self.runner.name(self.benchmark, side)}, trial {self.number + 1}"

    def _start(self, stack: ExitStack, number: int, side: str) -> Slot:
        """Starts a server, fills it and warms it up. Raises NoRoom if there is no memory for a second one like it."""
        server = stack.enter_context(self.runner.fresh_server(self.benchmark, side, number))
        self._run_load(server, settling_load(self.benchmark), 0, self._name(side))
        if number == 0:
            check_room(server.peak_rss_bytes(), available_bytes())
        return Slot(side, number, self.runner.next_order(), server)

    def _slice(self, slot: Slot, turn: int, begin: TrialStart) -> None:
        """The next slice of a side; up to TRIES times, if a flag voids it or the server did not run in it."""
        name = f"{self._name(slot.side)}, slice {turn + 1}"
        before: frozenset[str] = frozenset()
        for left in reversed(range(TRIES)):
            at_s = begin.seconds
            try:
                load = self._run_load(slot.server, slice_of(self.benchmark), turn + 1, name)
            except Transient as error:
                if not left:
                    raise
                self.runner.log.line(MEASURE, f"{name}: {error}")
            else:
                voiding = self.runner.job.voiding(load.flags)
                self.runner.accept_flags(self.benchmark, before & voiding)
                if not left or not voiding - self.runner.accepted_flags[self.benchmark.name]:
                    break
                before = voiding
            slot.repeated += 1
        slot.loads.append(load)
        slot.slices.append({"at_s": at_s, "metrics": load.metrics, "flags": list(load.flags), **slice_extent(load)})

    def _run_load(self, server: ServerProcess, benchmark: Benchmark, turn: int, name: str) -> LoadResult:
        return self.runner.run_load(benchmark, server, self._seed(turn), name)

    def _seed(self, turn: int) -> int:
        # With `verify` the values depend on the seed: they must be read with the seed that they were stored with.
        return self.runner.job.seed + self.number + (0 if self.benchmark.workload.get("verify") else turn)

    def _trial(self, slot: Slot, begin: TrialStart) -> Trial:
        metrics = combined_metrics(slot.loads) | {"peak_rss_bytes": float(slot.server.peak_rss_bytes())}
        flags = tuple(dict.fromkeys(flag for load in slot.loads for flag in load.flags))
        pairing = {"block": self.number, "slot": slot.number, "repeated": slot.repeated, "slices": slot.slices}
        turns = [(slice_of(self.benchmark), self._seed(turn + 1)) for turn in range(SLICES)]
        recipe = self.runner.recipe(slot.server, [(settling_load(self.benchmark), self._seed(0)), *turns])
        last, quiet = slot.loads[-1], worst_values([load.quiet for load in slot.loads])
        return Trial(
            self.number,
            slot.order,
            begin.timestamp,
            begin.seconds,
            metrics,
            flags,
            last.driver,
            pairing,
            quiet,
            last.server,
            recipe,
        )


def settling_load(benchmark: Benchmark) -> Benchmark:
    """The workload with a few requests after the warm-up in place of its window."""
    workload = {key: value for key, value in benchmark.workload.items() if key != "duration_s"}
    requests = max(SETTLING_REQUESTS, workload["clients"] * workload["pipeline"])
    return replace(benchmark, workload=workload | {"requests": requests})


def slice_of(benchmark: Benchmark) -> Benchmark:
    """A slice of the window, for a server that is filled and warm."""
    done = ("prefill", "setup", "warmup_most_s")
    workload = {key: value for key, value in benchmark.workload.items() if key not in done}
    length_s = max(SHORTEST_SLICE_S, workload["duration_s"] / SLICES)
    warmup_s = min(WARMUP_S, workload["warmup_s"])
    return replace(benchmark, workload=workload | {"warmup_s": warmup_s, "duration_s": length_s})


def slice_extent(load: LoadResult) -> dict[str, float]:
    """The requests and seconds of a slice."""
    test: Mapping[str, Any] = load.driver["tests"][-1]
    return {"requests": test["requests"], "window_s": test["window_s"]}


def combined_metrics(loads: Sequence[LoadResult]) -> dict[str, float]:
    """Each metric that all slices have, over all of them.

    A metric per request is weighted by requests, one per second by seconds, so both are sums over sums. Of memory it is
    the maximum, of a latency, which has no sum, the median.
    """
    names = set.intersection(*(set(load.metrics) for load in loads))
    return {name: _combine(name, loads) for name in sorted(names)}


def _combine(name: str, loads: Sequence[LoadResult]) -> float:
    values = [load.metrics[name] for load in loads]
    for ending, weight in WEIGHTS.items():
        if name.endswith(ending):
            return fmean(values, [slice_extent(load)[weight] for load in loads])
    return AGGREGATES.get(name.rpartition("_")[2], median)(values)


WEIGHTS = {"_per_request": "requests", "_rps": "window_s"}
AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {"bytes": max}


def check_room(peak_bytes: int, free_bytes: int) -> None:
    """Raises NoRoom if there is too little memory for a second server of this size."""
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
        raise BenchmarkFailed(f"{MEMINFO} does not say how much memory is available") from error
