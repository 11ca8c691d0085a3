"""Child processes in groups of their own: started pinned, always ended, found again after a crash.

Every process started here carries `SPEEDTRACK_MARK` in its environment (one prefix per runner, see identity.py, and one
random end per start), and is written to a state file with its start time. So a runner that was killed can
end what it left behind, whatever those processes did to hide (new session, new parent), and never a foreign one.
In a sandbox nothing can hide: the kernel ends all its processes when the runner ends, or dies.
"""

import contextlib
import json
import logging
import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from runners.machine import memory
from runners.processes import identity
from runners.processes.control import Control, boottime
from runners.sandbox import inside
from runners.sandbox.inside import Inside, Program
from runners.sandbox.policy import NONE, Sandbox, View

log = logging.getLogger(__name__)

MARK_VARIABLE = "SPEEDTRACK_MARK"
TERM_GRACE_S = 2.0
KILL_GRACE_S = 5.0
LOOKS = 20  # of a search for marked processes, should they keep forking


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, or None if there is no such process (or a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


@contextlib.contextmanager
def affinity(cpus: frozenset[int] | None) -> Iterator[None]:
    """Children started inside inherit these CPUs; the calling thread gets its own back."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def aside(cpus: frozenset[int]) -> Iterator[None]:
    """Every thread of this process runs on these CPUs inside, and where it ran before afterwards."""
    before: dict[int, Set[int]] = {}
    try:
        # Look again for threads that one not yet moved has started meanwhile.
        while found := {thread: mask for thread, mask in _masks().items() if mask != cpus and thread not in before}:
            before |= found
            for thread in found:
                _move(thread, cpus)
        yield
    finally:
        for thread, mask in before.items():
            _move(thread, mask)


def _masks() -> dict[int, Set[int]]:
    """The affinity of each thread of this process."""
    masks: dict[int, Set[int]] = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            masks[int(task.name)] = os.sched_getaffinity(int(task.name))
    return masks


def _move(thread: int, cpus: Set[int]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.sched_setaffinity(thread, cpus)


@dataclass
class Child:
    """A started process that leads its own session and group. `process`: itself, or the keeper of its sandbox."""

    process: subprocess.Popen[bytes]
    record: Path
    mark: str
    pidfd: int
    inside: Inside | None = None

    @property
    def pid(self) -> int:
        return self.inside.pid if self.inside else self.process.pid

    def exited(self) -> int | None:
        """The exit status (negative: the signal), or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if select.select([self.pidfd], [], [], 0)[0]:
                return self.process.wait(KILL_GRACE_S)  # of a sandbox: all that was started in it has ended, too
        return self.process.poll()

    def terminate(self) -> None:
        """SIGTERM to the process and its group."""
        if self.exited() is None:
            _signal_group(self.pid, signal.SIGTERM)

    def wait(self, control: Control, timeout_s: float) -> int | None:
        """The exit status, or None after `timeout_s`. Raises the error of an abort."""
        deadline = boottime() + timeout_s
        while (status := self.exited()) is None and (left := deadline - boottime()) > 0:
            control.wait_readable([self.pidfd], left)
        return status

    def end(self, grace_s: float = TERM_GRACE_S) -> None:
        """SIGTERM to the group, SIGKILL after `grace_s`, and to all that is left of it afterwards."""
        self.terminate()
        select.select([self.pidfd], [], [], grace_s)
        if self.inside:
            self.inside.end()
        else:
            _signal_group(self.pid, signal.SIGKILL)
        self.process.wait(KILL_GRACE_S)
        end_marked(self.mark)
        os.close(self.pidfd)
        self.record.unlink(missing_ok=True)


class Processes:
    """Starts the processes of one runner home and knows how to find them again."""

    def __init__(self, home: Path, sandbox: Sandbox = NONE) -> None:
        self.sandbox = sandbox
        self.directory = home / "processes"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.mark, made_now = identity.mark(home)
        if made_now:  # of a copied home: these are processes of the other runner
            for record in self.directory.glob("*.json"):
                record.unlink(missing_ok=True)
        self.latest: int | None = None  # the process that was started last

    def start(
        self,
        argv: list[str],
        environment: dict[str, str],
        directory: Path,
        output: IO[bytes] | int,
        errors: IO[bytes] | int = subprocess.STDOUT,
        cpus: frozenset[int] | None = None,
        nodes: frozenset[int] = frozenset(),
        view: View | None = None,
        network: Inside | None = None,
    ) -> Child:
        """Starts a process in a session of its own on the given CPUs, with memory of the given nodes (none: of any).

        With a view it runs in a sandbox of its own, where this machine can make one; with a network in that of another
        one's sandbox. Raises OSError if it cannot be started.
        """
        mark = f"{self.mark}.{secrets.token_hex(4)}"
        marked = {MARK_VARIABLE: mark}
        everything = {**environment, **marked}
        options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": output,
            "stderr": errors,
            "start_new_session": True,
            "umask": 0o022,
        }
        within = None
        with affinity(cpus), memory.bound(nodes):
            if view and self.sandbox.works:
                view.tmp.mkdir(exist_ok=True)
                program = Program(argv, everything, directory, self.sandbox.mounts(view))
                process, within = inside.start(program, env=marked, **options)
            else:
                entered = network.enter if network else None
                process = subprocess.Popen(argv, cwd=directory, env=everything, preexec_fn=entered, **options)
        child = Child(process, self.directory / f"{process.pid}.json", mark, _pidfd(process, within), within)
        self.latest = child.pid
        child.record.write_text(json.dumps({"pid": process.pid, "start_ticks": start_ticks(process.pid)}))
        return child

    def end_strays(self) -> int:
        """Ends what a killed runner of this home left behind; returns how many processes that were."""
        ended = sum(_end_recorded(record) for record in self.directory.glob("*.json"))
        return ended + end_marked(self.mark)


def _pidfd(process: subprocess.Popen[bytes], within: Inside | None) -> int:
    """Becomes readable when the process ends; in a sandbox it may be gone already: then its keeper ends soon."""
    try:
        return os.pidfd_open(within.pid if within else process.pid)
    except ProcessLookupError:
        return os.pidfd_open(process.pid)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _end_recorded(record: Path) -> int:
    try:
        content = json.loads(record.read_text())
        pid, ticks = int(content["pid"]), content["start_ticks"]
    except (OSError, ValueError, KeyError, TypeError):
        pid, ticks = 0, None
    alive = pid > 1 and ticks is not None and start_ticks(pid) == ticks
    if alive:
        log.warning("ending process %d, left behind by an earlier runner of this home", pid)
        _signal_group(pid, signal.SIGKILL)
        _await_end(pid, ticks)
    record.unlink(missing_ok=True)
    return int(alive)


def _await_end(pid: int, ticks: int) -> None:
    deadline = time.monotonic() + KILL_GRACE_S
    while start_ticks(pid) == ticks and time.monotonic() < deadline:
        time.sleep(0.01)


def end_marked(mark: str) -> int:
    """SIGKILL to every process whose environment carries a mark that starts so; returns how many."""
    needle = f"{MARK_VARIABLE}={mark}".encode()
    total = 0
    # A process that forks while /proc is read may be passed by: look again until a look finds none.
    for _ in range(LOOKS):
        ended = sum(_end_if_marked(pid, needle) for pid in _other_processes())
        total += ended
        if not ended:
            break
    return total


def _other_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _end_if_marked(pid: int, needle: bytes) -> int:
    """The descriptor is opened before the look, so the process that is looked at is the one that is ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return 0
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if not any(variable.startswith(needle) for variable in variables):
            return 0
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [], KILL_GRACE_S)
        return 1
    except OSError:
        return 0
    finally:
        os.close(pidfd)
