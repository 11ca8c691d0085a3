"""Compares the speed of speedbench with other clients in one run: `make bench`.

Every round runs each client once, in an order that the seed shuffles, against the same server; a ratio compares two
runs of one round. The cost of starting and ending a client's process is measured with one batch per connection, and
subtracted.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from clients import CONNECTIONS, KEYS, BenchClient, like_memtier, like_redis_benchmark
from machine import Clocks, Quiet, facts, two_cores
from report import AGAIN, AS_MEMTIER, MEMORY_TARGET_BYTES, NULL, OURS, BenchResult, Memory, render, summarise
from servers import TRANSPORTS, BenchAddress, Server, pinned, start_all
from trials import measure, peak_memory

RELEASE = Path(__file__).parent.parent / "target/release"
DRIVER = RELEASE / "speedbench"
PIPELINES = (1, 16, 100)
# What memtier calls a protocol.
MEMTIER_PROTOCOLS = {"resp": "redis", "memcached": "memcache_text"}
# How speedbench is called, by protocol; memcached-benchmark would store all keys before each run.
FRONT_ENDS = {"resp": ["redis-benchmark", "-q"], "memcached": ["run", "--protocol", "memcached"]}
MARKS = ("<!-- bench: begin -->\n", "<!-- bench: end -->\n")

Servers = Mapping[tuple[str, str], Server]
LoadResult = tuple[list[BenchResult], list[Memory], Quiet, float]


def main() -> None:
    options = _options()
    cpus = options.cpus or two_cores()
    results, memories, quiet, took_s = _bench(options, *cpus)
    if options.json:
        document = {"results": results, "memories": memories, "quiet": quiet}
        options.json.write_text(json.dumps(document, default=dataclasses.asdict, indent=1) + "\n")
    method = (
        f"GET of 3 bytes out of {KEYS:,} keys, {CONNECTIONS} connections, servers on CPU {cpus[0]}, clients with one "
        f"thread on CPU {cpus[1]}; {options.rounds} rounds of about {options.seconds} s each, seed {options.seed}; "
        f"medians, and ratios of two runs of one round. {took_s:.0f} s on {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    programs = facts(DRIVER, memtier=options.memtier, valkey_benchmark=options.valkey_benchmark)
    print(render(results, memories, programs, method, quiet), end="")
    if options.write:
        _write(options.write, summarise(results, programs, method, quiet))


def _bench(options: argparse.Namespace, server_cpu: int, client_cpu: int) -> LoadResult:
    cpus, load_before = (server_cpu, client_cpu), os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        servers = start_all(folder, RELEASE / "examples/null-server", server_cpu, stack)
        stack.enter_context(pinned(client_cpu))
        _fill(servers)
        before, own_before_s = Clocks.read(cpus), _own_cpu_s(servers)
        results = list(_measure(options, servers))
        after, own_s = Clocks.read(cpus), _own_cpu_s(servers) - own_before_s
        memories = _memories(servers)
    return results, memories, Quiet.between(before, after, own_s, load_before), after.at_s - before.at_s


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one run, about")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 0.25 s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpus", type=int, nargs=2, metavar=("SERVERS", "CLIENTS"))
    parser.add_argument("--memtier", default=shutil.which("memtier_benchmark"), metavar="PROGRAM")
    parser.add_argument("--valkey-benchmark", default=shutil.which("valkey-benchmark"), metavar="PROGRAM")
    parser.add_argument(
        "--other", type=Path, action="append", default=[], metavar="PROGRAM", help="another build to run beside"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="loads with this in their name, as 'redis, tcp, P1'")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every trial there")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the short table between the marks in that file")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 0.25
    for program in ("redis-server", "redis-benchmark", "memcached", options.memtier, options.valkey_benchmark):
        if program and not shutil.which(program):
            raise SystemExit(f"bench: there is no {program}: install it (Debian: redis-server redis-tools memcached)")
    return options


def _fill(servers: Servers) -> None:
    for transport in TRANSPORTS:
        for name, protocol in (("redis", "resp"), ("memcached", "memcached")):
            where = _native_place(servers[name, transport].address)
            load = ["--prefill", "-r", str(KEYS), "-d", "3", "-t", "get", "-n", "1"]
            argv: list[str | Path] = [DRIVER, "run", "--protocol", protocol, *where, *load]
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def _native_place(address: BenchAddress) -> list[str]:
    return ["-s", str(address.location)] if isinstance(address.location, Path) else ["-p", str(address.location)]


def _measure(options: argparse.Namespace, servers: Servers) -> Iterator[BenchResult]:
    dice = random.Random(options.seed)
    for protocol, transport, pipeline in itertools.product(FRONT_ENDS, TRANSPORTS, PIPELINES):
        result = BenchResult(protocol, transport, pipeline, {})
        if options.only not in result.load:
            continue
        print(f"bench: {result.load}", file=sys.stderr)
        real, null = (servers[name, transport] for name in (result.server, f"null {protocol}"))
        drives = {
            name: (client, null if name == NULL else real) for name, client in _clients(protocol, options).items()
        }
        trials = measure(drives, pipeline, options.rounds, options.seconds, dice)
        yield dataclasses.replace(result, trials=trials)


def _clients(protocol: str, options: argparse.Namespace) -> dict[str, BenchClient]:
    programs: dict[str, Path | str] = {OURS: DRIVER, AGAIN: DRIVER, NULL: DRIVER}
    programs |= {str(binary): binary for binary in options.other}
    clients = {name: like_redis_benchmark(program, *FRONT_ENDS[protocol]) for name, program in programs.items()}
    if protocol == "resp":
        clients["redis-benchmark"] = like_redis_benchmark("redis-benchmark", "-q")
        clients[AS_MEMTIER] = like_memtier(DRIVER, "memtier-benchmark", protocol=MEMTIER_PROTOCOLS[protocol])
    if protocol == "resp" and options.valkey_benchmark:
        clients["valkey-benchmark"] = like_redis_benchmark(options.valkey_benchmark, "-q")
    if options.memtier:
        clients["memtier"] = like_memtier(options.memtier, protocol=MEMTIER_PROTOCOLS[protocol])
    return clients


def _memories(servers: Servers) -> list[Memory]:
    def of(load: str, connections: int, arguments: str, target: float | None = None) -> Memory:
        at = _native_place(servers["redis", "tcp"].address)
        return Memory(
            load,
            connections,
            peak_memory([str(DRIVER), "run", *at, "-c", str(connections), *arguments.split()]),
            target,
        )

    get, large = f"-t get -r {KEYS} -n 200000", "-t set -r 1000 -d 16384 -P 100 -n 20000"
    return [
        of("GET, P1", CONNECTIONS, get),
        of("GET, P1", 10_000, get, MEMORY_TARGET_BYTES),
        of("GET, P1, open loop", 10_000, f"-t get -r {KEYS} --rate 20000 --duration 3", MEMORY_TARGET_BYTES),
        of("SET of 16 KiB, P100", CONNECTIONS, large),
        of("SET of 16 KiB, P100", 200, large),
    ]


def _own_cpu_s(servers: Servers) -> float:
    """CPU time of the servers, of the clients that have ended, and of this process."""
    usages = [resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + sum(server.cpu_s() for server in servers.values())


def _write(path: Path, text: str) -> None:
    """Replaces the table between the marks."""
    head, remainder = path.read_text().split(MARKS[0])
    _, tail = remainder.split(MARKS[1])
    path.write_text(head + MARKS[0] + text + MARKS[1] + tail)


if __name__ == "__main__":
    main()
