"""A file that one process at a time holds; the kernel lets go of it when that process ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.errors import SettingsError


@contextmanager
def held(file: Path, refusal: str) -> Iterator[None]:
    """Holds the lock. Raises SettingsError while another process does: `refusal`, with its number for %s."""
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
