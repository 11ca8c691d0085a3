"""The lease of a claimed run: a thread renews it, and aborts the work when it is lost."""

import logging
import threading
from dataclasses import asdict, dataclass
from typing import Any

from runners.documents import Job
from runners.errors import Cancelled, LeaseLost, Permanent
from runners.processes.control import Control, boottime
from runners.reporting.client import Client

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 4
RETRIES_PER_LEASE = 12
# The runner gives up before the server does: their clocks differ, and the last answer took some time.
USABLE_SHARE = 2 / 3
SHORTEST_TIMEOUT_S = 0.05


@dataclass(frozen=True)
class RunProgress:
    """For the page of the run: the trials that are done, their total, and what is being done now."""

    done: int
    total: int
    now: str


class Lease:
    """Renews until it is closed. A `cancel`, a 409, or no answer for 2/3 of the lease aborts the work."""

    def __init__(self, client: Client, job: Job, control: Control, claimed_at: float) -> None:
        self._client, self._job, self._control = client, job, control
        self._lease_s = job.lease_s
        self._renewed_at = claimed_at
        self._deadline = claimed_at + job.deadline_s
        self._progress: RunProgress | None = None
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> "Lease":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._wake.set()
        self._thread.join()

    def show(self, progress: RunProgress) -> None:
        """Sends the progress with a renewal now."""
        self._progress = progress
        self._wake.set()

    def _keep(self) -> None:
        pause_s = self._lease_s / RENEWALS_PER_LEASE
        while self._work_goes_on():
            self._wake.wait(max(0.0, min(pause_s, self._left_s(), self._deadline - boottime())))
            self._wake.clear()
            if self._work_goes_on():
                renewed = self._renew()
                pause_s = self._lease_s / (RENEWALS_PER_LEASE if renewed else RETRIES_PER_LEASE)

    def _work_goes_on(self) -> bool:
        if self._closed or self._control.error is not None:
            return False
        if boottime() >= self._deadline:
            self._control.abort(Permanent(f"the run was ended at its deadline of {self._job.deadline_s:g} s"))
        elif self._left_s() <= 0:
            self._control.abort(LeaseLost(f"no renewal for {self._lease_s * USABLE_SHARE:g} s"))
        return self._control.error is None

    def _left_s(self) -> float:
        return self._renewed_at + self._lease_s * USABLE_SHARE - boottime()

    def _renew(self) -> bool:
        """Whether the lease was renewed; it counts from the start of the call."""
        asked_at = boottime()
        progress = self._progress
        try:
            answer = self._client.renew(self._job.run, self._job.token, _document(progress), self._timeout_s())
        except LeaseLost as error:
            self._control.abort(error)
            return False
        except Exception as error:  # the thread must go on: without it a lost lease would not end the work
            log.warning("run %d: the lease could not be renewed: %s", self._job.run, error)
            return False
        if answer.cancel:
            self._control.abort(Cancelled("the server asked to stop"))
        self._lease_s, self._renewed_at = answer.lease_s, asked_at
        return True

    def _timeout_s(self) -> float:
        """The limit of connecting and of reading; both together end before the usable share of the lease does."""
        return max(SHORTEST_TIMEOUT_S, min(self._lease_s / RENEWALS_PER_LEASE, self._left_s()) / 2)


def _document(progress: RunProgress | None) -> dict[str, Any] | None:
    return asdict(progress) if progress else None
