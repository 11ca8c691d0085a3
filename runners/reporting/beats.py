"""The heartbeat process (`python -m runners.reporting.beats`): it renews the lease of the runner that starts it.

It is a separate process on the housekeeping cores, so that it and the measured processes do not disturb each other. It
reads the runner's messages from its input and writes the server's answers to its output, a JSON object per line. It
ends when its input ends, so it never outlives the runner. It does not renew for work that hangs: when the runner is
stopped, or a phase lasts far longer than its own limits allow.
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.errors import LeaseLost, RunnerError, Unauthorized, one_line
from runners.processes.affinity import move_process
from runners.processes.control import boottime
from runners.reporting.connection import IdleState, ServerConnection

IDLE_EVERY_S = 60.0
RENEWALS_PER_LEASE = 4
RETRIES_PER_LEASE = 12
# The runner gives up before the server does: their clocks differ, and the last answer took some time.
USABLE_SHARE = 2 / 3
SHORTEST_TIMEOUT_S = 0.05
HUNG_FACTOR, HUNG_GRACE_S = 2, 60.0  # a phase ends itself at its limit; one that lasts so much longer hangs


@dataclass
class Hold:
    """A lease that is renewed until its deadline; times are those of `boottime`."""

    run: int
    token: int
    lease_s: float
    renewed_at: float
    deadline_at: float

    @property
    def left_s(self) -> float:
        return self.renewed_at + self.lease_s * USABLE_SHARE - boottime()


@dataclass(frozen=True)
class Moment:
    """The last progress of the run, and its time."""

    document: dict[str, Any]
    at: float
    limit_s: float

    @property
    def age_s(self) -> float:
        return max(0.0, boottime() - self.at)

    def sent(self) -> dict[str, Any]:
        return {**self.document, "age_s": round(self.age_s, 1)}

    @property
    def hangs(self) -> bool:
        return self.age_s > HUNG_FACTOR * self.limit_s + HUNG_GRACE_S


class Beats:
    """The runner's last messages, and the heartbeats for them."""

    def __init__(self, runner: int) -> None:
        self.runner = runner
        self.changed = threading.Condition()
        self.connection: ServerConnection | None = None
        self.hold: Hold | None = None
        self.moment: Moment | None = None
        self.idle = IdleState()
        self.draining = False
        self.due = False

    def read(self, lines: Iterable[str]) -> None:
        """Reads the runner's messages until the runner ends, which ends this process."""
        for line in lines:
            with self.changed:
                self._take(json.loads(line))
                self.changed.notify()
        os._exit(0)

    def _take(self, message: dict[str, Any]) -> None:
        match message.pop("kind"):
            case "server":
                self.connection = ServerConnection(**message)
            case "hold":
                cpus = frozenset(message.pop("cpus"))
                try:
                    move_process(cpus)
                except OSError as error:  # they were taken from this process
                    tell("note", text=f"the heartbeat cannot move to CPUs {sorted(cpus)}: {error.strerror}")
                self.hold, self.moment = Hold(**message), None
                self.due = True
            case "drop":
                self.hold = self.moment = None
            case "progress":
                self.moment, self.due = Moment(**message), True
            case "idle":
                self.idle, self.due = IdleState(**message), True
            case "draining":
                self.draining, self.due = True, True

    def go_on(self) -> None:
        while True:
            pause_s = self.beat()
            with self.changed:
                self.changed.wait_for(lambda: self.due, pause_s)
                self.due = False

    def beat(self) -> float:
        """Renews the lease, or reports an idle runner; returns the seconds until the next beat."""
        with self.changed:
            connection, hold, moment, idle = self.connection, self.hold, self.moment, self.idle
        if connection is None:
            return IDLE_EVERY_S
        if hold is None:
            return self._idle(connection, idle)
        if boottime() >= hold.deadline_at or hold.left_s <= 0:
            return IDLE_EVERY_S  # the runner sees it, too, and ends the work
        return self._renew(connection, hold, moment)

    def _idle(self, connection: ServerConnection, idle: IdleState) -> float:
        try:
            if connection.beat(idle, IDLE_EVERY_S / 4):
                tell("rotate")
        except Unauthorized as error:
            tell("refused", text=one_line(error))
        except RunnerError:
            pass  # the runner meets the same error when it asks for work, and logs it
        return IDLE_EVERY_S

    def _renew(self, connection: ServerConnection, hold: Hold, moment: Moment | None) -> float:
        asked_at = boottime()
        timeout_s = max(SHORTEST_TIMEOUT_S, min(hold.lease_s / RENEWALS_PER_LEASE, hold.left_s) / 2)
        hung = self._why_hung(moment)
        try:
            reasons = {"hung": hung, "draining": self.draining}
            answer = connection.renew(hold.run, hold.token, moment.sent() if moment else None, reasons, timeout_s)
        except (LeaseLost, Unauthorized) as error:
            tell("unauthorized" if isinstance(error, Unauthorized) else "lost", run=hold.run, text=one_line(error))
            self._forget(hold)
            return IDLE_EVERY_S
        except Exception as error:  # the process must go on: the next renewal may succeed
            tell("note", text=f"run {hold.run}: the lease could not be renewed: {one_line(error)}")
            return self._pause_s(hold, RETRIES_PER_LEASE)
        if answer.rotate:
            tell("rotate")
        if answer.cancel:
            tell("cancelled", run=hold.run, text="the server asked to stop")
            self._forget(hold)
        elif not hung:
            hold.lease_s, hold.renewed_at = answer.lease_s, asked_at
            tell("renewed", run=hold.run, lease_s=answer.lease_s, at=asked_at)
        return self._pause_s(hold, RENEWALS_PER_LEASE)

    def _pause_s(self, hold: Hold, per_lease: int) -> float:
        return max(0.0, min(hold.lease_s / per_lease, hold.left_s, hold.deadline_at - boottime()))

    def _forget(self, hold: Hold) -> None:
        with self.changed:
            if self.hold is hold:
                self.hold = None

    def _why_hung(self, moment: Moment | None) -> str:
        """Why the work hangs; empty if it seems to go on."""
        if state_of(self.runner) in "tT":
            return "the process of its runner is stopped (SIGSTOP or a debugger): its lease is not renewed"
        if moment and moment.hangs:
            now, age_s, limit_s = moment.document["now"], round(moment.age_s), moment.limit_s
            return f"its work hangs: {now} has lasted {age_s} s and should have ended itself after {limit_s:g} s"
        return ""


def state_of(pid: int) -> str:
    """The kernel's letter for the state of a process; "X" if there is no such process."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return "X"


def tell(kind: str, **fields: Any) -> None:
    """Writes a message to the runner. If the runner has ended, this process ends."""
    try:
        print(json.dumps({"kind": kind, **fields}), flush=True)
    except BrokenPipeError:
        os._exit(0)


def main() -> None:
    beats = Beats(os.getppid())
    threading.Thread(target=beats.read, args=(sys.stdin,), daemon=True).start()
    beats.go_on()


if __name__ == "__main__":
    main()
