"""The size of a program as it is loaded, without debug information and symbols, which depend on compiler flags."""

import struct
from pathlib import Path

PT_LOAD = 1
HEADER = struct.Struct("<16sHHIQQQIHHH")  # of a 64-bit little-endian ELF file, up to e_phnum
SEGMENT = struct.Struct("<IIQQQQQQ")


def loaded_bytes(file: Path) -> int:
    """Bytes of code and data that are loaded from a program (`man 5 elf`); for any other file its size."""
    with file.open("rb") as stream:
        head = stream.read(HEADER.size)
        if len(head) < HEADER.size or head[:6] != b"\x7fELF\x02\x01":
            return file.stat().st_size
        *_, offset, _, _, _, size, count = HEADER.unpack(head)
        stream.seek(offset)
        table = stream.read(size * count)
    segments = [SEGMENT.unpack_from(table, place) for place in range(0, len(table) - SEGMENT.size + 1, size)]
    return sum(segment[5] for segment in segments if segment[0] == PT_LOAD) or file.stat().st_size
