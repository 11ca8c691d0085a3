"""Blocks of a paired run: a fresh server of each side, both up at once, loaded alternately on the same cores.

What changes slowly, a clock speed or a neighbour, falls on both sides alike: a slice of one lies within a second of a
slice of the other. What a start decides by chance (memory layout, the slot: who starts first, its port and directory)
differs from block to block, so a block is one pair, however many slices it has: the comparison resamples blocks.
The slots are drawn anew for each block. Were the two builds the same, swapping their names would change nothing, which
is all that the sign-flip test asks for.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from runners.documents import Benchmark
from runners.errors import BenchmarkFailed, Transient
from runners.measuring import trials
from runners.measuring.quiet import worst
from runners.measuring.trials import MEASURE, Begin, Load, Rig, Trial
from runners.servers.server import Server

TRIES = 3  # of a slice that was disturbed
SLICES = 4  # of each side: together as long as the window of a trial
SHORTEST_SLICE_S = 0.1
SETTLING_REQUESTS = 1000  # after prefill and warm-up, of no account
WARMUP_S = 0.1  # of a slice: the server is warm, the caches of its core have served the other one
ROOM = 2  # memory that must be left for the second server, in peaks of the first: it may fork, too
MEMINFO = Path("/proc/meminfo")
# What of a workload does not survive being cut, and why.
UNCUT = {
    "requests": "it is so many requests, not so much time",
    "ttl_s": "its keys end, and a block takes longer than a trial",
}


class NoRoom(Exception):
    """The servers of both sides are too large to be up at once."""


def measure(rig: Rig, benchmark: Benchmark, number: int) -> dict[str, Trial]:
    """The next trial of every side, paired where there are two. Raises as `trials.measure`."""
    if len(rig.job.sides) == 1:
        side = rig.job.sides[0].side
        return {side: trials.measure(rig, benchmark, side, number)}
    if reason := rig.apart.get(benchmark.name) or uncut(benchmark):
        return one_after_the_other(rig, benchmark, number, reason)
    try:
        return Block(rig, benchmark, number).measure()
    except NoRoom as error:
        rig.apart[benchmark.name] = str(error)
        rig.log.line(MEASURE, f"{benchmark.name}: {error}: its sides are measured one after the other")
        return one_after_the_other(rig, benchmark, number, str(error))


def one_after_the_other(rig: Rig, benchmark: Benchmark, number: int, reason: str) -> dict[str, Trial]:
    """A whole trial of every side, back to back in random order."""
    sides = rig.chance.sample(rig.job.sides, len(rig.job.sides))
    found = {side.side: trials.measure(rig, benchmark, side.side, number) for side in sides}
    return {side: replace(trial, pairing={"block": number, "apart": reason}) for side, trial in found.items()}


def uncut(benchmark: Benchmark) -> str | None:
    """Why the load of this benchmark cannot be cut into slices; None: it can."""
    if benchmark.driver != "speedbench":
        return f"{benchmark.driver} loads the server as a whole"
    for key, reason in UNCUT.items():
        if key in benchmark.workload:
            return reason
    if "keys" in benchmark.workload.get("expect", {}):
        return "the keys it leaves are counted"
    return None


@dataclass
class Slot:
    """One side of a block: its server, and what its slices showed. `repeated` slices were noisy and are dropped."""

    side: str
    number: int
    order: int
    server: Server
    slices: list[dict[str, Any]] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    repeated: int = 0


@dataclass(frozen=True)
class Block:
    """Two servers, measured against each other."""

    rig: Rig
    benchmark: Benchmark
    number: int

    def measure(self) -> dict[str, Trial]:
        """One trial of each side. Raises NoRoom, BenchmarkFailed, or what ends the run."""
        self.rig.check()
        self.rig.await_quiet(f"{self.benchmark.name}, pair {self.number + 1}")
        begin, draw = Begin(), self.rig.chance.sample
        with ExitStack() as stack:
            slots = [self._up(stack, number, side.side) for number, side in enumerate(draw(self.rig.job.sides, 2))]
            for turn in range(SLICES):
                for slot in draw(slots, 2):
                    self._slice(slot, turn, begin)
            found = [self._trial(slot, begin) for slot in slots]
        for slot, trial in zip(slots, found, strict=True):
            self.rig.log.line(MEASURE, f"{self._name(slot.side)}: {trials.shown(trial)}")
        return {slot.side: trial for slot, trial in zip(slots, found, strict=True)}

    def _name(self, side: str) -> str:
        return f"{self.rig.name(self.benchmark, side)}, trial {self.number + 1}"

    def _up(self, stack: ExitStack, number: int, side: str) -> Slot:
        """A server that is prefilled and warm. Raises NoRoom if there is none for another one like it."""
        server = stack.enter_context(self.rig.fresh_server(self.benchmark, side, number))
        self._load(server, settling(self.benchmark), 0, self._name(side))
        if number == 0:
            check_room(server.peak_rss_bytes(), available_bytes())
        return Slot(side, number, self.rig.next_order(), server)

    def _slice(self, slot: Slot, turn: int, begin: Begin) -> None:
        """The next slice of a side; again, up to TRIES, if a flag voids it or the server had no turn in it."""
        name = f"{self._name(slot.side)}, slice {turn + 1}"
        before: frozenset[str] = frozenset()
        for left in reversed(range(TRIES)):
            at_s = begin.seconds
            try:
                load = self._load(slot.server, cut(self.benchmark), turn + 1, name)
            except Transient as error:
                if not left:
                    raise
                self.rig.log.line(MEASURE, f"{name}: {error}")
            else:
                voiding = self.rig.job.voiding(load.flags)
                self.rig.believe(self.benchmark, before & voiding)
                if not left or not voiding - self.rig.believed[self.benchmark.name]:
                    break
                before = voiding
            slot.repeated += 1
        slot.loads.append(load)
        slot.slices.append({"at_s": at_s, "metrics": load.metrics, "flags": list(load.flags), **extent(load)})

    def _load(self, server: Server, benchmark: Benchmark, turn: int, name: str) -> Load:
        return self.rig.load(benchmark, server, self._seed(turn), name)

    def _seed(self, turn: int) -> int:
        # Values that are compared in full are a function of the seed: what was stored with one is read with it.
        return self.rig.job.seed + self.number + (0 if self.benchmark.workload.get("verify") else turn)

    def _trial(self, slot: Slot, begin: Begin) -> Trial:
        metrics = combined(slot.loads) | {"peak_rss_bytes": float(slot.server.peak_rss_bytes())}
        flags = tuple(dict.fromkeys(flag for load in slot.loads for flag in load.flags))
        pairing = {"block": self.number, "slot": slot.number, "repeated": slot.repeated, "slices": slot.slices}
        turns = [(cut(self.benchmark), self._seed(turn + 1)) for turn in range(SLICES)]
        recipe = self.rig.recipe(slot.server, [(settling(self.benchmark), self._seed(0)), *turns])
        last, quiet = slot.loads[-1], worst([load.quiet for load in slot.loads])
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


def settling(benchmark: Benchmark) -> Benchmark:
    """Everything of a workload but its window, in place of which a few requests follow the warm-up."""
    kept = {key: value for key, value in benchmark.workload.items() if key != "duration_s"}
    return replace(benchmark, workload=kept | {"requests": max(SETTLING_REQUESTS, kept["clients"] * kept["pipeline"])})


def cut(benchmark: Benchmark) -> Benchmark:
    """A slice of the window, on a server that is prefilled and warm."""
    done = ("prefill", "setup", "warmup_most_s")
    kept = {key: value for key, value in benchmark.workload.items() if key not in done}
    length = max(SHORTEST_SLICE_S, kept["duration_s"] / SLICES)
    return replace(benchmark, workload=kept | {"warmup_s": min(WARMUP_S, kept["warmup_s"]), "duration_s": length})


def extent(load: Load) -> dict[str, float]:
    """Requests and seconds of a slice."""
    test: Mapping[str, Any] = load.driver["tests"][-1]
    return {"requests": test["requests"], "window_s": test["window_s"]}


def combined(loads: Sequence[Load]) -> dict[str, float]:
    """The metrics that all slices have, each over the whole of them: sums over sums for what is a ratio of sums.

    What a metric is per decides: per request it is weighted by requests, per second by seconds; of memory the most
    counts; of a latency, which has no sum, the median.
    """
    names = set.intersection(*(set(load.metrics) for load in loads))
    return {name: _over(name, loads) for name in sorted(names)}


def _over(name: str, loads: Sequence[Load]) -> float:
    values = [load.metrics[name] for load in loads]
    for ending, weight in WEIGHTS.items():
        if name.endswith(ending):
            return fmean(values, [extent(load)[weight] for load in loads])
    return WHOLE.get(name.rpartition("_")[2], median)(values)


WEIGHTS = {"_per_request": "requests", "_rps": "window_s"}
WHOLE: dict[str, Callable[[Sequence[float]], float]] = {"bytes": max}


def check_room(peak_bytes: int, free_bytes: int) -> None:
    """Raises NoRoom if a second server of this size had too little memory."""
    if free_bytes < ROOM * peak_bytes:
        raise NoRoom(
            f"a server takes {peak_bytes >> 20} MiB and {free_bytes >> 20} MiB are free, "
            f"{ROOM * peak_bytes >> 20} are wanted to have two up at once"
        )


def available_bytes() -> int:
    """What the kernel says can be used without swapping."""
    fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    try:
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (KeyError, ValueError, IndexError) as error:
        raise BenchmarkFailed(f"{MEMINFO} does not say how much memory is available") from error
