"""One run of a client, and rounds of them: side by side, in an order that a seed shuffles."""

import os
import random
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clients import CONNECTIONS, BenchClient, Load
from servers import Server

RUN_TIMEOUT_S = 60.0
PILOT_BATCHES = 40
CALIBRATIONS = 3


@dataclass(frozen=True)
class RunCost:
    """The cost of a run in seconds: on the clock, of the client's CPU time, and of the server's."""

    wall_s: float
    client_s: float
    server_s: float


@dataclass(frozen=True)
class BenchTrial:
    """The cost per request of a run, without the start and the end of the client's process."""

    rate: float
    client_ns: float
    server_ns: float


# Clients by name, each with the server that it drives.
Drives = Mapping[str, tuple[BenchClient, Server]]


def run(argv: Sequence[str], server: Server) -> tuple[RunCost, str]:
    """Run a client to its end; returns its cost and its output. The kernel charged the CPU time to its process."""
    server_s, began = server.cpu_s(), time.monotonic()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        watchdog = threading.Timer(RUN_TIMEOUT_S, process.kill)
        watchdog.start()
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - began
        watchdog.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"bench: {' '.join(argv)} ended with {process.returncode}: {output.strip()[-400:]}")
    return RunCost(wall_s, usage.ru_utime + usage.ru_stime, server.cpu_s() - server_s), output


def measure(
    drives: Drives, pipeline: int, rounds: int, seconds: float, dice: random.Random
) -> dict[str, list[BenchTrial]]:
    """The trials of each client, one per round; trials with the same index ran in the same round."""
    batch = CONNECTIONS * pipeline
    starts = {name: _start(*drive, pipeline) for name, drive in drives.items()}
    requests = _as_many_as_take(seconds, drives, starts, pipeline) // batch * batch
    trials: dict[str, list[BenchTrial]] = {name: [] for name in drives}
    for _ in range(rounds):
        for name in dice.sample(list(drives), len(drives)):
            client, server = drives[name]
            cost, output = run(client.argv(Load(server.address, requests, pipeline)), server)
            trials[name].append(_trial(cost, starts[name], requests - batch, client, output))
    return trials


def _start(client: BenchClient, server: Server, pipeline: int) -> RunCost:
    """The lowest cost of one batch on each connection: start, connections and report, subtracted from every run."""
    load = Load(server.address, CONNECTIONS * pipeline, pipeline)
    costs = [run(client.argv(load), server)[0] for _ in range(CALIBRATIONS)]
    return RunCost(
        min(cost.wall_s for cost in costs), min(cost.client_s for cost in costs), min(cost.server_s for cost in costs)
    )


def _as_many_as_take(seconds: float, drives: Drives, starts: Mapping[str, RunCost], pipeline: int) -> int:
    """The number of requests for runs of about so many seconds, from a pilot run of the first client."""
    name, (client, server) = next(iter(drives.items()))
    batch = CONNECTIONS * pipeline
    pilot = batch * (PILOT_BATCHES + 1)
    while True:
        argv = client.argv(Load(server.address, pilot, pipeline))
        took_s = min(run(argv, server)[0].wall_s for _ in range(CALIBRATIONS)) - starts[name].wall_s
        if took_s > seconds / 4:
            return max(int(seconds * (pilot - batch) / took_s), 2 * batch)
        pilot *= 4


def _trial(cost: RunCost, start: RunCost, requests: int, client: BenchClient, output: str) -> BenchTrial:
    per_request = 1e9 / requests
    return BenchTrial(
        client.rate(output) if client.rate else requests / (cost.wall_s - start.wall_s),
        (cost.client_s - start.client_s) * per_request,
        (cost.server_s - start.server_s) * per_request,
    )


def peak_memory(argv: Sequence[str], every_s: float = 0.01) -> int:
    """The peak resident memory of a client, in bytes. wait4 is no use: it counts this process before the exec."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    status, peak = Path(f"/proc/{process.pid}/status"), 0
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        lines = status.read_text().splitlines()
        peak = max([peak, *(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))])
        time.sleep(every_s)
    process.kill()
    _, errors = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"bench: {' '.join(argv)} ended with {process.returncode}: {errors.decode().strip()[-400:]}")
    return peak
