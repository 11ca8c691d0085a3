"""Signals of the operating system.

A handler runs in the main thread, whatever that is about. It would wait for ever for a lock that the main thread has,
such as that of the event on which the main thread waits. So what needs a lock is done outside the handler.
"""

import _thread
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EXIT_INTERRUPTED = 128 + signal.SIGINT  # as shells report a program that this signal has ended


def on_signals(act: Callable[[], None], *numbers: signal.Signals) -> None:
    """Calls `act` in a new thread for each of these signals."""
    for number in numbers:
        signal.signal(number, lambda *_: outside_handler(act))


def outside_handler(act: Callable[[], None]) -> None:
    """Calls `act` in a new thread. A handler may call this, since it takes no lock, unlike the start of a `Thread`."""
    _thread.start_new_thread(act, ())


@contextmanager
def interruptible() -> Iterator[None]:
    """Ends the program with one word instead of a traceback when Ctrl-C interrupts the block."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
