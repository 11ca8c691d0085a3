"""The exact series: the instructions per request that a server executes inside the functions that its suite names.

One server process in callgrind is sent the loads of all benchmarks in turn (counted_loads.py), and is emptied between
two data sets. What cannot share it has a process of its own: a data set of a server that cannot be emptied (a flush of
memcached keeps the memory), and what comes after a load that failed. Timers and the start of the server are outside the
counted functions.

callgrind writes a part of its report whenever the server accepts a connection, so each round has a part of its own.
callgrind_control could do that too, but it needs a debugger's rights and cannot reach into a sandbox.

The lowest cost of each function in all rounds with the same requests is used. The C library's string functions take a
longer path if a string is near the end of a page, which moves the count of a GET in Redis by 0.3 to 0.6%. Where rounds
differ for other reasons, the mean of the middle half is: structures that are random, and the end of a connection to
memcached, whose thread may see it after the next connection has come.

In a sandbox, the server reads the same random bytes at every commit, and other bytes in each further process of a side.
Otherwise a randomly seeded hash table may put two command names into one bucket in one process and not in the next,
a difference of 2% for a GET in Redis.
"""

import hashlib
import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from runners.build.elf import function_names
from runners.documents import Benchmark
from runners.errors import BenchmarkFailed, Transient
from runners.measuring.callgrind import NO_VALGRIND, REPORT, SEED, SLOWDOWN, in_valgrind
from runners.measuring.counted_loads import CountedLoad, check_countable, counted_loads
from runners.measuring.countingprocess import ACCEPTS, RANDOM_BYTES, Costs, Count, CountedServer, CountingProcess
from runners.measuring.trials import MEASURE, Trial, TrialRunner, TrialStart
from runners.servers.capacity import recipe_for
from runners.servers.server import ServerSpec

METRIC = "counted_instructions_per_request"
LONGEST_CAUSE = 1_000
APART = "its instructions are counted in valgrind, one process after the other"
# Under valgrind a program cannot change its limit of open files, and memcached ends if it cannot set another one.
LIMITED = """/bin/sh -c 'ulimit -S -n 4096; exec "$0" "$@"'"""
_CLONE = r"(?:\.(?:constprop|isra|lto_priv)\.\d+)*"  # a copy that the compiler made of a whole function


#: The costs of a load, or why it is not countable.
CostsOrCause = Costs | BenchmarkFailed | Transient


@dataclass
class Counts:
    """The counts of a run. All its benchmarks are counted at once, when the first count of a process is asked for."""

    runner: TrialRunner
    by_process: dict[tuple[str, int], dict[str, CostsOrCause]] = field(default_factory=dict)

    def of(self, benchmark: Benchmark, side: str, number: int = 0) -> Count:
        """One count, in the process of the side's build with the random bytes of this number.

        Raises BenchmarkFailed, Transient, or what ends the run.
        """
        if (side, number) not in self.by_process:
            benchmarks = [member for member in self.runner.job.benchmarks if member.inside]
            self.by_process[side, number] = count_costs(self.runner, benchmarks, side, number)
        costs = self.by_process[side, number][benchmark.name]
        if not isinstance(costs, Costs):
            raise costs
        return costs.count()

    def once(self, benchmark: Benchmark, side: str) -> tuple[dict[str, float], str]:
        """The metric from one process and "", or nothing and why; either is logged. Raises what ends the run."""
        try:
            count = self.of(benchmark, side)
        except (BenchmarkFailed, Transient) as error:
            self.runner.check()
            self.runner.log.line(MEASURE, f"{benchmark.name}: {METRIC} is absent: {error}")
            return {}, str(error)[:LONGEST_CAUSE]
        self.runner.log.line(MEASURE, f"{benchmark.name}: {sentence(count)}")
        return {METRIC: count.per_request}, ""

    def trials(self, benchmark: Benchmark, number: int) -> dict[str, Trial]:
        """The next process of each side, in random order. Raises as `of`."""
        if not benchmark.inside:
            raise BenchmarkFailed(
                "the suite names no functions to count inside: add `instructions`, or measure it as pairs"
            )
        sides = self.runner.rng.sample(self.runner.job.sides, len(self.runner.job.sides))
        return {side.side: self._trial(benchmark, side.side, number) for side in sides}

    def _trial(self, benchmark: Benchmark, side: str, number: int) -> Trial:
        self.runner.check()
        begin = TrialStart()
        count = self.of(benchmark, side, number)
        self.runner.log.line(MEASURE, f"{self.runner.name(benchmark, side)}, trial {number + 1}: {sentence(count)}")
        return Trial(
            number,
            self.runner.next_order(),
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


def count_costs(
    runner: TrialRunner, benchmarks: Iterable[Benchmark], side: str, number: int = 0, callers: int = 1
) -> dict[str, CostsOrCause]:
    """By name of the benchmark: its costs, in fresh processes of the side's build with the random bytes of this number.

    `callers`: the length of the stacks, in callers; 1: a function costs its callers different paths. Raises what ends
    the run.
    """
    costs: dict[str, CostsOrCause] = {}
    alike: dict[CountedServer, list[Benchmark]] = {}
    for benchmark in benchmarks:
        try:
            check_countable(benchmark)
            server = counted_server(runner, benchmark, side, number, callers)
        except BenchmarkFailed as error:
            costs[benchmark.name] = error
        else:
            alike.setdefault(server, []).append(benchmark)
    for server, shared in alike.items():
        for load, outcome in costs_of_loads(runner, server, counted_loads(shared, runner.job.server.protocol)):
            costs |= {benchmark.name: outcome for benchmark in load.benchmarks}
    return costs


def counted_server(runner: TrialRunner, benchmark: Benchmark, side: str, number: int, callers: int) -> CountedServer:
    """Raises BenchmarkFailed without valgrind, or if the program has none of the benchmark's functions."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise BenchmarkFailed(NO_VALGRIND)
    recipe = runner.job.server
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
    command = f"{LIMITED} {valgrind} -q --tool=callgrind {' '.join(options)} {recipe.command}"
    # What a transport costs is the kernel's work, which is not counted.
    transport = "unix" if "{socket}" in recipe.command + recipe.listen.get("unix", "") else benchmark.transport
    slow = replace(recipe, command=command, ready_timeout_s=SLOWDOWN * recipe.ready_timeout_s)
    return CountedServer(
        inside, ServerSpec(recipe_for(slow, benchmark), transport, programs, random=random_bytes(number))
    )


def random_bytes(number: int) -> bytes:
    """The random bytes for the process with this number, which are the same for every commit."""
    return hashlib.shake_256(str(number).encode()).digest(RANDOM_BYTES)


def costs_of_loads(
    runner: TrialRunner, server: CountedServer, data_sets: list[list[CountedLoad]]
) -> Iterator[tuple[CountedLoad, CostsOrCause]]:
    """The cost of each load, counted in as few processes as possible."""
    queues = deque(deque(loads) for loads in data_sets)
    while queues:
        yield from costs_in_one_process(runner, server, queues)


def costs_in_one_process(
    runner: TrialRunner, server: CountedServer, queues: deque[deque[CountedLoad]]
) -> Iterator[tuple[CountedLoad, CostsOrCause]]:
    """The costs of the loads that can share a process: at least of one, or why it failed.

    Takes them out of `queues`; all of them if the server cannot be started.
    """
    process = None
    try:
        with in_valgrind(), runner.tools.launcher.running(server.spec, Random(SEED), runner.control) as started:
            process = CountingProcess(runner, server.inside, started)
            while queues and process.is_empty():
                process.fill(queues[0][0])
                while queues[0]:
                    costs = process.costs(queues[0][0])
                    yield queues[0].popleft(), costs
                queues.popleft()
    except (BenchmarkFailed, Transient) as error:
        runner.check()
        failed = queues[0].popleft() if queues else None
        if failed is None:
            return
        yield failed, error
        if process is None:
            yield from ((load, error) for loads in queues for load in loads)
            queues.clear()
        elif not queues[0]:
            queues.popleft()


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
