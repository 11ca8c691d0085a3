"""Signals reach what waits for them, whichever thread the system delivers them to."""

import signal
import threading
import time

from runners.processes.signals import on_signals

LIMIT_S = 30


def test_a_signal_that_meets_the_waiting_thread_is_heard_and_so_is_the_next() -> None:
    heard = threading.Semaphore(0)
    before = signal.getsignal(signal.SIGUSR1)
    others = set(threading.enumerate())
    on_signals(heard.release, signal.SIGUSR1)
    (waiting,) = set(threading.enumerate()) - others
    assert waiting.ident is not None
    try:
        for _ in range(3):
            time.sleep(0.05)  # until it waits
            signal.pthread_kill(waiting.ident, signal.SIGUSR1)
            deadline = time.monotonic() + LIMIT_S
            while not heard.acquire(timeout=0.05):  # a handler runs between two steps of the main thread
                assert time.monotonic() < deadline
    finally:
        signal.signal(signal.SIGUSR1, before)
