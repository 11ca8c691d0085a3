"""The lease of a claimed run, kept alive by a thread of its own; it aborts the work when the lease is gone."""

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
# The holder gives up before the grantor does: both clocks may be off, and the last answer took its time.
OWN_SHARE = 2 / 3
SHORTEST_TIMEOUT_S = 0.05


@dataclass(frozen=True)
class Progress:
    """What the run's page shows: trials done, trials in all, and the one that runs now."""

    done: int
    total: int
    now: str


class Lease:
    """Renews until closed; a `cancel`, a 409, or 2/3 of the lease without an answer aborts the control."""

    def __init__(self, client: Client, job: Job, control: Control, claimed_at: float) -> None:
        self._client, self._job, self._control = client, job, control
        self._lease_s = job.lease_s
        self._renewed_at = claimed_at
        self._deadline = claimed_at + job.deadline_s
        self._progress: Progress | None = None
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

    def show(self, progress: Progress) -> None:
        """Sends this progress with a renewal now."""
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
            self._control.abort(LeaseLost(f"no renewal for {self._lease_s * OWN_SHARE:g} s"))
        return self._control.error is None

    def _left_s(self) -> float:
        return self._renewed_at + self._lease_s * OWN_SHARE - boottime()

    def _renew(self) -> bool:
        """True if the lease was renewed; its age counts from before the call."""
        asked_at = boottime()
        progress = self._progress
        try:
            answer = self._client.renew(self._job.run, self._job.token, _document(progress), self._timeout_s())
        except LeaseLost as error:
            self._control.abort(error)
            return False
        except Exception as error:  # the thread must live: without it nobody gives a lost lease up
            log.warning("run %d: the lease could not be renewed: %s", self._job.run, error)
            return False
        if answer.cancel:
            self._control.abort(Cancelled("the server asked to stop"))
        self._lease_s, self._renewed_at = answer.lease_s, asked_at
        return True

    def _timeout_s(self) -> float:
        """Connecting and reading may each take this long: together never past the end of the own share."""
        return max(SHORTEST_TIMEOUT_S, min(self._lease_s / RENEWALS_PER_LEASE, self._left_s()) / 2)


def _document(progress: Progress | None) -> dict[str, Any] | None:
    return asdict(progress) if progress else None
