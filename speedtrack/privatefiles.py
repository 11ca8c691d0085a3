"""Files and directories for their owner alone. A file appears with its whole content, or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def directory(path: Path) -> Path:
    """Make a directory that only its owner may enter. One that exists is left as it is."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def write_once(file: Path, content: str) -> str:
    """Make a file with this content, unless there is one. Of several writers the first one wins, for all."""
    if not file.exists():
        with temporary_file(file.parent, content.encode()) as complete, contextlib.suppress(FileExistsError):
            os.link(complete, file)
    return file.read_text()


def replace(file: Path, content: bytes) -> None:
    """Make a file with this content, in place of the one that is there."""
    with temporary_file(file.parent, content) as complete:
        complete.rename(file)


@contextlib.contextmanager
def temporary_file(parent: Path, content: bytes) -> Iterator[Path]:
    """A complete file beside where it shall be (mode 0600); removed at the end, unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=directory(parent))
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
