"""What a server in callgrind is sent: the data that workloads share, and the rounds in which each of them is counted.

Benchmarks that differ in what is not counted (connections, transport, rate, warm-up) share a load, and loads that leave
the data as they were share it. A data set has at most KEYS keys, in tables of their final size.

A round is one connection that sends the same number of requests in whole batches. In between, the memory of the server
is stirred: a long request changes the objects for the words of the requests after it. Rounds alternate between SEEDS,
as the same request twice may have nothing left to do the second time. What is random in the server, as the levels of a
skip list, has another seed in each round, and only MEMBERS, so that each round draws all of them again.

Half of the keys of memcached are never asked for. They fill the ends of its lists of the least recently used, so its
maintainer thread, which follows the clock, does not move the others. A multiget of 100 keys otherwise varies by 2.7%.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from runners.documents import Benchmark, canonical
from runners.errors import BenchmarkFailed
from runners.loads.speedbench import COUNTED
from runners.measuring.callgrind import KEPT_KEYS

KEYS = 5_000
MEMBERS = 600  # more than the 512 of a compact structure
ROUNDS, REQUESTS = 20, 96
REQUESTS_OF_STRUCTURES = 960
REQUESTS_OF_RANDOM = 3 * REQUESTS_OF_STRUCTURES
# The end of a connection of memcached, which may fall into the next round, costs a third of a request.
REQUESTS_BY_PROTOCOL = {"resp": REQUESTS, "memcached": 3 * REQUESTS}
SEEDS = range(1, 3)
# By length of a word in a long request, the most copies: an allocator gives each length memory of another size, and the
# names of commands, which the slow paths concern, are short.
COPIES = {3: 400, 12: 400, 20: 100, 28: 100, 44: 100}
DATA = ("keys", "values", "prefill", "prefill_request", "setup")
FILL_PIPELINE, FILLS = 16, 2
ONE_CONNECTION = {"clients": 1, "threads": 1, "warmup_s": 0.0}
_DICE = re.compile(r'["+](?:z[a-z]+|spop|[hs]rand[a-z]+|randomkey)\b', re.IGNORECASE)  # sorted sets, random members
_MULTIGET = re.compile(r"gets_\d")
# Tests that leave keys, values and their sizes as they were.
_LEAVES_DATA = re.compile(r"(?:(?:gets?(?:_\d+|_miss)?|set|m[gs]|ping)(?::\d+)?(?:[+;]|$))+")


@dataclass(frozen=True)
class CountedLoad:
    """A workload as it is counted, and the benchmarks that it stands for."""

    protocol: str
    workload: Mapping[str, Any]
    benchmarks: tuple[Benchmark, ...]

    @property
    def name(self) -> str:
        return self.benchmarks[0].name

    @property
    def requests(self) -> int:
        """The requests of a round: whole batches."""
        if is_random(self.workload):
            requests = REQUESTS_OF_RANDOM
        elif not (self.workload.get("prefill") or "setup" in self.workload):
            requests = REQUESTS_OF_STRUCTURES
        else:
            is_multiget = _MULTIGET.search(self.workload.get("test") or "")
            requests = REQUESTS if is_multiget else REQUESTS_BY_PROTOCOL[self.protocol]
        return whole_batches(self.workload, requests)

    @property
    def is_repeatable(self) -> bool:
        """Whether rounds with the same seed cost the same, but for slow places in memory."""
        return self.protocol == "resp" and not is_random(self.workload)

    def rounds(self) -> list[dict[str, Any]]:
        """The phases of the driver: a stir, then a counted one, ROUNDS times."""
        again = {key: value for key, value in self.workload.items() if key not in DATA[2:]}
        seeds = range(1, ROUNDS + 1) if is_random(self.workload) else SEEDS
        phases = []
        for number in range(ROUNDS):
            counted_phase = again | {"requests": self.requests, "seed": seeds[number % len(seeds)]}
            phases += [{"name": f"stir {number}"} | stir(again, self.protocol, number)]
            phases += [{"name": f"{COUNTED} {number}"} | counted_phase]
        return phases

    def fill(self) -> list[dict[str, Any]]:
        """The phases of the driver that make the data, and let tables reach their final size.

        Each request moves one bucket or more to the larger table.
        """
        data = {key: self.workload[key] for key in DATA if key in self.workload} | ONE_CONNECTION
        if setup := data.pop("setup", None):
            return [data | {"name": "fill", "commands": [{"request": setup["request"]}], "requests": setup["times"]}]
        ballast = []
        if data.get("prefill") and self.protocol == "memcached":
            ballast = ballast_below(data)
            del data["prefill"]
        load = dict(self.workload) if not self.workload.get("prefill") else {"test": "get"}
        load |= data | {"name": "fill", "pipeline": FILL_PIPELINE}
        return [*ballast, load | {"requests": whole_batches(load, FILLS * data["keys"]["count"])}]

    def data(self) -> bytes:
        """What the loads have in common that share their data."""
        keys = {key: value for key, value in self.workload["keys"].items() if key in ("count", "bytes")}
        shared = {key: self.workload[key] for key in DATA if key in self.workload} | {"keys": keys}
        is_shared = shared.get("prefill") and _LEAVES_DATA.fullmatch(self.workload.get("test") or "-")
        return canonical(shared if is_shared else self.workload)


def ballast_below(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The phases that set twice as many keys, then those of the data once more, which puts them before the others."""
    keys = {key: value for key, value in data["keys"].items() if key in ("count", "bytes")}
    both = dict(data) | {"name": "both", "test": "get", "keys": keys | {"count": 2 * keys["count"]}, "requests": 1}
    again = {key: value for key, value in data.items() if key != "prefill"} | {"test": "set", "pipeline": FILL_PIPELINE}
    again |= {"name": "again", "keys": keys | {"distribution": "sequential"}}
    return [both, again | {"requests": whole_batches(again, keys["count"])}]


def counted_loads(benchmarks: Iterable[Benchmark], protocol: str) -> list[list[CountedLoad]]:
    """The different loads of these benchmarks, those that share their data together. The order does not matter."""
    loads: dict[bytes, CountedLoad] = {}
    for benchmark in benchmarks:
        workload = counted_workload(benchmark)
        earlier = loads.get(canonical(workload), CountedLoad(protocol, workload, ()))
        loads[canonical(workload)] = replace(earlier, benchmarks=(*earlier.benchmarks, benchmark))
    data: dict[bytes, list[CountedLoad]] = {}
    for load in loads.values():
        data.setdefault(load.data(), []).append(load)
    return list(data.values())


def counted_workload(benchmark: Benchmark) -> dict[str, Any]:
    keys = benchmark.workload.get("keys", {"count": 1})
    workload = {key: value for key, value in benchmark.workload.items() if key in KEPT_KEYS}
    most = MEMBERS if is_random(workload) else KEYS
    return {"pipeline": 1} | workload | ONE_CONNECTION | {"keys": keys | {"count": min(keys["count"], most)}}


def is_random(workload: Mapping[str, Any]) -> bool:
    """Whether the server throws dice for these requests."""
    requests = {key: workload[key] for key in ("test", "commands", "sequence") if key in workload}
    return bool(_DICE.search(canonical(requests).decode()))


def check_countable(benchmark: Benchmark) -> None:
    """Raises BenchmarkFailed if a benchmark has no requests that one connection could send in turn."""
    mode = benchmark.workload.get("mode", "closed")
    if mode not in ("closed", "open"):
        raise BenchmarkFailed(f"a load of mode {mode} has no requests that one connection sends in turn")


def whole_batches(workload: Mapping[str, Any], requests: int) -> int:
    """At least so many requests, none of them in a batch that is not full."""
    steps = sum(step.get("times", 1) for step in workload.get("sequence") or [{}])
    batch: int = workload.get("pipeline", 1) * steps
    return -(-requests // batch) * batch


def stir(workload: Mapping[str, Any], protocol: str, number: int) -> dict[str, Any]:
    """A phase after which the next one gets other memory.

    A server that has an object for each word frees them in their order, so the next requests get other objects than
    before. If a server does not know the command, its objects stay the same, and it is counted nevertheless.
    """
    rng = Random(number)
    if protocol != "resp":
        load = dict(workload) | {"pipeline": rng.randint(1, FILL_PIPELINE)}
        return load | {"requests": whole_batches(load, FILL_PIPELINE)}
    names = ("w" * length for length, most in COPIES.items() for _ in range(rng.randint(5, most)))
    request = " ".join(["EXISTS", *names])
    return {"commands": [{"request": request}], "keys": workload["keys"], "requests": 1} | ONE_CONNECTION
