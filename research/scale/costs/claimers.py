"""Machines that claim at the same time, over HTTP, from the web server that an installation runs."""

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter, sleep

from django.db import connection, transaction

from research.scale.costs.meter import TICK_MS, Cost, stat_fields
from runners.tests.ports import free_port
from speedtrack import __version__
from speedtrack.runs.fleet import tokens
from speedtrack.runs.models import Attempt, Machine, MachineToken, Run, RunEvent, Status
from speedtrack.runs.scheduling.versions import PROTOCOL

CLAIMS = 100  # of each machine, unless another number is given
# Written by hand, so that a claimer takes little of the cores that it measures.
TAKE_AWAY = "UPDATE runs_run SET status = 'cancelled', lease_until = NULL WHERE id = %s"
CLAIM = {"version": __version__, "protocol": PROTOCOL}


@contextmanager
def web_server() -> Iterator[tuple[int, int]]:
    """The port and the process id of a web server on this database."""
    port = free_port()
    command = [sys.executable, "-m", "speedtrack.http.webserver", "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def wait_for(port: int, path: str = "/healthz") -> None:
    for _ in range(300):
        try:
            connected = http.client.HTTPConnection("127.0.0.1", port)
            connected.request("GET", path)
            connected.getresponse().read()
            return
        except OSError:
            sleep(0.1)
    raise RuntimeError("the web server does not answer")


class Claimer:
    """The runner of one machine. What it has claimed is taken from it at once, so that it may claim the next run."""

    def __init__(self, machine: Machine, port: int, together: threading.Barrier, count: int = CLAIMS) -> None:
        self.machine, self.port, self.together, self.count = machine, port, together, count
        self.token = tokens.give(machine)
        self.claimed: list[int] = []
        self.clock_ms: list[float] = []

    def work(self) -> None:
        connected = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        body = json.dumps(CLAIM)
        try:
            self.together.wait()
            for _ in range(self.count):
                began_at = perf_counter()
                connected.request("POST", "/api/runner/claim", body, headers)
                answer = connected.getresponse()
                job = json.loads(answer.read())
                self.clock_ms.append(1000 * (perf_counter() - began_at))
                assert answer.status == 200, job
                self.claimed.append(job["run"])
                with connection.cursor() as cursor:
                    cursor.execute(TAKE_AWAY, [job["run"]])
        finally:
            connected.close()
            connection.close()


def race() -> tuple[Cost, float]:
    """What a claim costs while all machines claim at once, and the claims per second. Everything is undone.

    The cost is that of the web server alone. Raises AssertionError if a run was claimed twice.
    """
    with web_server() as (port, pid):
        machines = list(Machine.objects.order_by("pk"))
        together = threading.Barrier(len(machines) + 1)
        claimers = [Claimer(machine, port, together) for machine in machines]
        with ThreadPoolExecutor(len(claimers)) as pool:
            futures = [pool.submit(claimer.work) for claimer in claimers]
            before = cpu_ms(pid)
            together.wait()
            began_at = perf_counter()
            for future in futures:
                future.result()
            seconds = perf_counter() - began_at
        web_ms = cpu_ms(pid) - before
    for claimer in claimers:
        MachineToken.objects.filter(key=claimer.token.split("_")[1]).delete()
    claimed = [run for claimer in claimers for run in claimer.claimed]
    queue_again(claimed)
    assert len(set(claimed)) == len(claimed), "a run was claimed twice"
    clock = [ms for claimer in claimers for ms in claimer.clock_ms]
    return Cost(clock, web_ms, 0, 0), len(claimed) / seconds


def cpu_ms(pid: int) -> float:
    return sum(map(int, stat_fields(pid)[11:13])) * TICK_MS


@transaction.atomic
def queue_again(runs: list[int]) -> None:
    RunEvent.objects.filter(run__in=runs).delete()
    Attempt.objects.filter(run__in=runs).delete()
    fresh = {"status": Status.QUEUED, "attempt": 0, "lease_token": 0, "started_at": None}
    Run.objects.filter(pk__in=runs).update(**fresh)
