"""Facts about a program from its ELF file: its size when loaded, and its functions."""

import struct
from collections.abc import Iterator
from pathlib import Path

PT_LOAD = 1
HEADER = struct.Struct("<16sHHIQQQIHHH")  # of a 64-bit little-endian ELF file, up to e_phnum
SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SECTIONS_AT, SECTION_COUNTS_AT = 40, 58  # e_shoff; e_shentsize and e_shnum
SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC = 2, 2, 10


def loaded_bytes(file: Path) -> int:
    """Bytes of code and data that are loaded from a program (`man 5 elf`); of any other file its size.

    Debug information and symbols, which depend on compiler flags, do not count.
    """
    with file.open("rb") as stream:
        head = stream.read(HEADER.size)
        if len(head) < HEADER.size or head[:6] != b"\x7fELF\x02\x01":
            return file.stat().st_size
        *_, offset, _, _, _, size, count = HEADER.unpack(head)
        stream.seek(offset)
        table = stream.read(size * count)
    segments = [SEGMENT.unpack_from(table, place) for place in range(0, len(table) - SEGMENT.size + 1, size)]
    return sum(segment[5] for segment in segments if segment[0] == PT_LOAD) or file.stat().st_size


def function_names(file: Path) -> frozenset[str]:
    """The functions in the symbol table of a program, mangled as the compiler wrote them; empty if it was stripped.

    Empty, too, for a file that is no 64-bit little-endian ELF file.
    """
    content = file.read_bytes()
    if len(content) < HEADER.size or content[:6] != b"\x7fELF\x02\x01":
        return frozenset()
    (offset,) = struct.unpack_from("<Q", content, SECTIONS_AT)
    size, count = struct.unpack_from("<HH", content, SECTION_COUNTS_AT)
    try:
        sections = [SECTION.unpack_from(content, offset + number * size) for number in range(count)]
        tables = [section for section in sections if section[1] == SHT_SYMTAB]
        return frozenset(
            name for table in tables for name in _functions_of(content, table, sections[table[6]][4]) if name
        )
    except (struct.error, IndexError):
        return frozenset()


def _functions_of(content: bytes, table: tuple[int, ...], names_at: int) -> Iterator[str]:
    """The names of the defined functions of one symbol table, whose names begin at `names_at`."""
    offset, size = table[4], table[5]
    for name, info, _, section, _, _ in SYMBOL.iter_unpack(content[offset : offset + size - size % SYMBOL.size]):
        if info & 0xF in (STT_FUNC, STT_GNU_IFUNC) and section:
            yield content[names_at + name : content.index(b"\0", names_at + name)].decode(errors="replace")
