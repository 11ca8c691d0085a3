"""A lock file that one process at a time holds; the kernel releases it when that process ends, even by SIGKILL."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.errors import SettingsError


@contextmanager
def lock_file(file: Path, refusal: str) -> Iterator[None]:
    """Holds the lock. Raises SettingsError with `refusal`, its %s the other process, if another process holds it."""
    with file.open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            raise SettingsError(refusal % (stream.read().strip() or "unknown")) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield
