"""The abort of a piece of work, which a thread can wait for together with file descriptors."""

import os
import select
import threading
import time

from runners.errors import RunnerError


def boottime() -> float:
    """Seconds since boot, time asleep included: the clock of leases and deadlines on this machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Control:
    """The abort of one run: set by the thread of the lease, checked by every wait of the work."""

    def __init__(self, stopping: threading.Event | None = None) -> None:
        self.stopping = stopping or threading.Event()
        self.error: RunnerError | None = None
        self._lock = threading.Lock()
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def abort(self, error: RunnerError) -> None:
        """Ends the work with this error; the first call wins."""
        with self._lock:
            if self.error is None:
                self.error = error
                os.eventfd_write(self._eventfd, 1)

    def check(self) -> None:
        """Raises the error of the abort, if there was one."""
        if self.error is not None:
            raise self.error

    def sleep(self, seconds: float) -> None:
        """Waits. Raises the error of an abort at once."""
        self.wait_readable([], seconds)

    def wait_readable(self, descriptors: list[int], seconds: float) -> list[int]:
        """The descriptors that became readable within `seconds`. Raises the error of the abort."""
        poller = select.poll()
        for descriptor in [self._eventfd, *descriptors]:
            poller.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poller.poll(max(0.0, seconds) * 1000)]
        self.check()
        return ready

    def close(self) -> None:
        with self._lock:
            self.error = self.error or RunnerError("the run is over")
            os.close(self._eventfd)
