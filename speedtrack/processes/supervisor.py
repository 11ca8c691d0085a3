"""``python -m speedtrack up``, which ``manage.py up`` becomes: keep the server's processes up, without a runner.

It sets Django up once and forks the processes, so that they share the memory of common modules: this halves the memory
of each (docs/operating.md). Before that it starts no thread and opens no connection.
"""

import gc
import importlib
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.context import ForkProcess
from pathlib import Path

from runners import brokers, probing
from runners.brokers import Broker
from speedtrack.processes import devstack
from speedtrack.processes.devstack import BASE_DIR, Stack, StackError, running_broker

AGAIN_S = 3  # pause before an ended process is started again, and before the broker is tried again
REMIND_S = 30
COMMON = ("speedtrack.celery", "speedtrack.runs.planning.pushes")  # for most processes, after Django's apps


def main() -> None:
    """Serve until Ctrl-C or SIGTERM. Exits with a sentence if something does not start."""
    devstack.use_lasting_addresses()
    devstack.use_embedded_database(for_strangers=True)
    try:
        keep_up()
    except StackError as e:
        sys.exit(f"error: {e}")


def end_by_signals() -> None:
    """Raise KeyboardInterrupt for the first SIGTERM or SIGINT. Ignore later ones: they would cut the stop short."""

    def end(*_: object) -> None:
        for number in devstack.ENDING:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in devstack.ENDING:
        signal.signal(number, end)


def keep_up() -> None:
    """Start the server, and keep its processes up until it is stopped. Raises StackError."""
    end_by_signals()
    try:
        with running_broker() as broker_url:
            wait_for_broker(broker_url)
            prepare()
            keep_processes_up(ServerStack(os.environ["SPEEDTRACK_URL"], broker_url))
    except KeyboardInterrupt:
        print("\nEnded.", flush=True)


def prepare() -> None:
    """Run ``manage.py prepare`` in another process: it loads all pages, which would stay in memory here."""
    if subprocess.run([sys.executable, "manage.py", "prepare", "--verbosity", "0"], cwd=BASE_DIR).returncode:
        raise StackError("the database could not be prepared: see the lines above")


def wait_for_broker(url: str) -> None:
    """Wait until the broker takes messages, and report the reason. Raises StackError if the address is wrong."""
    try:
        broker = brokers.read_environment(os.environ, url)
    except brokers.AddressError as e:
        raise StackError(f"BROKER_URL: {e}") from None
    printed, printed_at = "", 0.0
    while reason := lack_of(broker):
        if reason != printed or time.monotonic() - printed_at > REMIND_S:
            print(f"Waiting for the broker {reason}", flush=True)
            printed, printed_at = reason, time.monotonic()
        time.sleep(AGAIN_S)


def lack_of(broker: Broker) -> str:
    """Why a broker takes no messages; empty if it takes them."""
    try:
        probing.probe(broker)
    except probing.Unavailable as e:
        return str(e)
    return ""


def keep_processes_up(server: "ServerStack") -> None:
    try:
        server.start()
        print(f"Serving at {os.environ['SPEEDTRACK_URL']}; logs: {server.logs}; Ctrl-C ends it.", flush=True)
        while True:
            devstack.require_embedded()
            for name in server.revive():
                log = server.logs / f"{name}.log"
                print(f"The {name} had ended, and was started again: see {log}", flush=True)
            time.sleep(1)
    finally:
        server.stop()


class ServerStack(Stack):
    """The server without a runner, for long service: a process that ends is started again."""

    address_setting = "WEB_ADDRESS"

    def __init__(self, url: str, broker_url: str) -> None:
        super().__init__(url, broker_url)
        self.started: dict[str, float] = {}

    def commands(self) -> dict[str, list[str]]:
        binds = {"web": "WEB_ADDRESS", "live": "LIVE_ADDRESS"}
        bound = {
            name: [*devstack.PROCESSES[name], "--bind", self.environment[variable]] for name, variable in binds.items()
        }
        return devstack.PROCESSES | bound

    @property
    def address(self) -> tuple[str, int]:
        return devstack.address_of(f"//{self.environment[self.address_setting]}")

    def start(self) -> None:
        load_common(self.environment)
        super().start()

    def start_process(self, name: str) -> None:
        process = Process(target=become, args=(name, self.commands()[name], self.logs / f"{name}.log"))
        process.start()
        self.processes[name] = process
        self.started[name] = time.monotonic()

    def revive(self) -> Iterator[str]:
        """Restart ended processes, each at most every few seconds. Yields their names."""
        for name, process in list(self.processes.items()):
            if process.poll() is not None and time.monotonic() - self.started[name] > AGAIN_S:
                self.start_process(name)
                yield name


def load_common(environment: dict[str, str]) -> None:
    """Import the common modules, with the environment variables of all processes."""
    os.environ.update(environment)
    import django  # here, because settings are read from the environment

    django.setup()
    for module in COMMON:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a child would write to each object and so copy it


class Process(ForkProcess):
    """A forked process, with the interface of ``subprocess.Popen``."""

    @property
    def returncode(self) -> int | None:
        return self.exitcode

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self.join(timeout)
        if self.exitcode is None:
            raise subprocess.TimeoutExpired(self.name, timeout or 0)
        return self.exitcode


def become(name: str, command: list[str], log: Path) -> None:
    """Turn a forked process into a process of the server, as Python with these arguments would be."""
    os.setsid()  # Ctrl-C goes to the parent only, which ends its children in order
    for number in devstack.ENDING:
        signal.signal(number, signal.SIG_DFL)
    devstack.end_with_parent()
    for lock in devstack.broker_locks:  # this process may outlive its parent, which a new one then replaces
        lock.close()
    devstack.call_process(f"up-{name}")
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    os.chdir(BASE_DIR)
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
