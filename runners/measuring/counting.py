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
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from runners.build.elf import function_names
from runners.documents import Benchmark
from runners.errors import BenchmarkFailed, Transient
from runners.loads.target import Target
from runners.measuring.callgrind import NO_VALGRIND, REPORT, SEED, SLOWDOWN, in_valgrind
from runners.measuring.callgrind_report import cost_of_parts, function_costs, parts_of
from runners.measuring.counted_loads import ROUNDS, SEEDS, CountedLoad, check_countable, counted_loads
from runners.measuring.stacks import Stack, StackTable
from runners.measuring.trials import MEASURE, Trial, TrialRunner, TrialStart
from runners.servers.answers import ServerRequest, ask
from runners.servers.capacity import recipe_for
from runners.servers.server import GREETINGS, ServerProcess, ServerSpec

METRIC = "counted_instructions_per_request"
MOST_FUNCTIONS = 60  # of a count that keep their names, the costliest
OTHERS = "(other functions)"
RANDOM_BYTES = 1 << 16
MOST_CPU_S = 60.0  # of a server for one load; those of the suites take 0.3 to 3 s
ANSWER_S, LONGEST_ANSWER = 60.0, 200
LONGEST_CAUSE = 1_000
# By protocol: a request that leaves the server as it was after its start, and the answer.
EMPTYING = {"resp": (b"*1\r\n$8\r\nFLUSHALL\r\n", b"+OK\r\n")}
# By protocol: what keeps clocks away from the data. A timer of Redis and Valkey otherwise decides in which order a
# bucket has its keys, which moves a SET by 0.1%. memcached moves keys by age, and out of lists that have too many.
CALMING = {
    "resp": b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$15\r\nactiverehashing\r\n$2\r\nno\r\n",
    "memcached": b"lru tune 79 1 1000 1000\r\n",
}
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
class Costs:
    """The instructions of so many requests by stack, inside of one function."""

    inside: str
    stacks: Counter[Stack]
    requests: int

    def count(self) -> Count:
        costs = function_costs(self.stacks)
        per_request = {name: cost / self.requests for name, cost in costs.items() if cost > 0}
        costliest = sorted(per_request, key=lambda name: (-per_request[name], name))
        functions = {name: round(per_request[name], 3) for name in costliest[:MOST_FUNCTIONS]}
        total = costs.total() / self.requests
        if remainder := round(total - sum(functions.values()), 3):
            functions[OTHERS] = remainder
        return Count(self.inside, total, functions)


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


@dataclass(frozen=True)
class CountedServer:
    """A server in callgrind that counts inside of one function."""

    inside: str
    spec: ServerSpec = field(hash=False)


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
    waiting = deque(deque(loads) for loads in data_sets)
    while waiting:
        yield from costs_in_one_process(runner, server, waiting)


def costs_in_one_process(
    runner: TrialRunner, server: CountedServer, waiting: deque[deque[CountedLoad]]
) -> Iterator[tuple[CountedLoad, CostsOrCause]]:
    """The costs of the loads that can share a process: at least of one, or why it failed.

    Takes them out of `waiting`; all of them if the server cannot be started.
    """
    process = None
    try:
        with in_valgrind(), runner.tools.launcher.running(server.spec, Random(SEED), runner.control) as started:
            process = CountingProcess(runner, server.inside, started)
            while waiting and process.is_empty():
                process.fill(waiting[0][0])
                while waiting[0]:
                    costs = process.costs(waiting[0][0])
                    yield waiting[0].popleft(), costs
                waiting.popleft()
    except (BenchmarkFailed, Transient) as error:
        runner.check()
        failed = waiting[0].popleft() if waiting else None
        if failed is None:
            return
        yield failed, error
        if process is None:
            yield from ((load, error) for loads in waiting for load in loads)
            waiting.clear()
        elif not waiting[0]:
            waiting.popleft()


@dataclass
class CountingProcess:
    """A running server in callgrind."""

    runner: TrialRunner
    inside: str
    server: ServerProcess
    parts_read: int = 0
    is_filled: bool = False

    def is_empty(self) -> bool:
        """Empties the server if it has had a data set. False: it cannot be emptied."""
        if not self.is_filled:
            return True
        request, answer = EMPTYING.get(self._target.protocol, (b"", b""))
        try:
            return bool(request) and self._ask(request) == answer
        except BenchmarkFailed:
            return False

    def fill(self, load: CountedLoad) -> None:
        """Makes the data of a load. Raises BenchmarkFailed, Transient."""
        self.is_filled = True
        self._ask(CALMING[self._target.protocol])  # a server that does not know the command is counted nevertheless
        self._send(load, load.fill())

    def costs(self, load: CountedLoad) -> Costs:
        """The costs by stack of the rounds with each seed. Raises BenchmarkFailed, Transient."""
        used_s = self._target.cpu_ns() / 1e9
        self._parts()
        self._send(load, load.rounds())
        parts = self._parts()
        self._ask(GREETINGS[self._target.protocol][0])  # its connection ends the last round's part
        check_cpu(self._target.cpu_ns() / 1e9 - used_s)
        of_greeting = self._parts()
        rounds = parts_of_rounds(parts + of_greeting, len(of_greeting))
        table, stacks = StackTable(), Counter[Stack]()
        joined = lowest if load.is_repeatable else middle
        for number in range(len(SEEDS)):
            stacks.update(joined(self._costs(rounds[number :: len(SEEDS)], table)))
        if not stacks.total():
            raise BenchmarkFailed(
                f"no request was seen inside of {self.inside}: it may be inlined where it is called; name its caller"
            )
        return Costs(self.inside, stacks, len(SEEDS) * load.requests)

    def _costs(self, rounds: list[list[Path]], table: StackTable) -> Iterator[Counter[Stack]]:
        for parts in rounds:
            self.runner.check()
            yield cost_of_parts(parts, table)

    def _send(self, load: CountedLoad, phases: list[dict[str, Any]]) -> None:
        benchmark = replace(load.benchmarks[0], workload=load.workload)
        try:
            self.runner.tools.driver.send(benchmark, phases, self._target, SEED, self.runner.control)
        except (BenchmarkFailed, Transient):
            self.server.check_alive()
            raise
        self.server.check_alive()

    def _ask(self, request: bytes) -> bytes:
        try:
            return ask(self.server.address, ServerRequest(request, is_line, ANSWER_S, LONGEST_ANSWER))
        except OSError as error:
            self.server.check_alive()
            raise BenchmarkFailed(f"the server does not answer: {error}") from error

    def _parts(self) -> list[Path]:
        """The parts of the report that are new since the last call."""
        parts = [part for part in parts_of(self._target.directory / "data" / REPORT) if part.name != REPORT]
        new, self.parts_read = parts[self.parts_read :], len(parts)
        return new

    @property
    def _target(self) -> Target:
        server = self.server
        return Target(self.runner.job.server.protocol, server.address, server.pid, server.output.parent)


def is_line(answer: bytes) -> bool:
    return answer.endswith(b"\n")


def parts_of_rounds(parts: list[Path], each: int) -> list[list[Path]]:
    """The parts of each round, from those of a load and of the one connection after it, which had `each` parts.

    Connections to stirs and to rounds take turns. A part ends with a connection; a server that asks again for
    connections when there are none causes as many more for each of them. Raises BenchmarkFailed if there are fewer.
    """
    connections = 2 * ROUNDS + 1
    if not each or len(parts) < each * connections:
        raise BenchmarkFailed(
            f"callgrind saw {len(parts)} of {connections} connections: the server must accept them one by one with a "
            "function of the C library"
        )
    last = parts[-each * connections :]
    return [last[each * number + 1 : each * (number + 1) + 1] for number in range(1, connections, 2)]


def check_cpu(used_s: float) -> None:
    """Raises BenchmarkFailed if a count takes too much CPU time (not time: a busy machine must not end a count)."""
    if used_s > MOST_CPU_S:
        raise BenchmarkFailed(
            f"counting its instructions took more than {MOST_CPU_S:g} s of CPU time: give the benchmark fewer keys or "
            "smaller values, or leave it out of `instructions`"
        )


def lowest(rounds: Iterable[Counter[Stack]]) -> Counter[Stack]:
    """The lowest cost of each stack, as places in memory make other stacks slow in each round.

    Only the costs of one round, and the lowest so far, are kept at a time.
    """
    remaining = iter(rounds)
    costs = next(remaining)
    for later in remaining:
        for stack in costs:
            costs[stack] = min(costs[stack], later[stack])
    return costs


def middle(rounds: Iterable[Counter[Stack]]) -> Counter[Stack]:
    """The mean of the middle half of each stack's costs: what is random in each round, without its exceptions."""
    each = list(rounds)
    return Counter({stack: middle_mean([costs[stack] for costs in each]) for stack in set[Stack]().union(*each)})


def middle_mean(costs: list[int]) -> int:
    cut = len(costs) // 4
    kept = sorted(costs)[cut : len(costs) - cut]
    return round(sum(kept) / len(kept))


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
