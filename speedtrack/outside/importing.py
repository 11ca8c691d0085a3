"""Import files, of SpeedTrack's own format or of other tools', in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from django.db import transaction

from speedtrack.outside import document, taking
from speedtrack.outside.document import SCHEMA, DocumentError, ResultRefusal
from speedtrack.outside.readers import Options, ReadError, registry, results
from speedtrack.outside.readers.files import File, Folder
from speedtrack.outside.readers.folders import folder_of
from speedtrack.outside.readers.results import LeftOut
from speedtrack.outside.readers.tools import ToolReader
from speedtrack.outside.taking import Prepared, Report, Sender
from speedtrack.projects.models import Project
from speedtrack.runs.models import Import

Take = Callable[[Prepared], Report]  #: stores the valid results of a batch
AUTO, NATIVE = "auto", "native"
BEGINNING = 4096  # bytes of a file that contain the schema's name


class Unreadable(Exception):
    """A file cannot be read; the message has the file, the cause and the remedy."""


@dataclass(frozen=True)
class Parcel:
    """A part of a file that is stored at once. ``first``: the index of its first result in the file."""

    batch: document.Batch
    first: int
    of_reader: bool


@dataclass
class Contents:
    """The batches in a file. ``count``: how many results these have; None for a folder, which is read meanwhile.

    ``left_out``: parts that are no results, with the reasons. ``refused``: parts that cannot be used. Both are complete
    when all batches are read.
    """

    parcels: Iterable[Parcel]
    count: int | None = None
    left_out: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def note(self, omissions: Iterable[LeftOut]) -> None:
        for omission in omissions:
            (self.refused if omission.is_fault else self.left_out).append(str(omission))


@dataclass
class ImportOutcome:
    """The result of importing one file.

    ``refused``: a sentence for each refused result, or for all with the same unknown commit or machine.
    ``refused_count``: how many results these are. ``benchmarks``, ``commits``: of the stored results, in order.
    """

    taken: int = 0
    unchanged: int = 0
    refused: list[str] = field(default_factory=list)
    refused_count: int = 0
    benchmarks: dict[str, None] = field(default_factory=dict)
    commits: dict[str, None] = field(default_factory=dict)

    def add(self, parcel: Parcel, report: Report, prepared: Prepared) -> None:
        pairs = taking.kept_of(prepared, report)
        self.benchmarks |= dict.fromkeys(name for name, _ in pairs)
        self.commits |= dict.fromkeys(sha for _, sha in pairs)
        self.taken += report.taken
        self.unchanged += report.unchanged
        self.refused += refusals_in_words(parcel, report.refused)
        self.refused_count += len(report.refused)

    def refuse(self, reasons: Sequence[str]) -> None:
        """Add the parts of the file that cannot be used."""
        self.refused += reasons
        self.refused_count += len(reasons)


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
        if not path.is_file() and not path.is_dir():
            raise Unreadable(f"{path}: there is no such file")
        file = folder_of(path) if path.is_dir() else File(path.read_bytes(), path.name, uploaded=False)
    except OSError as e:
        raise Unreadable(f"{path}: {e.strerror or e}") from e
    return contents_in(file, form, replace(options, name=path.name))


def contents_in(file: File, form: str, options: Options) -> Contents:
    """The contents of a file. Of a folder only the first part with results is read at once. Raises Unreadable."""
    try:
        results.check_given(options)
        if form == NATIVE or (form == AUTO and is_native(file.content)):
            batch = document.parse_file(file.content, shared_by(options))
            return Contents(parcels_of(batch, of_reader=False), len(batch.results))
        reader = registry.reader_of(file) if form == AUTO else registry.reader_named(form)
        contents = Contents(())
        parcels = parcels_read(reader, file, options, contents)
        if isinstance(file, Folder):
            first = list(islice(parcels, 1))
            contents.parcels = chain(first, parcels)
        else:
            contents.parcels = first = list(parcels)
            contents.count = sum(len(parcel.batch.results) for parcel in first)
        if not first:
            raise results.without_results([*contents.refused, *contents.left_out])
        return contents
    except (ReadError, DocumentError) as e:
        raise Unreadable(f"{options.name}: {e}") from e


def parcels_read(reader: ToolReader, file: File, options: Options, contents: Contents) -> Iterator[Parcel]:
    """The batches of a file, part by part; ``contents`` notes the parts that are left out."""
    first = 0
    for reading in reader.readings(file, options):
        contents.note(reading.left_out)
        if reading.results:
            batch = document.document_of(reading.results, reader.title[:100], **shared_by(options))
            for parcel in parcels_of(document.whole_of(batch), of_reader=True):
                yield replace(parcel, first=first)
                first += len(parcel.batch.results)


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
    files: Mapping[Path, Contents],
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
    for path, contents in files.items():
        outcomes[path].refuse(contents.refused)
    return outcomes


def refusals_in_words(parcel: Parcel, refusals: Iterable[ResultRefusal]) -> list[str]:
    """A sentence about each refused result. Those with the same fault of a commit or machine share one."""
    groups: dict[object, list[ResultRefusal]] = {}
    for refusal in refusals:
        within = refusal.pointer.removeprefix(f"/results/{refusal.index}")
        shared = (within, refusal.detail) if within in ("/commit", "/machine") else refusal.index
        groups.setdefault(shared, []).append(refusal)
    return [
        refusal_in_words(parcel, first) if not further else f"{1 + len(further)} results: {first.detail}"
        for first, *further in groups.values()
    ]


def refusal_in_words(parcel: Parcel, refusal: ResultRefusal) -> str:
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
