"""An uploaded file, read at most once as text, JSON or archive, within limits."""

import io
import json
import re
import sys
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.nodes import ConflictingValues, Node

LARGEST_FILE = 32 * 1024 * 1024  # bytes of an upload, also of an archive once it is unpacked
MOST_MEMBERS = 20_000  # of an uploaded archive
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
# What printf of C writes for numbers that JSON does not have; and texts, which may contain such words. An unfinished
# text goes to the end of the file: otherwise each of its quotes would begin a search of its own.
TEXT_OR_NO_NUMBER = re.compile(
    r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[-+]?(?:\bnan\b(?:\(\w*\))?|\binf(?:inity)?\b|\b1\.#\w+)', re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class File:
    """The bytes of a file, and the name under which it was given. ``uploaded``: it may be so large only."""

    content: bytes
    name: str = ""
    uploaded: bool = True

    def check(self) -> None:
        """Refuse a file that is wrong before parsing, such as an empty one."""
        if self.uploaded and len(self.content) > LARGEST_FILE:
            raise ReadError(
                f"it has {len(self.content) / 1e6:.0f} MB", "file", f"at most {LARGEST_FILE / 1e6:.0f} MB are read"
            )
        if not self.content.strip():
            raise ReadError("it is empty", "file")
        if self.content.startswith(ZIP):
            raise ReadError("it is a zip archive", "file", "give the folder itself, or a tar archive of it")

    @cached_property
    def text(self) -> str:
        if self.content.startswith(UTF16) or b"\0" in self.content[:200]:
            raise ReadError("it looks like UTF-16, or is no text", "byte 0", "save it as UTF-8")
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as wrong:
            raise ReadError("it is not UTF-8", f"byte {wrong.start}", "save it as UTF-8") from wrong

    @cached_property
    def lines(self) -> list[str]:
        return self.text.replace("\r\n", "\n").split("\n")

    @cached_property
    def readable_lines(self) -> list[str]:
        """The lines, or none if it is not text: for recognising formats."""
        try:
            return self.lines
        except ReadError:
            return []

    @cached_property
    def document(self) -> Node:
        """The file as one JSON document."""
        return Node(parse_json(self.text))

    @cached_property
    def json(self) -> Node:
        """The document, or a null node if it is not JSON: for recognising formats."""
        try:
            return self.document
        except ReadError:
            return Node(None)

    @cached_property
    def folder(self) -> "Mapping[str, File]":
        """The members by path, or none if it is not an archive: for recognising formats."""
        try:
            return self.members if self.is_archive else {}
        except ReadError:
            return {}

    @property
    def is_archive(self) -> bool:
        return self.content.startswith(GZIP) or self.content[257:262] == b"ustar"

    @cached_property
    def members(self) -> "Mapping[str, File]":
        """The JSON files of a tar archive by their path. Nothing is unpacked to disk."""
        try:
            largest, most = (LARGEST_FILE, MOST_MEMBERS) if self.uploaded else (sys.maxsize, sys.maxsize)
            return members_of(unpacked(self.content, largest), most)
        except (tarfile.TarError, EOFError, ValueError, OverflowError, UnicodeError, zlib.error) as wrong:
            raise ReadError(f"the archive cannot be read ({wrong})", "file", "pack it again with tar") from wrong


def parse_json(text: str, position: str = "") -> Any:
    """The value in JSON, with words such as ``-nan`` for numbers. Raises ReadError with the position in the text."""
    try:
        return loaded(text)
    except json.JSONDecodeError as wrong:
        at = f"line {wrong.lineno}, column {wrong.colno}"
        raise ReadError(f"no JSON ({wrong.msg})", joined(position, at), "the file may be cut off") from wrong
    except RecursionError as wrong:
        raise ReadError("lists or objects are nested too deeply", joined(position, "document")) from wrong
    except ValueError as wrong:  # a whole number with thousands of digits
        raise ReadError("a number has too many digits", joined(position, "document")) from wrong


def loaded(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=without_duplicates)
    except json.JSONDecodeError:
        plain = TEXT_OR_NO_NUMBER.sub(lambda match: match[0] if match[0].startswith('"') else "NaN", text)
        if plain == text:
            raise
        return json.loads(plain, object_pairs_hook=without_duplicates)


def joined(position: str, at: str) -> str:
    return f"{position}, {at}" if position else at


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object, each name once.

    Objects of one name get their places, ``name (1)``: memtier_benchmark writes such. Of other values equal ones are
    one, and different ones are ConflictingValues, for a reader to refuse if it needs that value.
    """
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    values_by_name: dict[str, list[Any]] = {}
    for name, value in pairs:
        values_by_name.setdefault(name, []).append(value)
    members = {}
    for name, values in values_by_name.items():
        if len(values) > 1 and all(isinstance(value, dict) for value in values):
            members |= {f"{name} ({number})": value for number, value in enumerate(values, start=1)}
        else:
            members[name] = values[0] if len(set(map(repr, values))) == 1 else ConflictingValues()
    return members


@dataclass(frozen=True)
class Folder(File):
    """Several files by their paths, each read when it is asked for: a folder on this machine, or a part of a file."""

    content: bytes = b""
    files: Mapping[str, File] = field(default_factory=dict)
    is_archive = True

    def check(self) -> None:
        if not self.files:
            raise ReadError("the folder has no JSON file", self.name)

    @property
    def members(self) -> Mapping[str, File]:
        return self.files


def unpacked(content: bytes, largest: int) -> bytes:
    if not content.startswith(GZIP):
        return content
    stream = zlib.decompressobj(wbits=31)
    plain = stream.decompress(content, largest)
    if not stream.eof:
        cause = f"it is cut off, or has more than {largest / 1e6:.0f} MB once unpacked"
        raise ReadError(cause, "file", "pack only the folder of results")
    return plain


def members_of(content: bytes, most: int) -> dict[str, File]:
    files: dict[str, File] = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for number, member in enumerate(archive):
            if number >= most:
                raise ReadError(f"the archive has more than {most:,} files", "file", "pack fewer at a time")
            if is_plain_json(member) and (stream := archive.extractfile(member)):
                path = member.name.removeprefix("./")
                files[path] = File(stream.read(LARGEST_FILE), path)
    return files


def is_plain_json(member: tarfile.TarInfo) -> bool:
    """Return whether the member is a complete JSON file: no link, no device, no sparse file."""
    plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and member.sparse is None
    return plain and member.size <= LARGEST_FILE and member.name.endswith(".json")
