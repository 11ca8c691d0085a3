"""Client CPU time per request at -P 100 by kind of answer, relative to a hit: `python3 bench/answers.py BINARY`.

Needs redis-server and redis-benchmark. Loads run in shuffled order, and each is compared with the hit of its round: so
a busy machine hardly changes the medians of these ratios.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

PORT = "17399"
KEYS = "100000"
SHAPE = ["-r", KEYS, "-P", "100", "-c", "50"]
# By load: the test, a database (1 is filled, 2 is empty), and the largest allowed ratio to a hit.
LOADS = {
    "GET, hits": ("get", "1", None),
    "GET, misses": ("get", "2", 1.15),
    "SET": ("set", "3", 1.15),
    "INCR": ("incr", "4", 1.3),
    "mix `get:9+set:1`": ("get:9+set:1", "1", 1.3),
    "mix `get:1+set:1`": ("get:1+set:1", "1", 1.3),
}
PEER_LOADS = ("GET, hits", "GET, misses")
PEER_TARGET = 0.5


def ours(binary: str, address: list[str], load: str, requests: str) -> float:
    test, database, _ = LOADS[load]
    argv = [binary, "run", *address, *SHAPE, "-t", test, "--dbnum", database, "-n", requests, "--json"]
    document = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    return float(document["tests"][0]["client_cpu"]["ns_per_request"])


def theirs(address: list[str], load: str, requests: str) -> float:
    test, database, _ = LOADS[load]
    argv = ["redis-benchmark", *address, *SHAPE, "-t", test, "--dbnum", database, "-n", requests, "-q"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used_s * 1e9 / int(requests)


def verdict(value: float, target: float | None) -> str:
    return "| |" if target is None else f"≤ {target} | {'pass' if value <= target else 'MISS'} |"


def measure(binary: str, transports: dict[str, list[str]], rounds: int, requests: str) -> None:
    costs: dict[tuple[str, str, str], list[float]] = {}
    for _ in range(rounds):
        jobs = [(transport, load, "ours") for transport in transports for load in LOADS]
        jobs += [(transport, load, "theirs") for transport in transports for load in PEER_LOADS]
        for transport, load, whose in random.sample(jobs, len(jobs)):
            address = transports[transport]
            value = ours(binary, address, load, requests) if whose == "ours" else theirs(address, load, requests)
            costs.setdefault((transport, load, whose), []).append(value)
    for transport in transports:
        hits = costs[transport, "GET, hits", "ours"]
        for load, (_, _, target) in LOADS.items():
            own = costs[transport, load, "ours"]
            ratio = statistics.median(cost / hit for cost, hit in zip(own, hits, strict=True))
            print(f"| {transport}, {load} | {statistics.median(own):.0f} | {ratio:.2f} | {verdict(ratio, target)}")
        for load in PEER_LOADS:
            pairs = zip(costs[transport, load, "ours"], costs[transport, load, "theirs"], strict=True)
            ratio = statistics.median(cost / peer for cost, peer in pairs)
            print(f"| {transport}, {load}, to redis-benchmark | | {ratio:.2f} | {verdict(ratio, PEER_TARGET)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="speedbench, built with --release")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", default="400000", help="of each load")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        socket = str(Path(directory, "socket"))
        command = ["redis-server", "--port", PORT, "--unixsocket", socket, "--save", "", "--dir", directory]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not Path(socket).exists():
                time.sleep(0.1)
            fill = ["run", "-s", socket, "--dbnum", "1", "-t", "get", "-r", KEYS, "--prefill", "-n", "1000"]
            subprocess.run([options.binary, *fill], capture_output=True, check=True)
            measure(options.binary, {"unix": ["-s", socket], "tcp": ["-p", PORT]}, options.rounds, options.requests)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
