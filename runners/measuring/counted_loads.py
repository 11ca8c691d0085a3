"""What a server in callgrind is sent: the data that workloads share, and the rounds in which each of them is counted.

Benchmarks that differ in what is not counted (connections, transport, rate, warm-up) share a load, and loads that leave
the data as they were share it. A data set has at most KEYS keys, in tables of their final size.

A round is one connection that sends the same REQUESTS requests in whole batches. In between, the memory of the server
is stirred: a long request changes the objects for the words of the requests after it. Rounds alternate between SEEDS,
as the same request twice may have nothing left to do the second time.
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
ROUNDS, REQUESTS = 20, 96
REQUESTS_OF_STRUCTURES = 960  # their shape is random: the levels of a skip list differ from process to process
SEEDS = (1, 2)
# By length of a word in a long request, the most copies: an allocator gives each length memory of another size, and the
# names of commands, which the slow paths concern, are short.
COPIES = {3: 400, 12: 400, 20: 100, 28: 100, 44: 100}
# A timer of Redis and Valkey otherwise decides in which order a bucket has its keys, which moves a SET by 0.1%.
CALM = {"commands": [{"request": "CONFIG SET activerehashing no"}], "requests": 1}
DATA = ("keys", "values", "prefill", "prefill_request", "setup")
FILL_PIPELINE = 16
ONE_CONNECTION = {"clients": 1, "threads": 1, "warmup_s": 0.0}
# Tests that leave keys, values and their sizes as they were.
_LEAVES_DATA = re.compile(r"(?:(?:gets?(?:_\d+|_miss)?|set|m[gs]|ping)(?::\d+)?(?:[+;]|$))+")


@dataclass(frozen=True)
class CountedLoad:
    """A workload as it is counted, and the benchmarks that it stands for."""

    workload: Mapping[str, Any]
    benchmarks: tuple[Benchmark, ...]

    @property
    def name(self) -> str:
        return self.benchmarks[0].name

    @property
    def requests(self) -> int:
        """The requests of a round: whole batches."""
        is_random = not (self.workload.get("prefill") or "setup" in self.workload)
        return whole_batches(self.workload, REQUESTS_OF_STRUCTURES if is_random else REQUESTS)

    def rounds(self, protocol: str) -> list[dict[str, Any]]:
        """The phases of the driver: a stir, then a counted one, ROUNDS times."""
        again = {key: value for key, value in self.workload.items() if key not in DATA[2:]}
        phases = []
        for number in range(ROUNDS):
            counted = again | {"requests": self.requests, "seed": SEEDS[number % len(SEEDS)]}
            phases += [{"name": f"stir {number}"} | stir(again, protocol, number)]
            phases += [{"name": f"{COUNTED} {number}"} | counted]
        return phases

    def fill(self, protocol: str) -> list[dict[str, Any]]:
        """The phases of the driver that make the data, and let tables reach their final size.

        Each request moves one bucket or more to the larger table.
        """
        calm = [CALM | ONE_CONNECTION | {"name": "calm", "keys": self.workload["keys"]}] if protocol == "resp" else []
        data = {key: self.workload[key] for key in DATA if key in self.workload} | ONE_CONNECTION
        if setup := data.pop("setup", None):
            return [
                *calm,
                data | {"name": "fill", "commands": [{"request": setup["request"]}], "requests": setup["times"]},
            ]
        load = dict(self.workload) if not data.get("prefill") else {"test": "get"}
        load |= data | {"name": "fill", "pipeline": FILL_PIPELINE}
        return [*calm, load | {"requests": whole_batches(load, 2 * data["keys"]["count"])}]

    def data(self) -> bytes:
        """What the loads have in common that share their data."""
        keys = {key: value for key, value in self.workload["keys"].items() if key in ("count", "bytes")}
        shared = {key: self.workload[key] for key in DATA if key in self.workload} | {"keys": keys}
        is_shared = shared.get("prefill") and _LEAVES_DATA.fullmatch(self.workload.get("test") or "-")
        return canonical(shared if is_shared else self.workload)


def counted_loads(benchmarks: Iterable[Benchmark]) -> list[list[CountedLoad]]:
    """The different loads of these benchmarks, those that share their data together. The order does not matter."""
    loads: dict[bytes, CountedLoad] = {}
    for benchmark in benchmarks:
        workload = counted_workload(benchmark)
        earlier = loads.get(canonical(workload), CountedLoad(workload, ()))
        loads[canonical(workload)] = replace(earlier, benchmarks=(*earlier.benchmarks, benchmark))
    data: dict[bytes, list[CountedLoad]] = {}
    for load in loads.values():
        data.setdefault(load.data(), []).append(load)
    return list(data.values())


def counted_workload(benchmark: Benchmark) -> dict[str, Any]:
    keys = benchmark.workload.get("keys", {"count": 1})
    kept = {key: value for key, value in benchmark.workload.items() if key in KEPT_KEYS}
    return {"pipeline": 1} | kept | ONE_CONNECTION | {"keys": keys | {"count": min(keys["count"], KEYS)}}


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
    words = ("w" * length for length, most in COPIES.items() for _ in range(rng.randint(5, most)))
    request = " ".join(["EXISTS", *words])
    return {"commands": [{"request": request}], "keys": workload["keys"], "requests": 1} | ONE_CONNECTION
