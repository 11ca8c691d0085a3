"""Answers that are kept for a few seconds, so that many callers cost as little as one."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

LONGEST_WAIT_S = 10.0


class StillComputing(Exception):
    """Another thread has been computing the answer for a long time, and there is no earlier answer."""


class Remembered(Generic[Answer]):
    """The answer of a function, kept for some seconds.

    One thread at a time calls the function; the others get the former answer.
    """

    def __init__(self, find: Callable[[], Answer], for_s: float) -> None:
        self.find, self.for_s = find, for_s
        self.lock = threading.Lock()
        self.known: tuple[float, Answer] | None = None  # when it was computed, on time.monotonic's clock

    def get(self) -> Answer:
        """The answer. Raises StillComputing, and what the function raises."""
        last = self.known
        if last and time.monotonic() - last[0] < self.for_s:
            return last[1]
        if not self.lock.acquire(timeout=0 if last else LONGEST_WAIT_S):
            if last:
                return last[1]
            raise StillComputing("the installation is being examined already, and does not answer")
        try:
            if self.known is last:  # otherwise another thread has just computed it
                self.known = (time.monotonic(), self.find())
            assert self.known
            return self.known[1]
        finally:
            self.lock.release()

    def forget(self) -> None:
        self.known = None
