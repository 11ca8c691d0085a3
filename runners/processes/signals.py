"""Signals of the operating system.

A handler runs in the main thread, whatever that is about. It would wait for ever for a lock that the main thread has,
such as that of the event on which the main thread waits. So what needs a lock is done outside the handler.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress


def on_signals(act: Callable[[], None], *numbers: signal.Signals) -> None:
    """Calls `act` outside the handler for each of these signals."""
    wake = outside_handlers(act)
    for number in numbers:
        signal.signal(number, lambda *_: wake())


def outside_handlers(act: Callable[[], None]) -> Callable[[], None]:
    """Returns a function that a handler may call: it makes a thread, which waits from now on, call `act`.

    The thread is started beforehand, because the system may refuse new threads when the signal comes.
    """
    calls = os.eventfd(0, os.EFD_CLOEXEC)

    def wait() -> None:
        while True:
            # The system may deliver a signal to this thread, which ends this call; Python does not repeat it.
            with suppress(InterruptedError):
                os.eventfd_read(calls)
                act()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    return lambda: os.eventfd_write(calls, 1)
