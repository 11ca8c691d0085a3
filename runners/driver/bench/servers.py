"""The servers of a benchmark: each a process pinned to one core, listening on loopback and on a unix socket."""

import contextlib
import getpass
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT_S = 10.0
TRANSPORTS = ("tcp", "unix")


@dataclass(frozen=True)
class BenchAddress:
    """Where a server listens: a port of 127.0.0.1, or the path of a unix socket."""

    location: int | Path

    def connect(self) -> socket.socket:
        if isinstance(self.location, Path):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(self.location))
            return client
        return socket.create_connection(("127.0.0.1", self.location))


@dataclass(frozen=True)
class Server:
    pid: int
    address: BenchAddress

    def cpu_s(self) -> float:
        """CPU time of all threads so far; the clock is the kernel's encoding of clock_getcpuclockid(3)."""
        return time.clock_gettime((~self.pid << 3) | 2)


def start_all(folder: Path, null_server: Path, cpu: int, stack: contextlib.ExitStack) -> dict[tuple[str, str], Server]:
    """Each server by its name ("redis", "memcached", "null resp", "null memcached") and its transport."""
    programs: dict[str, Callable[[BenchAddress], Sequence[str | Path]]] = {
        "redis": lambda at: ["redis-server", "--save", "", "--dir", folder, "--maxclients", "11000", *_redis(at)],
        "memcached": lambda at: ["memcached", "-t", "1", "-c", "11000", "-u", getpass.getuser(), *_memcached(at)],
        "null resp": lambda at: [null_server, "resp", str(at.location)],
        "null memcached": lambda at: [null_server, "memcached", str(at.location)],
    }
    servers = {}
    for name, program in programs.items():
        for transport in TRANSPORTS:
            location = _free_port() if transport == "tcp" else folder / f"{name.replace(' ', '-')}.sock"
            address = BenchAddress(location)
            pid = stack.enter_context(_running(program(address), cpu))
            _await(address, name)
            servers[name, transport] = Server(pid, address)
    return servers


def _redis(at: BenchAddress) -> list[str | Path]:
    return (
        ["--port", "0", "--unixsocket", at.location] if isinstance(at.location, Path) else ["--port", str(at.location)]
    )


def _memcached(at: BenchAddress) -> list[str | Path]:
    if isinstance(at.location, Path):
        return ["-s", at.location, "-a", "777"]
    return ["-l", "127.0.0.1", "-p", str(at.location), "-U", "0"]


@contextlib.contextmanager
def _running(argv: Sequence[str | Path], cpu: int) -> Iterator[int]:
    with pinned(cpu):
        server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield server.pid
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def pinned(cpu: int) -> Iterator[None]:
    """Pins this process to one CPU in the block; processes started there stay on it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _await(address: BenchAddress, name: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            address.connect().close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: the {name} server does not answer ({error}): start it by hand") from error
            time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
