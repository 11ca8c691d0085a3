"""Facts about a program from its ELF file. Foreign code made the file, so any number in it may be wrong.

Nothing outside of the file is read, tables have a limit, and no name is longer than LONGEST_NAME.
"""

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from runners.foreign import open_regular

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
MAGIC = b"\x7fELF\x02\x01"  # of a 64-bit little-endian file
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
ENTRY = struct.Struct("<QQ")  # of the dynamic section
SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC = 2, 2, 10
DT_NEEDED, DT_STRTAB, DT_RPATH, DT_RUNPATH = 1, 5, 15, 29
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = range(0x6FFFFFFC, 0x70000000)
# Of a version that is needed: the file, its first version, the next file. Of that version: flags, name, next one.
NEED, NEEDED_VERSION, WEAK = struct.Struct("<HHIII"), struct.Struct("<IHHII"), 2
DEFINITION = struct.Struct("<HHHHIII")
LONGEST_NAME = 4096
MOST_TABLE_BYTES = 64 << 20
MOST_NAMES_BYTES = 32 << 20  # of the names of functions
MOST_FUNCTIONS = 300_000
MOST_ENTRIES = 4096  # of the dynamic section, and of a list of versions

Value = TypeVar("Value")


class Damaged(Exception):
    """A file begins as an ELF file, but its content is invalid."""


@dataclass(frozen=True)
class Linkage:
    """The libraries of a program. `versions`: those that it needs, by library; `defined`: those that it defines."""

    machine: int
    interpreter: str
    needed: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    defined: frozenset[str] = frozenset()


class Elf:
    """An open ELF file of 64 bits, little-endian; the methods raise Damaged."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.size = os.fstat(stream.fileno()).st_size
        fields = HEADER.unpack(self.read(0, HEADER.size))
        self.machine = int(fields[2])
        self._segments, self._sections = fields[5], fields[6]
        self._segment_counts, self._section_counts = fields[9:11], fields[11:13]

    def read(self, offset: int, size: int) -> bytes:
        if size > MOST_TABLE_BYTES or offset + size > self.size:
            raise Damaged(f"it has no {size} bytes at {offset}")
        self.stream.seek(offset)
        return self.stream.read(size)

    def name(self, offset: int) -> str:
        """The text that begins at this offset, up to its zero byte."""
        content = self.read(offset, max(0, min(LONGEST_NAME, self.size - offset)))
        end = content.find(b"\0")
        if end < 0:
            raise Damaged("a name in it does not end")
        return content[:end].decode(errors="replace")

    def segments(self) -> list[tuple[int, ...]]:
        return self._table(SEGMENT, self._segments, *self._segment_counts)

    def sections(self) -> list[tuple[int, ...]]:
        return self._table(SECTION, self._sections, *self._section_counts)

    def _table(self, entry: struct.Struct, offset: int, size: int, count: int) -> list[tuple[int, ...]]:
        if count and size != entry.size:
            raise Damaged(f"an entry of a table has {size} bytes")
        return list(entry.iter_unpack(self.read(offset, entry.size * count)))

    def segment(self, kind: int) -> tuple[int, int] | None:
        """Offset and size of the first segment of this kind."""
        return next(((header[2], header[5]) for header in self.segments() if header[0] == kind), None)

    def offset_of(self, address: int) -> int:
        """The position in the file of the content of an address."""
        for kind, _, offset, begin, _, size, *_ in self.segments():
            if kind == PT_LOAD and begin <= address < begin + size:
                return int(offset + address - begin)
        raise Damaged(f"no segment has the address {address:#x}")


def read_elf(file: Path, reader: Callable[[Elf], Value], fallback: Value) -> Value:
    """What `reader` returns of a 64-bit little-endian ELF file, `fallback` of any other.

    Raises Damaged, OSError.
    """
    with open_regular(file) as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            return fallback
        try:
            return reader(Elf(stream))
        except struct.error as error:
            raise Damaged(f"a table in it is cut off ({error})") from error


def loaded_bytes(file: Path) -> int:
    """Bytes of code and data that are loaded from a program (`man 5 elf`); of any other file its size.

    Debug information and symbols, which depend on compiler flags, do not count.
    """
    size = file.stat().st_size
    try:
        loaded = read_elf(file, lambda elf: sum(segment[5] for segment in elf.segments() if segment[0] == PT_LOAD), 0)
    except Damaged:
        return size
    return min(loaded, size) or size


def function_names(file: Path) -> frozenset[str]:
    """The functions in the symbol table of a program, mangled as the compiler wrote them; empty if it was stripped.

    Empty, too, for a damaged file, and for one that is no 64-bit little-endian ELF file.
    """
    try:
        return read_elf(file, _functions, frozenset())
    except Damaged:
        return frozenset()


def _functions(elf: Elf) -> frozenset[str]:
    sections = elf.sections()
    table = next((section for section in sections if section[1] == SHT_SYMTAB), None)
    if table is None or table[6] >= len(sections):
        return frozenset()
    names_at, names_size = sections[table[6]][4:6]
    if names_size > MOST_NAMES_BYTES:
        raise Damaged("its symbol table is too large")
    names = elf.read(names_at, names_size)
    functions, room = set[bytes](), MOST_NAMES_BYTES
    for begin in _function_places(elf, table):
        end = names.find(b"\0", begin, begin + LONGEST_NAME)
        if end > begin and (name := names[begin:end]) not in functions:
            functions.add(name)
            room -= len(name)
        if room < 0 or len(functions) > MOST_FUNCTIONS:
            raise Damaged("its symbol table is too large")
    return frozenset(name.decode(errors="replace") for name in functions)


def _function_places(elf: Elf, table: tuple[int, ...]) -> Iterator[int]:
    """The positions of the names of the functions that a symbol table defines."""
    symbols = elf.read(table[4], table[5] - table[5] % SYMBOL.size)
    for name, info, _, section, _, _ in SYMBOL.iter_unpack(symbols):
        if info & 0xF in (STT_FUNC, STT_GNU_IFUNC) and section:
            yield name


def linkage(file: Path) -> Linkage | None:
    """The libraries of a program; None for a file that is no 64-bit little-endian ELF file. Raises Damaged."""
    return read_elf(file, _linkage, None)


def _linkage(elf: Elf) -> Linkage:
    interpreter, dynamic = elf.segment(PT_INTERP), elf.segment(PT_DYNAMIC)
    loader = elf.name(interpreter[0]) if interpreter else ""
    if dynamic is None:
        return Linkage(elf.machine, loader)
    entries = _entries(elf, *dynamic)
    values = dict(reversed(entries))
    if DT_STRTAB not in values:
        return Linkage(elf.machine, loader)
    names_at = elf.offset_of(values[DT_STRTAB])
    names = {tag: [elf.name(names_at + value) for key, value in entries if key == tag] for tag in (1, 15, 29)}
    paths = (path for line in names[DT_RUNPATH] or names[DT_RPATH] for path in line.split(":"))
    return Linkage(
        elf.machine,
        loader,
        tuple(names[DT_NEEDED]),
        tuple(paths),
        tuple(_needed_versions(elf, values, names_at)),
        frozenset(_defined_versions(elf, values, names_at)),
    )


def _entries(elf: Elf, offset: int, size: int) -> list[tuple[int, int]]:
    """Tags and values of the dynamic section, up to its end."""
    content = elf.read(offset, min(size, MOST_ENTRIES * ENTRY.size) // ENTRY.size * ENTRY.size)
    entries = list(ENTRY.iter_unpack(content))
    return entries[: next((number for number, (tag, _) in enumerate(entries) if not tag), len(entries))]


def _chain(elf: Elf, entry: struct.Struct, offset: int, count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Offsets and fields of entries, of which the last field is the distance to the next one."""
    if count > MOST_ENTRIES:
        raise Damaged(f"it has a list of {count} versions")
    for _ in range(count):
        fields = entry.unpack(elf.read(offset, entry.size))
        yield offset, fields
        offset += fields[-1]


def _needed_versions(elf: Elf, values: dict[int, int], names_at: int) -> Iterator[tuple[str, str]]:
    if DT_VERNEED not in values:
        return
    remaining = MOST_ENTRIES
    for offset, need in _chain(elf, NEED, elf.offset_of(values[DT_VERNEED]), values.get(DT_VERNEEDNUM, 0)):
        library = elf.name(names_at + need[2])
        remaining -= need[1] + 1
        for _, version in _chain(elf, NEEDED_VERSION, offset + need[3], need[1] if remaining > 0 else MOST_ENTRIES + 1):
            if not version[1] & WEAK:
                yield library, elf.name(names_at + version[3])


def _defined_versions(elf: Elf, values: dict[int, int], names_at: int) -> Iterator[str]:
    if DT_VERDEF not in values:
        return
    for offset, version in _chain(elf, DEFINITION, elf.offset_of(values[DT_VERDEF]), values.get(DT_VERDEFNUM, 0)):
        (name,) = struct.unpack("<I", elf.read(offset + version[5], 4))
        yield elf.name(names_at + name)
