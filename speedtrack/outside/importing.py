"""Import files, of SpeedTrack's own format or of other tools', in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.db import transaction

from speedtrack.accounts import audit
from speedtrack.outside import document, taking
from speedtrack.outside.document import MOST_RESULTS, SCHEMA, DocumentError, Refusal
from speedtrack.outside.readers import Options, OutsideResult, ReadError, folders, registry
from speedtrack.outside.readers.files import File
from speedtrack.outside.taking import Prepared, Report, Sender
from speedtrack.projects.models import Project
from speedtrack.runs.models import Import

AUTO, NATIVE = "auto", "native"
LARGEST_FILE = 100 * 1024 * 1024  # bytes
BEGINNING = 4096  # bytes of a file in which the schema's name stands


class Unreadable(Exception):
    """A file cannot be read; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Parcel:
    """A part of a file that is stored at once. ``first``: the index of its first result in the file."""

    batch: document.Batch
    first: int
    of_reader: bool


@dataclass(frozen=True)
class Contents:
    """The batches in a file. ``left_out``: parts of it that are no usable results, with the reasons."""

    parcels: list[Parcel]
    left_out: list[str] = field(default_factory=list)


@dataclass
class ImportOutcome:
    """The result of importing one file. ``refused``: a sentence for each refused result."""

    taken: int = 0
    unchanged: int = 0
    refused: list[str] = field(default_factory=list)

    def add(self, parcel: Parcel, report: Report) -> None:
        self.taken += report.taken
        self.unchanged += report.unchanged
        self.refused += [refusal_in_words(parcel, one) for one in report.refused]


def formats() -> list[str]:
    return [AUTO, NATIVE, *(reader.name for reader in registry.READERS)]


def contents_of(path: Path, form: str, options: Options) -> Contents:
    """The contents of a file or folder. Raises Unreadable."""
    try:
        content = content_of(path)
    except ReadError as e:
        raise Unreadable(f"{path.name}: {e}") from e
    return contents_in(content, form, replace(options, name=path.name))


def contents_in(content: bytes, form: str, options: Options) -> Contents:
    """The contents of a file from its bytes; ``options`` has its name. Raises Unreadable."""
    try:
        if form == NATIVE or (form == AUTO and is_native(content)):
            return Contents([Parcel(document.parse_file(content, shared_by(options)), 0, of_reader=False)])
        reader = registry.reader_of(content, options.name) if form == AUTO else registry.reader_named(form)
        reading = reader.reading(File(content, options.name), options)
        parcels = list(parcels_of(reading.results, reader.title, options))
        return Contents(parcels, [str(one) for one in reading.left_out])
    except (ReadError, DocumentError) as e:
        raise Unreadable(f"{options.name}: {e}") from e


def content_of(path: Path) -> bytes:
    """The bytes of a file, or those of a tar of a folder's results. Raises Unreadable or ReadError."""
    try:
        if path.is_dir():
            return folders.tar_of(path)
        if not path.is_file():
            raise Unreadable(f"{path}: there is no such file")
        if path.stat().st_size > LARGEST_FILE:
            raise Unreadable(f"{path.name} has more than {LARGEST_FILE:,} bytes: import it in parts")
        return path.read_bytes()
    except OSError as e:
        raise Unreadable(f"{path}: {e.strerror or e}") from e


def is_native(content: bytes) -> bool:
    return SCHEMA.encode() in content[:BEGINNING]


def shared_by(options: Options) -> dict[str, Any]:
    """The fields that the options state for results without them, as a batch has them."""
    said = {
        "commit": options.commit,
        "machine": options.machine,
        "environment": dict(options.environment),
        "measured_at": options.measured_at,
    }
    return {name: value for name, value in said.items() if value}


def parcels_of(results: Sequence[OutsideResult], tool: str, options: Options) -> Iterator[Parcel]:
    for first in range(0, len(results), MOST_RESULTS):
        some = list(results[first : first + MOST_RESULTS])
        batch = document.batch_of(document.document_of(some, tool[:100], **shared_by(options)))
        yield Parcel(batch, first, of_reader=True)


def store(
    project: Project, files: Mapping[Path, Contents], name: str, done: Callable[[int], object]
) -> dict[Path, ImportOutcome]:
    """Store the results of files that this person imports.

    ``done`` is called after each batch with its number of results. Several batches are several imports: what is stored
    of the first ones stays, whatever comes later.
    """
    return store_each(files, prepared_batches(project, files, name), done)


def store_all_or_nothing(
    project: Project, files: Mapping[Path, Contents], name: str, done: Callable[[int], object]
) -> dict[Path, ImportOutcome]:
    """Like ``store``, but if one result of any file is refused, none is stored."""
    prepared = list(prepared_batches(project, files, name))
    with transaction.atomic():
        outcomes = store_each(files, prepared, done)
        if any(one.refused for one in outcomes.values()):
            transaction.set_rollback(True)
            for one in outcomes.values():
                one.taken = one.unchanged = 0
    return outcomes


def prepared_batches(
    project: Project, files: Mapping[Path, Contents], name: str
) -> Iterator[tuple[Path, Parcel, Prepared]]:
    for path, contents in files.items():
        for parcel in contents.parcels:
            yield path, parcel, taking.prepare(project, parcel.batch, sender_of(name, path.name))


def store_each(
    files: Iterable[Path], prepared: Iterable[tuple[Path, Parcel, Prepared]], done: Callable[[int], object]
) -> dict[Path, ImportOutcome]:
    """Store each batch in a transaction of its own."""
    outcomes = {path: ImportOutcome() for path in files}
    for path, parcel, one in prepared:
        with transaction.atomic():
            outcomes[path].add(parcel, store_noted(one))
        done(len(parcel.batch.results))
    return outcomes


def store_noted(prepared: Prepared) -> Report:
    """Store the valid results of a batch, with an entry of the audit log."""
    report = taking.store(prepared)
    if report.taken:
        what = f"{report.taken} results of {prepared.sender.source}"
        audit.note(None, "results.import", what, prepared.project)
    return report


def refusal_in_words(parcel: Parcel, refusal: Refusal) -> str:
    """The sentence about a refused result.

    For a file of another tool it names the result, since a place in our document would tell the user nothing.
    """
    if not parcel.of_reader:
        return f"{refusal.pointer}: {refusal.detail}"
    row = parcel.batch.results[refusal.index]
    field = refusal.pointer.removeprefix(f"/results/{refusal.index}").removeprefix("/")
    named = f"{row.get('benchmark', '')}, {row.get('metric', '')}".strip(", ")
    return ": ".join(filter(None, (f"result {parcel.first + refusal.index + 1} ({named})", field, refusal.detail)))


def sender_of(name: str, source: str) -> Sender:
    return Sender(Import.Door.COMMAND, None, name[:150], source)
