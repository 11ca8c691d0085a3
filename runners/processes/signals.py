"""Signals of the operating system, acted on outside their handlers.

A handler runs in the main thread, whatever that is about. It would wait for ever for a lock that the main thread has,
such as that of the event on which the main thread waits.
"""

import _thread
import signal
from collections.abc import Callable


def on_signals(act: Callable[[], None], *numbers: signal.Signals) -> None:
    """Calls `act` in a new thread for each of these signals."""
    for number in numbers:
        signal.signal(number, lambda *_: outside_handler(act))


def outside_handler(act: Callable[[], None]) -> None:
    """Calls `act` in a new thread. A handler may call this, since it takes no lock, unlike the start of a `Thread`."""
    _thread.start_new_thread(act, ())
