"""Find and kill processes by the mark in their environment, or by their number and start time."""

import json
import logging
import os
import select
import signal
import time
from pathlib import Path

log = logging.getLogger(__name__)

MARK_VARIABLE = "SPEEDTRACK_MARK"
KILL_GRACE_S = 30.0  # only a machine without a free core needs it
ENVIRONMENT_BYTES = 8 << 20  # more than the kernel starts a program with; a process may name any of its memory
MOST_SEARCHES = 20  # for marked processes that keep forking


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot; None if there is no such process, or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def end_recorded(record: Path) -> int:
    """Kills the process of a state file if it still runs, and removes the file; returns 1 if it did, else 0."""
    try:
        content = json.loads(record.read_text())
        pid, ticks = int(content["pid"]), content["start_ticks"]
    except (OSError, ValueError, KeyError, TypeError):
        pid, ticks = 0, None
    alive = pid > 1 and ticks is not None and start_ticks(pid) == ticks
    if alive:
        log.warning("ending process %d, left behind by an earlier runner of this home", pid)
        signal_group(pid, signal.SIGKILL)
        _await_end(pid, ticks)
    record.unlink(missing_ok=True)
    return int(alive)


def end_marked(mark: str) -> int:
    """Sends SIGKILL to every process with a mark that begins with `mark` in its environment; returns their number."""
    variable = f"{MARK_VARIABLE}={mark}".encode()
    total = 0
    # A process that forks while /proc is read may be missed: search again until nothing is found.
    for _ in range(MOST_SEARCHES):
        count = sum(_end_if_marked(pid, variable) for pid in _other_processes())
        total += count
        if not count:
            break
    return total


def signal_group(group: int, number: signal.Signals) -> None:
    """Sends a signal to a process group; ignores one that has ended or belongs to another user."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _await_end(pid: int, ticks: int) -> None:
    deadline = time.monotonic() + KILL_GRACE_S
    while start_ticks(pid) == ticks and time.monotonic() < deadline:
        time.sleep(0.01)


def _other_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _end_if_marked(pid: int, variable: bytes) -> int:
    """Kills the process if `variable` is in its environment; returns 1 if it did, else 0.

    The descriptor is opened before the environment is read, so both are of the same process. All processes are read
    whenever a child has ended, so for speed the environments are searched without splitting them.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return 0
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            environment = b"\0" + file.read(ENVIRONMENT_BYTES)
        if b"\0" + variable not in environment:
            return 0
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [], KILL_GRACE_S)
        return 1
    except OSError:
        return 0
    finally:
        os.close(pidfd)
