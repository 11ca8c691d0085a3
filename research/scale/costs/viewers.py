"""Many viewers of growing logs, and claims meanwhile, from the processes that an installation runs."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from django.db import connection

from research.scale.costs.claimers import CLAIMS, Claimer, cpu_ms, queue_again, wait_for, web_server
from research.scale.costs.meter import Cost
from runners.tests.ports import free_port
from speedtrack.runs.documents import LogPiece
from speedtrack.runs.models import LogChunk, Machine, MachineToken, Run
from speedtrack.runs.queue import queue

VIEWERS = 300
SECONDS = 30


@dataclass(frozen=True)
class ViewerLoad:
    """The share of a core that the process of streams used, and the cost of claims without viewers and with them."""

    share: float
    events: int
    alone: Cost
    beside: Cost


def watch(viewers: int = VIEWERS, seconds: int = SECONDS) -> ViewerLoad:
    """Let them watch a run of each machine but the first, whose log gets a line each second. Everything is undone."""
    first, *watched_machines = Machine.objects.order_by("pk")
    runs = [run for machine in watched_machines if (run := queue.claim(machine))]
    try:
        with web_server() as (port, web), live_server() as (live_port, live):
            alone = claims(first, port, web)
            together = Viewers(live_port, [run.pk for run in runs], viewers)
            with together:
                write(runs, 0, 2)  # all viewers have come
                before, heard, began_at = cpu_ms(live), together.heard, monotonic()
                claiming = Claims(first, port, web)
                claiming.start()
                write(runs, 2, seconds)
                share = (cpu_ms(live) - before) / (1000 * (monotonic() - began_at))
                events = together.heard - heard
                claiming.join()
            return ViewerLoad(share, events, alone, claiming.cost)
    finally:
        LogChunk.objects.filter(attempt__run__in=runs).delete()
        queue_again([run.pk for run in runs])
        Run.objects.filter(pk__in=[run.pk for run in runs]).update(lease_until=None)


def write(runs: list[Run], first: int, seconds: int) -> None:
    """A line of each log in each second."""
    began_at = monotonic()
    for second in range(seconds):
        for run in runs:
            piece = LogPiece(token=run.lease_token, seq=first + second, phase="measure", text=f"trial {second}\n")
            queue.keep_log(run.machine, run.pk, piece)
        threading.Event().wait(max(0.0, began_at + second + 1 - monotonic()))


def claims(machine: Machine, port: int, web: int, count: int = CLAIMS) -> Cost:
    """What claims of one machine cost, one after the other."""
    claimer = Claimer(machine, port, threading.Barrier(1), count)
    before = cpu_ms(web)
    claimer.work()
    MachineToken.objects.filter(key=claimer.token.split("_")[1]).delete()
    queue_again(claimer.claimed)
    return Cost(claimer.clock_ms, cpu_ms(web) - before, 0, 0)


class Claims(threading.Thread):
    """The same while logs are written."""

    cost: Cost

    def __init__(self, machine: Machine, port: int, web: int) -> None:
        super().__init__()
        self.asked = machine, port, web

    def run(self) -> None:
        try:
            self.cost = claims(*self.asked)
        finally:
            connection.close()


class Viewers(threading.Thread):
    """Connections that read their streams and count the lines; a thread with one loop."""

    heard = 0

    def __init__(self, port: int, runs: list[int], count: int) -> None:
        super().__init__()
        self.port, self.runs, self.count = port, runs, count
        self.loop = asyncio.new_event_loop()

    def __enter__(self) -> "Viewers":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()

    def run(self) -> None:
        tasks = [self.loop.create_task(self.view(self.runs[n % len(self.runs)])) for n in range(self.count)]
        self.loop.run_forever()
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    async def view(self, run: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET /live/runs/{run} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        try:
            while line := await reader.readline():
                self.heard += line.startswith(b"event: log")
        finally:
            writer.close()


@contextmanager
def live_server() -> Iterator[tuple[int, int]]:
    """The port and the process id of a process of streams on this database."""
    port = free_port()
    bind = ["--bind", f"127.0.0.1:{port}", "--per-address", str(1000)]  # all viewers of a measurement come from here
    command = [sys.executable, "-m", "speedtrack.processes.live", *bind]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, "/live/healthz")
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)
