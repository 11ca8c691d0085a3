"""How a command ends when a person interrupts it, or when what it prints arrives nowhere."""

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

# As shells report a program that these signals have ended.
EXIT_INTERRUPTED, EXIT_UNREAD = 128 + signal.SIGINT, 128 + signal.SIGPIPE
EXIT_UNWRITTEN = 1


class StdoutFailed(Exception):
    """Standard output cannot be written to. Its cause is the system's error."""


class Output:
    """A stream whose own errors differ from those of files and connections, which have the same numbers."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        with self.written():
            return self.stream.write(text)

    def flush(self) -> None:
        with self.written():
            self.stream.flush()

    @contextmanager
    def written(self) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            raise StdoutFailed from e

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def ended_plainly() -> Iterator[None]:
    """Ends the program without a traceback if Ctrl-C interrupts the block, or standard output cannot be written to.

    A closed pipe, as of `| head`, is no error: its reader has seen enough.
    """
    stream = sys.stdout or io.StringIO()  # it is None if the caller has closed it
    sys.stdout = output = cast(Any, Output(stream))
    try:
        try:
            yield
        finally:
            output.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except StdoutFailed as e:
        error = cast(OSError, e.__cause__)
        with suppress(OSError):  # what is left cannot be written either, when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if error.errno == errno.EPIPE:
            sys.exit(EXIT_UNREAD)
        print(f"error: standard output cannot be written to: {error.strerror}", file=sys.stderr)
        sys.exit(EXIT_UNWRITTEN)
    finally:
        sys.stdout = stream
