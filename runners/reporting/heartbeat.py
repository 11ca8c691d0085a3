"""The runner's side of the heartbeat: start its process (beats.py), report progress to it, and read its answers."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from runners.errors import RunnerError
from runners.processes.affinity import affinity
from runners.reporting.connection import IdleState, ServerConnection

log = logging.getLogger(__name__)

CHECKOUT = Path(__file__).parents[2]
LAST_CALL_S = 2.0
PAUSE_S = 1.0  # before a process that has ended is started again
Message = dict[str, Any]


@dataclass
class Heard:
    """The functions for messages of the process: about the active run, and to replace the token."""

    of_run: Callable[[Message], None] | None = None
    rotate: Callable[[], None] | None = None


class HeartbeatProcess:
    """The process that renews leases, on `cpus`.

    It is started again if it ends, and then receives the last messages again.
    """

    def __init__(self, connection: ServerConnection, cpus: frozenset[int]) -> None:
        self.connection, self.cpus = connection, cpus
        self.heard = Heard()
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._rotating: threading.Thread | None = None
        self._idle = IdleState()
        self._last: dict[str, Message] = {}  # the messages that a new process needs, by kind

    def start(self) -> None:
        """Starts the process, unless it runs."""
        with self._lock:
            if self._process is None and not self._closed:
                self._start()

    def _start(self) -> None:
        path = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with affinity(self.cpus):
            process = subprocess.Popen(
                [sys.executable, "-m", "runners.reporting.beats"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C ends only the runner, which still needs its lease while it stops
            )
        try:
            threading.Thread(target=self._listen, args=(process,), name="heartbeat", daemon=True).start()
        except RuntimeError:
            process.kill()
            raise
        self._process = process
        self._write({"kind": "server", "url": self.connection.url, "token": self.connection.token})
        for message in list(self._last.values()):
            self._write(message)

    def hold(self, lease: Message, cpus: frozenset[int]) -> None:
        """Renews a lease from now on, with the process on these CPUs."""
        self.start()
        self._last.pop("progress", None)
        self._tell("hold", **lease, cpus=sorted(cpus))

    def drop(self) -> None:
        """Stops renewing the lease: the run is over."""
        self.heard.of_run = None
        for kind in ("hold", "progress"):
            self._last.pop(kind, None)
        with self._lock:
            self._write({"kind": "drop"})

    def show(self, progress: Message) -> None:
        self._tell("progress", **progress)

    def unable(self, why: str) -> bool:
        """Stores why the runner takes no work; empty if it takes work. Returns whether that has changed.

        The server hears of a change at once.
        """
        is_new = bool(self._idle.unable) != bool(why)
        if is_new:
            self._show_idle(replace(self._idle, unable=why))
        return is_new

    def wait_for(self, reason: str) -> None:
        """Shows what the runner waits for before it asks for work, as the end of "waits for ..."; empty: nothing.

        The server hears of a change at once.
        """
        if reason != self._idle.waits:
            self._show_idle(replace(self._idle, waits=reason))

    def drain(self) -> None:
        """Adds to each renewal that the runner ends after its run."""
        self._tell("draining")

    def _show_idle(self, state: IdleState) -> None:
        self._idle = state
        self.start()
        self._tell("idle", **asdict(state))

    def use_token(self) -> None:
        """Makes the connection of the process use the new token."""
        with self._lock:
            self._write({"kind": "server", "url": self.connection.url, "token": self.connection.token})

    def close(self, why: str = "") -> None:
        """Ends the process; it reports once `why` the runner has ended, if it can reach the server soon."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
        if process:
            assert process.stdin is not None
            with suppress(OSError):  # it has ended, and a line for it is left
                process.stdin.close()
            process.send_signal(signal.SIGTERM)  # it may be in the middle of a call
            process.wait()
        if why:
            with suppress(RunnerError):
                self.connection.beat(IdleState(ended=why), LAST_CALL_S)

    def _tell(self, kind: str, **fields: Any) -> None:
        with self._lock:
            self._last[kind] = {"kind": kind, **fields}
            self._write(self._last[kind])

    def _write(self, message: Message) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # the process has ended: `_listen` starts another one

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with suppress(ValueError):  # a line that was cut short when it was killed
            for line in process.stdout:
                self._hear(json.loads(line))
        process.wait()
        while not self._replaced(process):
            pass

    def _replaced(self, ended: "subprocess.Popen[str]") -> bool:
        """Starts the process again after a pause; returns False if that fails, such as for lack of memory."""
        time.sleep(PAUSE_S)
        with self._lock:
            if self._process is not ended:
                return True
            log.warning("the heartbeat has ended (status %s): it is started again", ended.returncode)
            try:
                self._start()
            except (OSError, RuntimeError) as error:
                log.error("the heartbeat cannot be started: %s; trying again", error)
                return False
            return True

    def _hear(self, message: Message) -> None:
        match message["kind"]:
            case "note":
                log.warning("%s", message["text"])
            case "refused":
                log.error("%s", message["text"])
            case "rotate":
                self._rotate()
            case kind:
                if kind == "renewed" and (hold := self._last.get("hold")):
                    hold |= {"lease_s": message["lease_s"], "renewed_at": message["at"]}
                if of_run := self.heard.of_run:  # `drop` may clear it at any moment
                    of_run(message)

    def _rotate(self) -> None:
        """Replaces the token in a new thread, so that the answers to renewals are read however long that call takes."""
        if self.heard.rotate and not (self._rotating and self._rotating.is_alive()):
            self._rotating = threading.Thread(target=self.heard.rotate, name="rotate", daemon=True)
            self._rotating.start()
