"""A server in callgrind, and the cost of the loads that it serves."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runners.errors import BenchmarkFailed, Transient
from runners.loads.target import Target
from runners.measuring.callgrind import REPORT, SEED
from runners.measuring.callgrind_report import cost_of_parts, function_costs, parts_of
from runners.measuring.counted_loads import ROUNDS, SEEDS, CountedLoad
from runners.measuring.stacks import Stack, StackTable
from runners.measuring.trials import TrialRunner
from runners.servers.answers import ServerRequest, ask
from runners.servers.server import GREETINGS, ServerProcess, ServerSpec

MOST_FUNCTIONS = 60  # of a count that keep their names, the costliest
OTHERS = "(other functions)"
RANDOM_BYTES = 1 << 16
MOST_CPU_S = 60.0  # of a server for one load; those of the suites take 0.3 to 3 s
ANSWER_S, LONGEST_ANSWER = 60.0, 200
# By protocol: a request that leaves the server as it was after its start, and the answer.
EMPTYING = {"resp": (b"*1\r\n$8\r\nFLUSHALL\r\n", b"+OK\r\n")}
# By protocol: what keeps clocks away from the data. A timer of Redis and Valkey otherwise decides in which order a
# bucket has its keys, which moves a SET by 0.1%. memcached moves keys by age, and out of lists that have too many.
CALMING = {
    "resp": b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$15\r\nactiverehashing\r\n$2\r\nno\r\n",
    "memcached": b"lru tune 79 1 1000 1000\r\n",
}
ACCEPTS = ("accept", "accept4")


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


@dataclass(frozen=True)
class CountedServer:
    """A server in callgrind that counts inside of one function."""

    inside: str
    spec: ServerSpec = field(hash=False)


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
        combine = lowest if load.is_repeatable else middle
        for number in range(len(SEEDS)):
            stacks.update(combine(self._costs(rounds[number :: len(SEEDS)], table)))
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
    inner = sorted(costs)[cut : len(costs) - cut]
    return round(sum(inner) / len(inner))
