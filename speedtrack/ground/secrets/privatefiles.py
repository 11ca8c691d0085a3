"""Files and directories that only their owner may read. A file appears with its whole content or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def directory(path: Path) -> Path:
    """Make a directory that only its owner may enter. An existing one is not changed."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def write_once(file: Path, content: str) -> str:
    """Make a file with this content, unless it exists. Return its content: of several writers, the first one wins."""
    if not file.exists():
        with temporary_file(file.parent, content.encode()) as complete, contextlib.suppress(FileExistsError):
            os.link(complete, file)
    return file.read_text()


def replace(file: Path, content: bytes) -> None:
    """Write a file, atomically replacing an existing one."""
    with temporary_file(file.parent, content) as complete:
        complete.rename(file)


@contextlib.contextmanager
def temporary_file(parent: Path, content: bytes) -> Iterator[Path]:
    """A complete file in its final directory (mode 0600), removed at the end unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=directory(parent))
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
