"""The lease of a claimed run: the heartbeat renews it, and the work is aborted when it is lost."""

import os
import threading
from dataclasses import asdict, dataclass, field
from typing import Any

from runners.documents import Job
from runners.errors import Cancelled, LeaseLost, Permanent, RunnerError, Unauthorized
from runners.processes.control import Control, boottime
from runners.reporting.beats import USABLE_SHARE
from runners.reporting.heartbeat import HeartbeatProcess, Message

OVERDUE_FACTOR = 5  # a phase that lasts so many times longer than phases of its kind before is stuck
OVERDUE_S = float(os.environ.get("SPEEDTRACK_OVERDUE_S") or 120)  # shorter phases are not reported
END_S = 600.0  # limit of reporting the end of a run
ENDS: dict[str, type[RunnerError]] = {"lost": LeaseLost, "cancelled": Cancelled, "unauthorized": Unauthorized}


@dataclass(frozen=True)
class RunProgress:
    """The progress for the page of the run: finished trials, their total, and the current step.

    `phase`: a name that phases of equal duration share. After `limit_s` the phase ends by itself. `pairs`: by benchmark
    the pairs that are measured so far.
    """

    done: int
    total: int
    now: str
    phase: str
    limit_s: float
    pairs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


class PhaseDurations:
    """The durations of the phases of a run, which determine when one is overdue."""

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._now: tuple[str, float] | None = None

    def begin(self, phase: str, at: float) -> None:
        if self._now:
            before, since = self._now
            self._longest[before] = max(self._longest.get(before, 0.0), at - since)
        self._now = phase, at

    def overdue_s(self, phase: str, limit_s: float) -> float:
        """After how many seconds the phase is overdue.

        For the first of its kind, that is when its own limit should have ended it.
        """
        if phase not in self._longest:
            return max(OVERDUE_S, limit_s)
        return max(OVERDUE_S, OVERDUE_FACTOR * self._longest[phase])


class Lease:
    """A lease that is renewed until it is closed.

    The work is aborted by a `cancel`, by a 409, or when there was no renewal for 2/3 of the lease.
    """

    def __init__(
        self, heartbeat: HeartbeatProcess, job: Job, control: Control, claimed_at: float, cpus: frozenset[int]
    ) -> None:
        self._heartbeat, self._job, self._control, self._cpus = heartbeat, job, control, cpus
        self._lease_s = job.lease_s
        self._renewed_at = claimed_at
        self._deadline = claimed_at + job.deadline_s
        self._pace = PhaseDurations()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lease", daemon=True)

    def __enter__(self) -> "Lease":
        self._heartbeat.heard.of_run = self._hear
        self._heartbeat.hold(
            {
                "run": self._job.run,
                "token": self._job.token,
                "lease_s": self._lease_s,
                "renewed_at": self._renewed_at,
                "deadline_at": self._deadline,
            },
            self._cpus,
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeat.drop()
        self._closed.set()
        self._thread.join()

    def show(self, progress: RunProgress) -> None:
        """Sends the progress with a renewal now."""
        at = boottime()
        self._pace.begin(progress.phase, at)
        document: dict[str, Any] = asdict(progress)
        limit_s = document.pop("limit_s")
        document["overdue_s"] = round(self._pace.overdue_s(progress.phase, limit_s), 1)
        self._heartbeat.show({"document": document, "at": at, "limit_s": limit_s})

    def _hear(self, message: Message) -> None:
        if message["run"] != self._job.run:
            return
        if message["kind"] == "renewed":
            self._lease_s, self._renewed_at = message["lease_s"], message["at"]
        else:
            self._control.abort(ENDS[message["kind"]](message["text"]))

    def _watch(self) -> None:
        """Aborts the work when the lease or the deadline of the run expires."""
        while self._control.error is None:
            if (until_deadline := self._deadline - boottime()) <= 0:
                self._control.abort(Permanent(f"the run was ended at its deadline of {self._job.deadline_s:g} s"))
            elif (left_s := self._left_s()) <= 0:
                self._control.abort(LeaseLost(f"no renewal for {self._lease_s * USABLE_SHARE:g} s"))
            elif self._closed.wait(min(left_s, until_deadline)):
                return

    def _left_s(self) -> float:
        return self._renewed_at + self._lease_s * USABLE_SHARE - boottime()
