"""Read files that foreign code may have made or replaced.

Such a file may be a link, a pipe that nobody writes to, a device, or larger than the memory. These functions follow no
link in the last part of a path, never wait, and read no more than a limit.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
PIECE_BYTES = 1 << 20
LONGEST_LINE = 1 << 16
TAIL_BYTES = 1 << 16
NOT_REGULAR = (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR)  # link, socket, device, directory


class UnusableFile(OSError):
    """A file is unusable; the text is the reason, on one line."""


def open_regular(file: Path) -> BinaryIO:
    """Opens a regular file. Raises UnusableFile for any other kind, OSError if it cannot be opened."""
    try:
        descriptor = os.open(file, FLAGS)
    except OSError as error:
        if error.errno in NOT_REGULAR:
            raise UnusableFile(f"{file.name} is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnusableFile(f"{file.name} is not a regular file")
    return os.fdopen(descriptor, "rb")


def read_whole(file: Path, most_bytes: int) -> bytes:
    """The content. Raises UnusableFile if it is longer, and as `open_regular`."""
    with open_regular(file) as stream:
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise too_long(file, most_bytes)
    return content


def read_start(file: Path, most_bytes: int) -> bytes:
    """The first bytes of the content. Raises as `open_regular`."""
    with open_regular(file) as stream:
        return stream.read(most_bytes)


def last_lines(file: Path, count: int) -> list[str]:
    """The last lines with text, of the last TAIL_BYTES; none if the file cannot be read."""
    try:
        with open_regular(file) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL_BYTES))
            text = stream.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    return text.rstrip().splitlines()[-count:]


def read_lines(file: Path, most_bytes: int) -> Iterator[str]:
    """The lines, each cut to LONGEST_LINE bytes. Raises UnusableFile beyond the limit, and as `open_regular`."""
    remaining = most_bytes
    with open_regular(file) as stream:
        is_begin = True
        while line := stream.readline(LONGEST_LINE):
            remaining -= len(line)
            if remaining < 0:
                raise too_long(file, most_bytes)
            if is_begin:
                yield line.decode(errors="replace")
            is_begin = line.endswith(b"\n")


def too_long(file: Path, most_bytes: int) -> UnusableFile:
    return UnusableFile(f"{file.name} is larger than {size_text(most_bytes)}")


def size_text(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MB" if size_bytes >= 1 << 20 else f"{size_bytes} bytes"


def pieces(stream: BinaryIO) -> Iterator[bytes]:
    """The content from the beginning, in pieces that fit in memory."""
    stream.seek(0)
    while piece := stream.read(PIECE_BYTES):
        yield piece


def digest_of(content: Iterable[bytes]) -> str:
    """`sha256:` and the SHA-256 of a content in pieces."""
    total = hashlib.sha256()
    for piece in content:
        total.update(piece)
    return f"sha256:{total.hexdigest()}"
