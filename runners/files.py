"""Files that are written whole or not at all, even in a power cut."""

import os
from collections.abc import Iterable
from pathlib import Path


def write_durably(file: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a file (write, fsync, rename): a power cut leaves the new content or the old one. Raises OSError.

    Nobody whom `mode` excludes can read it at any time.
    """
    write_pieces_durably(file, (content,), mode)


def write_pieces_durably(file: Path, content: Iterable[bytes], mode: int) -> None:
    """Writes a file that need not fit in memory, as `write_durably`. If iterating raises, no file is left.

    Nobody whom `mode` excludes can read it at any time.
    """
    temporary = file.with_name(f"{file.name}.tmp")
    temporary.unlink(missing_ok=True)
    with open(temporary, "wb", opener=lambda path, flags: os.open(path, flags, mode)) as stream:
        for piece in content:
            stream.write(piece)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.chmod(mode)
    temporary.rename(file)
    sync_directory(file.parent)


def sync_directory(directory: Path) -> None:
    """Makes a rename in this directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
