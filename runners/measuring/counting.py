"""The exact series: the instructions per request that a server executes inside the functions that its suite names.

A fresh server process runs in callgrind and answers one connection that keeps PIPELINE requests in flight. Timers and
the start of the server are outside the counted functions. The first requests, two for each key, are not counted: after
them the server's hash tables have their final size.

callgrind writes a part of its report whenever the server accepts a connection, so each load has separate parts.
callgrind_control could do that too, but it needs a debugger's rights and cannot reach into a sandbox.

The same REQUESTS requests are counted on ROUNDS connections, and the lowest cost of each function is used. The C
library's string functions take a longer path if a string is near the end of a page, and a connection keeps its first
buffers: this moves the count of a GET in Redis by 0.3 to 0.6%. A load on other connections between two counts makes the
allocator choose other buffers, and a long request changes the objects for the words of the requests after it. Short
loads of BATCH requests measure the cost of the connection and of the driver's own requests, which is subtracted.

In a sandbox, the server reads the same random bytes at every commit, and other bytes in each further process of a side.
Otherwise a randomly seeded hash table may put two command names into one bucket in one process and not in the next,
a difference of 2% for a GET in Redis.
"""

import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from runners.build.elf import function_names
from runners.documents import Benchmark
from runners.errors import BenchmarkFailed, Transient
from runners.loads.target import Target
from runners.measuring.callgrind import (
    END_TIMEOUT_S,
    KEPT_KEYS,
    NO_VALGRIND,
    REPORT,
    SEED,
    SLOWDOWN,
    in_valgrind,
    load_alive,
)
from runners.measuring.callgrind_report import cost_of_parts, function_costs, parts_of
from runners.measuring.stacks import Stack, StackTable
from runners.measuring.trials import MEASURE, Trial, TrialRunner, TrialStart
from runners.servers.capacity import recipe_for
from runners.servers.server import ServerProcess, ServerSpec

METRIC = "counted_instructions_per_request"
PIPELINE = 16
SETTLING = 40_000  # requests after prefill, at most; their instructions are not used
BATCH, REQUESTS = 320, 2_000  # of a load; the cost of the former is subtracted from that of the latter
COUNTED = REQUESTS - BATCH
BATCHES, ROUNDS = 8, 12  # loads of so many requests
WORD_BYTES = (3, 12, 20, 28, 44)  # of a long request: an allocator gives each of them memory of another size
MOST_FUNCTIONS = 60  # of a count that keep their names, the costliest
OTHERS = "(other functions)"
RANDOM_BYTES = 1 << 16
MOST_CPU_S = 60.0  # of a server that is counted; those of the suites take 2 to 10 s
ACCEPTS = ("accept", "accept4")
APART = "its instructions are counted in valgrind, one process after the other"
# Under valgrind a program cannot change its limit of open files, and memcached ends if it cannot set another one.
LIMITED = """/bin/sh -c 'ulimit -S -n 4096; exec "$0" "$@"'"""
_CLONE = r"(?:\.(?:constprop|isra|lto_priv)\.\d+)*"  # a copy that the compiler made of a whole function


@dataclass(frozen=True)
class Count:
    """Instructions per request in one process: in all, and by function without its callees.

    `functions` add up to `per_request`: those without a name are OTHERS.
    """

    inside: str
    per_request: float
    functions: Mapping[str, float]

    def document(self) -> dict[str, Any]:
        return {"inside": self.inside, "functions": dict(self.functions)}


@dataclass(frozen=True)
class CountLoad:
    """A load on a server in callgrind; whether its instructions are counted, and whether it may fail."""

    benchmark: Benchmark
    is_counted: bool = False
    may_fail: bool = False


def count_once(runner: TrialRunner, benchmark: Benchmark, side: str) -> dict[str, float]:
    """The metric from one process; empty, with a line in the log, if it cannot be counted. Raises what ends the run."""
    try:
        count = count_instructions(runner, benchmark, side)
    except (BenchmarkFailed, Transient) as error:
        runner.check()
        runner.log.line(MEASURE, f"{benchmark.name}: {METRIC} is absent: {error}")
        return {}
    runner.log.line(MEASURE, f"{benchmark.name}: {sentence(count)}")
    return {METRIC: count.per_request}


def measure_counts(runner: TrialRunner, benchmark: Benchmark, number: int) -> dict[str, Trial]:
    """The next process of each side, in random order. Raises BenchmarkFailed, Transient, or what ends the run."""
    if not benchmark.inside:
        raise BenchmarkFailed(
            "the suite names no functions to count inside: add `instructions`, or measure it as pairs"
        )
    sides = runner.rng.sample(runner.job.sides, len(runner.job.sides))
    return {side.side: counted_trial(runner, benchmark, side.side, number) for side in sides}


def counted_trial(runner: TrialRunner, benchmark: Benchmark, side: str, number: int) -> Trial:
    runner.check()
    begin = TrialStart()
    count = count_instructions(runner, benchmark, side, number)
    runner.log.line(MEASURE, f"{runner.name(benchmark, side)}, trial {number + 1}: {sentence(count)}")
    return Trial(
        number,
        runner.next_order(),
        begin.timestamp,
        begin.seconds,
        {METRIC: count.per_request},
        (),
        {},
        pairing={"block": number, "apart": APART},
        server={"counted": count.document()},
    )


def sentence(count: Count) -> str:
    return f"{count.per_request:.2f} instructions per request inside of {count.inside}"


def count_instructions(runner: TrialRunner, benchmark: Benchmark, side: str, number: int = 0) -> Count:
    """One count, in a fresh process of the side's build with the random bytes of this number.

    Raises BenchmarkFailed, Transient.
    """
    inside, costs = costs_inside(runner, benchmark, side, number)
    return count_of(inside, function_costs(costs))


def costs_inside(
    runner: TrialRunner, benchmark: Benchmark, side: str, number: int, callers: int = 1
) -> tuple[str, Counter[Stack]]:
    """The function that counting is limited to, and the costs of COUNTED requests there by stack.

    `callers`: the length of the stacks, in callers; 1: a function costs its callers different paths. Raises
    BenchmarkFailed, Transient.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise BenchmarkFailed(NO_VALGRIND)
    job, tools = runner.job, runner.tools
    programs = {name: artifact.path for name, artifact in runner.builds[side].artifacts.items()}
    inside, symbols = counted_symbols(benchmark.inside, programs)
    # --demangle=no: with it, names are compared as they are in the symbol table.
    options = [
        f"--callgrind-out-file={{data}}/{REPORT}",
        "--demangle=no",
        *(f"--toggle-collect={symbol}" for symbol in symbols),
        *(f"--dump-before={function}" for function in ACCEPTS),
        f"--separate-callers={callers}",
    ]
    command = f"{LIMITED} {valgrind} -q --tool=callgrind {' '.join(options)} {job.server.command}"
    recipe = replace(job.server, command=command, ready_timeout_s=SLOWDOWN * job.server.ready_timeout_s)
    spec = ServerSpec(recipe_for(recipe, benchmark), benchmark.transport, programs, random=random_bytes(number))
    with in_valgrind(), tools.launcher.running(spec, Random(SEED), runner.control) as server:
        batches, rounds = costs_of_loads(runner, benchmark, server)
    return inside, costs_of_requests(inside, batches, rounds)


def random_bytes(number: int) -> bytes:
    """The random bytes for the process with this number, which are the same for every commit."""
    return hashlib.shake_256(str(number).encode()).digest(RANDOM_BYTES)


def costs_of_loads(
    runner: TrialRunner, benchmark: Benchmark, server: ServerProcess
) -> tuple[Counter[Stack], Counter[Stack]]:
    """The lowest costs by stack of the loads of BATCH requests, and of those of REQUESTS requests. Ends the server."""
    target = Target(runner.job.server.protocol, server.address, server.pid, server.output.parent)
    report = target.directory / "data" / REPORT
    starts: list[int] = []
    loads = loads_of_count(benchmark, target.protocol)
    for load in loads:
        starts.append(len(parts_of(report)) + 1)  # the part that ends now belongs to the load before
        try:
            load_alive(runner, load.benchmark, target, server)
        except BenchmarkFailed:
            if not load.may_fail or server.child.exited() is not None:
                raise
        check_cpu(target.cpu_ns() / 1e9)
    server.child.terminate()
    if server.child.wait(runner.control, END_TIMEOUT_S) is None:
        raise BenchmarkFailed("the server did not end on SIGTERM")
    report_parts = parts_of(report)
    if starts[0] == starts[-1]:
        raise BenchmarkFailed("callgrind saw no connection: the server must accept with a function of the C library")
    ends = [*starts[1:], len(report_parts)]  # a load's last part ends when the next load connects
    spans = zip(loads, starts, ends, strict=True)
    parts_of_loads = [report_parts[first:end] for load, first, end in spans if load.is_counted]
    table = StackTable()

    def costs(loads: Iterable[list[Path]]) -> Iterator[Counter[Stack]]:
        for load_parts in loads:
            runner.check()
            yield cost_of_parts(load_parts, table)

    return lowest(costs(parts_of_loads[:BATCHES])), lowest(costs(parts_of_loads[BATCHES:]))


def check_cpu(used_s: float) -> None:
    """Raises BenchmarkFailed if a count takes too much CPU time (not time: a busy machine must not end a count)."""
    if used_s > MOST_CPU_S:
        raise BenchmarkFailed(
            f"counting its instructions took more than {MOST_CPU_S:g} s of CPU time: give the benchmark fewer keys or "
            "smaller values, or leave it out of `instructions`"
        )


def loads_of_count(benchmark: Benchmark, protocol: str) -> list[CountLoad]:
    """The load that settles the server; then each counted load, after others that shuffle the server's memory."""
    workload = {key: value for key, value in benchmark.workload.items() if key in KEPT_KEYS}
    workload |= {"threads": 1, "pipeline": PIPELINE, "warmup_s": 0.0}
    again = {key: value for key, value in workload.items() if key not in ("prefill", "prefill_request", "setup")}
    loads = [CountLoad(replace(benchmark, workload=workload | {"clients": 1, "requests": settling(workload)}))]
    for number, rng in ((number, Random(number)) for number in range(BATCHES + ROUNDS)):
        shuffle = {"clients": rng.randint(2, 50), "pipeline": rng.randint(1, 16), "requests": rng.randint(300, 1_500)}
        loads.append(CountLoad(replace(benchmark, workload=again | shuffle)))
        if protocol == "resp":
            loads.append(CountLoad(replace(benchmark, workload=long_request(rng.randint(5, 100))), may_fail=True))
        counted_workload = again | {"clients": 1, "requests": BATCH if number < BATCHES else REQUESTS}
        loads.append(CountLoad(replace(benchmark, workload=counted_workload), is_counted=True))
    return loads


def long_request(copies: int) -> dict[str, Any]:
    """The workload of one request with so many copies of a word of each length.

    A server that has an object for each word frees them in their order, so the next requests get other objects than
    before. If a server does not know the command, its objects stay the same, and it is counted nevertheless.
    """
    request = " ".join(["EXISTS", *("w" * length for length in WORD_BYTES for _ in range(copies))])
    return {"commands": [{"request": request}], "clients": 1, "threads": 1, "requests": 1, "warmup_s": 0.0}


def settling(workload: Mapping[str, Any]) -> int:
    """The number of requests until the server's tables have their final size.

    Each request moves one bucket or more to the larger table.
    """
    keys: int = workload.get("keys", {}).get("count", SETTLING)
    return min(2 * keys, SETTLING)


def costs_of_requests(inside: str, batches: Counter[Stack], rounds: Counter[Stack]) -> Counter[Stack]:
    """The cost of COUNTED requests, from the lowest costs of loads of BATCH and of REQUESTS requests.

    Raises BenchmarkFailed if it is nothing.
    """
    costs = rounds.copy()
    costs.subtract(batches)
    if costs.total() <= 0:
        raise BenchmarkFailed(
            f"no request was seen inside of {inside}: it may be inlined where it is called; name its caller"
        )
    return costs


def lowest(loads: Iterable[Counter[Stack]]) -> Counter[Stack]:
    """The lowest cost of each stack, as places in memory make other stacks slow in each load.

    Only the costs of one load, and the lowest so far, are kept at a time.
    """
    remaining = iter(loads)
    costs = next(remaining)
    for load in remaining:
        for stack in costs:
            costs[stack] = min(costs[stack], load[stack])
    return costs


def count_of(inside: str, costs: Counter[str]) -> Count:
    """The count, from the costs of COUNTED requests in each function."""
    total = costs.total() / COUNTED
    per_request = {name: cost / COUNTED for name, cost in costs.items() if cost > 0}
    costliest = sorted(per_request, key=lambda name: (-per_request[name], name))
    functions = {name: round(per_request[name], 3) for name in costliest[:MOST_FUNCTIONS]}
    if remainder := round(total - sum(functions.values()), 3):
        functions[OTHERS] = remainder
    return Count(inside, total, functions)


def counted_symbols(inside: Iterable[str], programs: Mapping[str, Path]) -> tuple[str, list[str]]:
    """The first of these functions that the programs have, and its symbols: itself, and copies that the compiler made.

    Raises BenchmarkFailed if there is none, before anything is started.
    """
    symbols = frozenset[str]().union(*(function_names(file) for file in programs.values()))
    for name in inside:
        if matches := sorted(symbol for symbol in symbols if re.fullmatch(re.escape(name) + _CLONE, symbol)):
            return name, matches
    files = ", ".join(programs)
    if not symbols:
        raise BenchmarkFailed(f"{files} has no symbol table: build it without -s and without strip")
    raise BenchmarkFailed(f"{files} has no function {' or '.join(inside)}: name one of its functions (`nm {files}`)")
