"""Child processes, each in its own group: started on their cores, always ended, found again after a crash.

Every process started here carries `SPEEDTRACK_MARK` in its environment (a prefix per runner, see identity.py, and a
random suffix per start) and has a state file with its start time. So the next runner of the same home can end what a
killed one left behind, even processes that changed their session or parent, but never those of others. In a
sandbox nothing can hide: the kernel ends all its processes when the runner ends or is killed.
"""

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from runners.machine import memory
from runners.processes import identity
from runners.processes.affinity import affinity
from runners.processes.control import Control, boottime
from runners.processes.strays import KILL_GRACE_S, MARK_VARIABLE, end_marked, end_recorded, signal_group, start_ticks
from runners.sandbox import running
from runners.sandbox.policy import NONE, Sandbox, SandboxView
from runners.sandbox.running import RunningSandbox, SandboxedProgram

TERM_GRACE_S = 2.0


@dataclass(frozen=True)
class ChildCommand:
    """What to start, on which CPUs (None: any) and with memory of which nodes (empty: any).

    With a `view` it runs in a new sandbox, if this machine can make one. With a `network` it uses the network of
    that sandbox.
    """

    argv: list[str]
    environment: Mapping[str, str]
    directory: Path
    cpus: frozenset[int] | None = None
    nodes: frozenset[int] = frozenset()
    view: SandboxView | None = None
    network: RunningSandbox | None = None


@dataclass
class Child:
    """A started process that leads its own session and group. `process`: this process, or the keeper of its sandbox."""

    process: subprocess.Popen[bytes]
    record: Path
    mark: str
    pidfd: int
    sandbox: RunningSandbox | None = None

    @property
    def pid(self) -> int:
        return self.sandbox.pid if self.sandbox else self.process.pid

    def exited(self) -> int | None:
        """The exit status (negative: the signal), or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if select.select([self.pidfd], [], [], 0)[0]:
                return self.process.wait(KILL_GRACE_S)  # the keeper ends after all other processes of its sandbox
        return self.process.poll()

    def terminate(self) -> None:
        """Sends SIGTERM to the process and its group."""
        if self.exited() is None:
            signal_group(self.pid, signal.SIGTERM)

    def wait(self, control: Control, timeout_s: float) -> int | None:
        """The exit status, or None after `timeout_s`. Raises the error of an abort."""
        deadline = boottime() + timeout_s
        while (status := self.exited()) is None and (remaining_s := deadline - boottime()) > 0:
            control.wait_readable([self.pidfd], remaining_s)
        return status

    def end(self, grace_s: float = TERM_GRACE_S) -> None:
        """Sends SIGTERM to the group, and after `grace_s` SIGKILL to it and to everything else with its mark."""
        self.terminate()
        select.select([self.pidfd], [], [], grace_s)
        if self.sandbox:
            self.sandbox.end()
        else:
            signal_group(self.pid, signal.SIGKILL)
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
        self.mark, is_new = identity.mark(home)
        if is_new:  # the home is a copy: its state files belong to another runner's processes
            for record in self.directory.glob("*.json"):
                record.unlink(missing_ok=True)
        self.latest: int | None = None  # the process that was started last

    def run(
        self,
        command: ChildCommand,
        control: Control,
        timeout_s: float,
        output: IO[bytes] | int,
        errors: IO[bytes] | int = subprocess.STDOUT,
    ) -> int | None:
        """Runs a program to its end: the exit status, or None if it was ended after `timeout_s`.

        Raises OSError if it cannot be started, and the error of an abort. Leaves no process behind.
        """
        child = self.start(command, output, errors)
        try:
            return child.wait(control, timeout_s)
        finally:
            child.end()

    def start(
        self, command: ChildCommand, output: IO[bytes] | int, errors: IO[bytes] | int = subprocess.STDOUT
    ) -> Child:
        """Starts a process in a new session. Raises OSError if it cannot be started."""
        mark = f"{self.mark}.{secrets.token_hex(4)}"
        options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": output,
            "stderr": errors,
            "start_new_session": True,
            "umask": 0o022,
        }
        with affinity(command.cpus), memory.bind_memory(command.nodes):
            process, sandbox = self._popen(command, {MARK_VARIABLE: mark}, options)
        record = self.directory / f"{process.pid}.json"
        try:
            record.write_text(json.dumps({"pid": process.pid, "start_ticks": start_ticks(process.pid)}))
            child = Child(process, record, mark, _pidfd(process, sandbox), sandbox)
        except BaseException:  # such as of a full disk: nobody else would end it
            _end_at_once(process, sandbox, mark)
            record.unlink(missing_ok=True)
            raise
        self.latest = child.pid
        return child

    def _popen(
        self, command: ChildCommand, mark: dict[str, str], options: dict[str, Any]
    ) -> tuple["subprocess.Popen[bytes]", RunningSandbox | None]:
        environment = {**command.environment, **mark}
        if command.view and self.sandbox.works:
            command.view.tmp.mkdir(exist_ok=True)
            mounts = self.sandbox.mounts(command.view)
            program = SandboxedProgram(command.argv, environment, command.directory, mounts)
            return running.start(program, command.network, env=mark, **options)
        options |= {"cwd": command.directory, "env": environment}
        if command.network:
            return running.start_inside(command.network, command.argv, **options), None
        return subprocess.Popen(command.argv, **options), None

    def end_strays(self) -> int:
        """Ends the processes that a killed runner of this home left behind; returns their number."""
        count = sum(end_recorded(record) for record in self.directory.glob("*.json"))
        return count + end_marked(self.mark)


def exit_text(status: int) -> str:
    """The end of a process in words, from its exit status."""
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _end_at_once(process: "subprocess.Popen[bytes]", sandbox: RunningSandbox | None, mark: str) -> None:
    if sandbox:
        sandbox.end()
    else:
        signal_group(process.pid, signal.SIGKILL)
    process.wait(KILL_GRACE_S)
    end_marked(mark)


def _pidfd(process: "subprocess.Popen[bytes]", sandbox: RunningSandbox | None) -> int:
    """A descriptor that becomes readable when the program ends.

    If the program has already ended, it is that of the keeper, which ends soon as well.
    """
    try:
        return os.pidfd_open(sandbox.pid if sandbox else process.pid)
    except ProcessLookupError:
        return os.pidfd_open(process.pid)
