"""The file of an archive: a zip with a manifest, and a file of JSON lines for each table."""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

SCHEMA = "speedtrack.archive/2"
#: The second is its former name.
SCHEMAS = (SCHEMA, "speedtrack.project/1")
MANIFEST = "manifest.json"
PEOPLE_FILE = "people.ndjson"
LONGEST_MANIFEST = 1_000_000
DAMAGED = (zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError, RuntimeError, UnicodeDecodeError)
LONGEST_LINE = 64_000_000  # bytes; documents of trials and logs are the longest values
CHUNK = 1024 * 1024


class ArchiveError(Exception):
    """The archive was not written or not restored; the text has cause and remedy."""


@dataclass(frozen=True)
class Content:
    """The properties of a file of lines: their number, their bytes, their SHA-256, and the names of the columns."""

    rows: int
    bytes: int
    sha256: str
    columns: list[str]


@dataclass(frozen=True)
class ArchiveManifest:
    """The contents of an archive. ``files``: name -> Content. ``migrations``: of the server that made it."""

    project: str
    made_at: str
    version: str
    migrations: list[list[str]]
    files: dict[str, Content]
    schema: str = SCHEMA

    @property
    def rows(self) -> int:
        return sum(content.rows for content in self.files.values())

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1)


def is_archive(file: Path) -> bool:
    """Return whether the file is a zip with a manifest of this kind, or a zip whose manifest cannot be read.

    In the second case restoring it reports the fault.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            archive.getinfo(MANIFEST)
            try:
                return any(schema.rpartition("/")[0] in head_of(archive) for schema in SCHEMAS)
            except (*DAMAGED, ArchiveError):
                return True
    except (zipfile.BadZipFile, OSError, KeyError):
        return False


def head_of(archive: zipfile.ZipFile) -> str:
    if archive.getinfo(MANIFEST).file_size > LONGEST_MANIFEST:
        raise ArchiveError(f"{archive.filename}: its {MANIFEST} is too large: name what `manage.py export` wrote")
    return archive.read(MANIFEST).decode()


def manifest_of(archive: zipfile.ZipFile) -> ArchiveManifest:
    """The manifest of an archive. Raises ArchiveError."""
    try:
        document = json.loads(head_of(archive))
        schema = document["schema"]
        if schema in SCHEMAS:
            files = {str(name): Content(**content) for name, content in document["files"].items()}
            return ArchiveManifest(**document | {"files": files})
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise ArchiveError(f"{archive.filename} is no archive of a project: name what `manage.py export` wrote") from e
    raise ArchiveError(
        f"the archive has the form {str(schema)[:50]!r}, and this release reads {SCHEMA}: install a newer one"
    )


@contextmanager
def open_archive(file: Path) -> Iterator[zipfile.ZipFile]:
    """Open the zip file. Raises ArchiveError if it is no zip file, or if a part is damaged that is read."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except FileNotFoundError as e:
        raise ArchiveError(f"there is no file {file}") from e
    except DAMAGED as e:
        raise ArchiveError(f"{file} is damaged, or no archive ({e}): write it again by `manage.py export`") from e


def check(archive: zipfile.ZipFile, manifest: ArchiveManifest) -> None:
    """Read the whole archive. Raises ArchiveError if it differs from its manifest."""
    names = {info.filename: info for info in archive.infolist()}
    if unexpected := sorted(set(names) ^ {MANIFEST, *manifest.files}):
        raise ArchiveError(f"the archive and its manifest differ in {unexpected[0][:80]!r}: write it again")
    for name, content in manifest.files.items():
        digest, rows = hashlib.sha256(), 0
        if names[name].file_size == content.bytes:
            with archive.open(name) as stream:
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
                    rows += chunk.count(b"\n")
        if (digest.hexdigest(), rows) != (content.sha256, content.rows):
            raise ArchiveError(f"{name} in the archive differs from its manifest: write it again")


def lines(stream: IO[bytes], name: str) -> Iterator[str]:
    """The lines of a file as text. Raises ArchiveError for a line that is too long or not UTF-8."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise ArchiveError(f"line {number} of {name} is longer than {LONGEST_LINE:,} bytes")
        try:
            yield line.decode().rstrip("\n")
        except UnicodeDecodeError as e:
            raise ArchiveError(f"line {number} of {name} is not UTF-8") from e


class LineFile:
    """A file of lines in a zip archive that is being written; it collects the Content for the manifest."""

    def __init__(self, stream: IO[bytes], columns: list[str]) -> None:
        self.stream, self.columns = stream, columns
        self.rows = self.length = 0
        self.digest = hashlib.sha256()

    def write(self, line: str) -> None:
        piece = line.encode() + b"\n"
        self.stream.write(piece)
        self.digest.update(piece)
        self.rows += 1
        self.length += len(piece)

    def content(self) -> Content:
        return Content(self.rows, self.length, self.digest.hexdigest(), self.columns)


def columns_of(table: Any) -> list[str]:
    return [model_field.column for model_field in table.fields]
