"""Every reader, and which of them reads a file."""

from speedtrack.outside.readers import Reader, ReadError

READERS: tuple[Reader, ...] = ()


def named(name: str) -> Reader:
    """The reader of a format. Raises ReadError that lists the formats."""
    for reader in READERS:
        if reader.name == name:
            return reader
    known = ", ".join(["native", *(reader.name for reader in READERS)])
    raise ReadError(f"there is no format {name!r}", remedy=f"use one of {known}")


def reader_of(content: bytes, name: str) -> Reader:
    """The reader of a file. Raises ReadError if none knows it, or several do."""
    found = [reader for reader in READERS if reader.sniff(content, name)]
    if len(found) != 1:
        what = " or ".join(reader.name for reader in found)
        cause = f"it may be {what}" if found else "its format is not known"
        raise ReadError(cause, remedy="name the format (--format)")
    return found[0]
