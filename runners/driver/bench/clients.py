"""The clients that are compared, as command lines for the same load: GET of three bytes out of 100,000 keys."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from servers import BenchAddress

KEYS = 100_000
CONNECTIONS = 50


@dataclass(frozen=True)
class Load:
    """A number of GETs over 50 connections. Each connection sends `pipeline` of them, then waits for the answers."""

    address: BenchAddress
    requests: int
    pipeline: int


@dataclass(frozen=True)
class BenchClient:
    """`rate` reads requests per second out of the output, for a client whose process outlives its load."""

    argv: Callable[[Load], list[str]]
    rate: Callable[[str], float] | None = None


def like_redis_benchmark(*program: str | Path) -> BenchClient:
    def argv(load: Load) -> list[str]:
        options = ["-t", "get", "-r", KEYS, "-c", CONNECTIONS, "-n", load.requests, "-P", load.pipeline]
        return [str(argument) for argument in (*program, *_place(load.address), *options)]

    return BenchClient(argv)


def like_memtier(*program: str | Path, protocol: str) -> BenchClient:
    """Runs one thread. Prefix and range give the same keys as the other clients use; by default all
    connections of memtier would read the same keys in the same order, which the caches of the server favour.
    """

    def argv(load: Load) -> list[str]:
        options = {
            "threads": 1,
            "clients": CONNECTIONS,
            "requests": load.requests // CONNECTIONS,
            "pipeline": load.pipeline,
            "protocol": protocol,
            "ratio": "0:1",
            "data-size": 3,
            "key-prefix": "key:0000000",
            "key-minimum": KEYS // 10,
            "key-maximum": KEYS - 1,
        }
        arguments = [f"--{key}={value}" for key, value in options.items()]
        return [
            *map(str, program),
            *_place(load.address, socket="-S", host="-s"),
            *arguments,
            "--distinct-client-seed",
            "--hide-histogram",
        ]

    return BenchClient(argv, _memtier_rate)


def _memtier_rate(output: str) -> float:
    match = re.search(r"^Totals\s+([\d.]+)", output, re.MULTILINE)
    if not match:
        raise SystemExit("bench: memtier's output has no line of totals: leave it out")
    return float(match[1])


def _place(address: BenchAddress, socket: str = "-s", host: str = "-h") -> list[str]:
    if isinstance(address.location, Path):
        return [socket, str(address.location)]
    return [host, "127.0.0.1", "-p", str(address.location)]
