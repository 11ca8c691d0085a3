"""Import files, of SpeedTrack's own format or of other tools', in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.db import transaction

from speedtrack.outside import document, taking
from speedtrack.outside.document import SCHEMA, DocumentError, Refusal
from speedtrack.outside.readers import Options, ReadError, folders, registry
from speedtrack.outside.readers.files import File
from speedtrack.outside.taking import Prepared, Report, Sender
from speedtrack.projects.models import Project
from speedtrack.runs.models import Import

Take = Callable[[Prepared], Report]  #: stores the valid results of a batch
AUTO, NATIVE = "auto", "native"
LARGEST_FILE = 100 * 1024 * 1024  # bytes
BEGINNING = 4096  # bytes of a file that contain the schema's name


class Unreadable(Exception):
    """A file cannot be read; the message has the file, the cause and the remedy."""


@dataclass(frozen=True)
class Parcel:
    """A part of a file that is stored at once. ``first``: the index of its first result in the file."""

    batch: document.Batch
    first: int
    of_reader: bool


@dataclass(frozen=True)
class Contents:
    """The batches in a file. ``left_out``: parts without usable results, with the reasons."""

    parcels: list[Parcel]
    left_out: list[str] = field(default_factory=list)


@dataclass
class ImportOutcome:
    """The result of importing one file.

    ``refused``: a sentence for each refused result. ``benchmarks``, ``commits``: of the stored results, in order.
    """

    taken: int = 0
    unchanged: int = 0
    refused: list[str] = field(default_factory=list)
    benchmarks: dict[str, None] = field(default_factory=dict)
    commits: dict[str, None] = field(default_factory=dict)

    def add(self, parcel: Parcel, report: Report, prepared: Prepared) -> None:
        pairs = taking.kept_of(prepared, report)
        self.benchmarks |= dict.fromkeys(name for name, _ in pairs)
        self.commits |= dict.fromkeys(sha for _, sha in pairs)
        self.taken += report.taken
        self.unchanged += report.unchanged
        self.refused += [refusal_in_words(parcel, refusal) for refusal in report.refused]


class Unfinished(Exception):
    """A batch could not be stored, although its results are valid; ``outcomes`` has everything stored before."""

    def __init__(self, outcomes: Mapping[Path, ImportOutcome], cause: BaseException) -> None:
        self.outcomes = outcomes
        reason = "interrupted" if isinstance(cause, KeyboardInterrupt) else f"{cause or type(cause).__name__}".strip()
        super().__init__(reason.partition("\n")[0])


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
            return Contents(parcels_of(document.parse_file(content, shared_by(options)), of_reader=False))
        reader = registry.reader_of(content, options.name) if form == AUTO else registry.reader_named(form)
        reading = reader.reading(File(content, options.name), options)
        if not reading.results:
            return Contents([], [str(omission) for omission in reading.left_out])
        batch = document.document_of(list(reading.results), reader.title[:100], **shared_by(options))
        parcels = parcels_of(document.whole_of(batch), of_reader=True)
        return Contents(parcels, [str(omission) for omission in reading.left_out])
    except (ReadError, DocumentError) as e:
        raise Unreadable(f"{options.name}: {e}") from e


def content_of(path: Path) -> bytes:
    """The bytes of a file, or of a tar of a folder's results. Raises Unreadable or ReadError."""
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
    """The fields that the options state for results without them, in a batch's form."""
    values = {
        "commit": options.commit,
        "machine": options.machine,
        "environment": dict(options.environment),
        "measured_at": options.measured_at,
    }
    return {name: value for name, value in values.items() if value}


def parcels_of(batch_of_file: document.Batch, of_reader: bool) -> list[Parcel]:
    return [Parcel(batch, first, of_reader) for first, batch in document.parts_of(batch_of_file)]


def store(
    project: Project,
    files: Mapping[Path, Contents],
    name: str,
    progress: Callable[[int], object],
    take: Take = taking.store,
) -> dict[Path, ImportOutcome]:
    """Store the results of files that this person imports.

    ``progress`` is called after each batch with its number of results, which ``take`` stores. Several batches are
    several imports: the first ones stay stored even if a later one fails.
    """
    return store_each(files, prepared_batches(project, files, name), progress, take)


def store_all_or_nothing(
    project: Project,
    files: Mapping[Path, Contents],
    name: str,
    progress: Callable[[int], object],
    take: Take = taking.store,
) -> dict[Path, ImportOutcome]:
    """Like ``store``, but if one result of any file is refused, none is stored."""
    prepared = list(prepared_batches(project, files, name))
    with transaction.atomic():
        outcomes = store_each(files, prepared, progress, take)
        if any(outcome.refused for outcome in outcomes.values()):
            transaction.set_rollback(True)
            for outcome in outcomes.values():
                outcome.taken = outcome.unchanged = 0
    return outcomes


def prepared_batches(
    project: Project, files: Mapping[Path, Contents], name: str
) -> Iterator[tuple[Path, Parcel, Prepared]]:
    for path, contents in files.items():
        for parcel in contents.parcels:
            yield path, parcel, taking.prepare(project, parcel.batch, sender_of(name, path.name))


def store_each(
    files: Iterable[Path],
    prepared: Iterable[tuple[Path, Parcel, Prepared]],
    progress: Callable[[int], object],
    take: Take,
) -> dict[Path, ImportOutcome]:
    """Store each batch in a separate transaction. Raises Unfinished if one fails."""
    outcomes = {path: ImportOutcome() for path in files}
    try:
        for path, parcel, prepared_batch in prepared:
            with transaction.atomic():
                report = take(prepared_batch)
            outcomes[path].add(parcel, report, prepared_batch)
            progress(len(parcel.batch.results))
    except (Exception, KeyboardInterrupt) as e:  # after any error, earlier batches stay stored
        raise Unfinished(outcomes, e) from e
    return outcomes


def refusal_in_words(parcel: Parcel, refusal: Refusal) -> str:
    """The sentence about a refused result.

    For a file of another tool it names the result, since the user does not know its position in our document.
    """
    within = refusal.pointer.removeprefix(f"/results/{refusal.index}")
    if not parcel.of_reader:
        return f"/results/{parcel.first + refusal.index}{within}: {refusal.detail}"
    row = parcel.batch.results[refusal.index]
    field = within.removeprefix("/")
    label = f"{row.get('benchmark', '')}, {row.get('metric', '')}".strip(", ")
    return ": ".join(filter(None, (f"result {parcel.first + refusal.index + 1} ({label})", field, refusal.detail)))


def sender_of(name: str, source: str) -> Sender:
    return Sender(Import.Door.COMMAND, None, name[:150], source)
