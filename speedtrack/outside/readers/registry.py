"""All readers, and the search for the one that fits a file."""

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.formats import (
    asv,
    bencher,
    criterion,
    github_action,
    go,
    google,
    hyperfine,
    jmh,
    memtier,
    pyperf,
    pytest_benchmark,
    redis_benchmark,
)
from speedtrack.outside.readers.tools import ToolReader

READERS: tuple[ToolReader, ...] = (
    redis_benchmark.READER,
    memtier.READER,
    github_action.ENTRIES,
    github_action.HISTORY,
    bencher.READER,
    google.READER,
    hyperfine.READER,
    pyperf.READER,
    pytest_benchmark.READER,
    go.READER,
    criterion.FOLDER,
    criterion.MESSAGES,
    jmh.READER,
    asv.READER,
)


def reader_named(name: str) -> ToolReader:
    """The reader of the format with this name. Raises ReadError with a list of the formats."""
    for reader in READERS:
        if reader.name == name:
            return reader
    formats = ", ".join(["native", *(reader.name for reader in READERS)])
    raise ReadError(f"there is no format {name!r}", remedy=f"use one of {formats}")


def reader_of(file: File) -> ToolReader:
    """The reader that recognises a file. Raises ReadError if none or several do."""
    file.check()
    candidates = [reader for reader in READERS if reader.recognises(file)]
    if len(candidates) != 1:
        if not candidates:
            look(file)
        titles = " or ".join(reader.name for reader in candidates)
        cause = f"it may be {titles}" if candidates else "its format is not known"
        raise ReadError(cause, remedy="name the format (--format)")
    return candidates[0]


def look(file: File) -> None:
    """Raise ReadError if the file is broken, whatever its format."""
    if file.is_archive:
        file.members  # noqa: B018  # read for its errors
    elif file.text.lstrip().startswith(("{", "[")):
        file.document  # noqa: B018
