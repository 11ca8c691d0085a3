"""Backup and restore: a zip file with the output of pg_dump, the suites' files, and a manifest to check both.

The dump, and the counts and digests of all rows in the manifest, are from one snapshot, so the server may go on working
meanwhile. A backup omits data that can be made again (mirrors), that the runners keep (builds, unsent results), or that
must not be next to it (SECRET_KEY and SPEEDTRACK_ENCRYPTION_KEYS).
"""

import contextlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

from speedtrack.ground.postgres import databasefitness, pgsession
from speedtrack.ground.postgres.databasefitness import BEFORE_RESTORE
from speedtrack.ground.secrets.sealed import KeyLost, SealedField
from speedtrack.monitoring.health import missing_migrations, own_migrations
from speedtrack.upkeep.pgprograms import (
    BackupError,
    WithoutLines,
    address,
    pass_in,
    pass_on,
    pass_through,
    piped_into,
    program,
    server_version,
)

Answer = TypeVar("Answer")
CANCEL_S = 0.2  # between two attempts to end a statement


SCHEMA = "speedtrack.backup/1"
MANIFEST, DUMP, SUITES = "manifest.json", "database.dump", "suites/"
# Of what takes most room, little becomes smaller by better compression: it is packed already, or fractions.
DUMPED = ("--format=custom", "--compress=1", "--no-owner", "--no-privileges")
LOCK_WAIT = "--lock-wait-timeout=30s"  # a migration blocks it, and must not wait for a whole dump either
#: Settings of sessions that a newer pg_restore sets, but no older server has.
UNKNOWN_TO_OLDER = frozenset({b"SET transaction_timeout = 0;"})
# The text form of rows must not depend on the session.
PLAIN_SESSION = """
SET LOCAL TIME ZONE 'UTC'; SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres';
SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1; SET LOCAL statement_timeout = 0
"""
TABLES = """
SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace ORDER BY relname
"""
OTHER_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


@dataclass(frozen=True)
class BackupManifest:
    """The content of a backup. ``tables``: name -> number of rows, and a digest that does not depend on their order."""

    made_at: str
    postgresql: int
    migrations: list[list[str]]
    tables: dict[str, list[str]]
    schema: str = SCHEMA

    @property
    def rows(self) -> int:
        return sum(int(count) for count, _ in self.tables.values())


@dataclass
class RestoredBackup:
    """The findings of a restore that people must know."""

    manifest: BackupManifest
    notes: list[str] = field(default_factory=list)


def back_up(file: Path) -> BackupManifest:
    """Write a backup, complete or not at all, that only its owner can read. Raises BackupError."""
    if file.exists():
        raise BackupError(f"{file} exists: name another file")
    dump = program("pg_dump", server_version())
    with complete_file(file) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        with transaction.atomic(using=pgsession.session().alias), session_cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT pg_export_snapshot()")
            (snapshot,) = cursor.fetchone()
            arguments = [*DUMPED, "--snapshot", snapshot, LOCK_WAIT]
            with in_background(digests, cursor) as tables, archive.open(DUMP, "w", force_zip64=True) as target:
                pass_on([dump, *arguments, *address()], target)
            manifest = BackupManifest(
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                postgresql=server_version(),
                migrations=sorted(map(list, MigrationRecorder(connection).applied_migrations())),
                tables=tables.result(),
            )
        for suite in sorted(settings.SUITES.glob("*.toml")):
            archive.write(suite, f"{SUITES}{suite.name}", zipfile.ZIP_DEFLATED)
        archive.writestr(MANIFEST, json.dumps(asdict(manifest), indent=1), zipfile.ZIP_DEFLATED)
    return manifest


@contextlib.contextmanager
def in_background(work: Callable[[Any], Answer], cursor: Any) -> Iterator[Future[Answer]]:
    """Let a thread work with a cursor during the block, at whose end it is done, or given up if the block fails."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work, cursor)
        try:
            yield future
        except BaseException:
            while not future.cancel() and not future.done():
                cursor.connection.cancel_safe()  # the statement that runs now: none between two of them
                wait([future], timeout=CANCEL_S)
            raise


def restore(file: Path, replace: bool = False) -> RestoredBackup:
    """Restore a backup into an empty database, or replace its content, all or nothing. Raises BackupError."""
    with open_backup(file) as archive:
        manifest = manifest_of(archive)
        check_fits(manifest)
        with room_made(replace):
            with archive.open(DUMP) as source:
                load(source, manifest.postgresql)
            check_contents(manifest)
        restored = RestoredBackup(manifest)
        restored.notes += [*migration_notes(), *suite_notes(archive), *key_notes()]
    return restored


def check_fits(manifest: BackupManifest) -> None:
    if obstacle := databasefitness.of_server(pgsession.session()):
        raise BackupError(obstacle)
    if newer := databasefitness.unknown_migrations(map(tuple, manifest.migrations), own_migrations()):
        name = ".".join(newer[-1])
        raise BackupError(f"the backup is of a newer release ({name}): install that release, and restore then")


def load(source: IO[bytes], made_by: int) -> None:
    """Load a dump of PostgreSQL ``made_by``, in one transaction. Raises BackupError."""
    restoring = [program("pg_restore", max(server_version(), made_by)), "--no-owner", "--no-privileges"]
    if server_version() >= made_by:
        return pass_in([*restoring, "--exit-on-error", "--single-transaction", *address()], source)
    # An older server lacks some settings at the beginning of the script.
    psql = [
        program("psql", made_by),
        "--no-psqlrc",
        "--quiet",
        "--single-transaction",
        "--set=ON_ERROR_STOP=1",
    ]
    with piped_into([*psql, "--output=/dev/null", *address()]) as target:
        pass_through([*restoring, "--file=-"], source, WithoutLines(target, UNKNOWN_TO_OLDER))
    return None


@contextlib.contextmanager
def room_made(replace: bool) -> Iterator[None]:
    """An empty schema during the block. The former content is deleted at its end, or put back if it fails."""
    with session_cursor() as cursor:
        undo_interrupted(cursor)
        cursor.execute(TABLES)
        if tables := cursor.fetchall():
            if not replace:
                raise BackupError(
                    f"the database holds {len(tables)} tables: make an empty one for DATABASE_URL, or delete what it "
                    "holds with --replace"
                )
            cursor.execute(OTHER_SESSIONS)
            if session_count := cursor.fetchone()[0]:
                raise BackupError(
                    f"{session_count} other sessions use the database: stop all processes of the server first"
                )
            cursor.execute(f"ALTER SCHEMA public RENAME TO {BEFORE_RESTORE}; CREATE SCHEMA public")
        try:
            yield
        except BaseException:
            if tables:
                cursor.execute(f"DROP SCHEMA public CASCADE; ALTER SCHEMA {BEFORE_RESTORE} RENAME TO public")
            else:
                cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            raise
        if tables:
            cursor.execute(f"DROP SCHEMA {BEFORE_RESTORE} CASCADE")


def undo_interrupted(cursor: Any) -> None:
    """Put back the content that a killed restore was about to replace."""
    cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", [BEFORE_RESTORE])
    if not cursor.fetchall():
        return
    cursor.execute(TABLES)
    if cursor.fetchall():
        raise BackupError(
            f"an earlier restore was interrupted at its end: `DROP SCHEMA {BEFORE_RESTORE} CASCADE` in psql keeps what "
            f"it restored; `DROP SCHEMA public CASCADE; ALTER SCHEMA {BEFORE_RESTORE} RENAME TO public` what was there "
            "before"
        )
    cursor.execute(f"DROP SCHEMA public CASCADE; ALTER SCHEMA {BEFORE_RESTORE} RENAME TO public")


def check_contents(manifest: BackupManifest) -> None:
    with transaction.atomic(using=pgsession.session().alias), session_cursor() as cursor:
        digests_here = digests(cursor)
    if differing := sorted(
        name for name in digests_here | manifest.tables if digests_here.get(name) != manifest.tables.get(name)
    ):
        raise BackupError(
            f"the restored rows are not those of the backup ({', '.join(differing[:5])}): use another one"
        )


def digests(cursor: Any) -> dict[str, list[str]]:
    """Return for each table the number of its rows and the sum of their hashes."""
    cursor.execute(PLAIN_SESSION)
    cursor.execute(TABLES)
    digests_by_table = {}
    for (name,) in cursor.fetchall():
        statement = sql.SQL("SELECT count(*), coalesce(sum(hashtextextended(one::text, 0)), 0) FROM {} AS one")
        cursor.execute(statement.format(sql.Identifier(name)))
        digests_by_table[name] = [str(value) for value in cursor.fetchone()]
    return digests_by_table


def migration_notes() -> Iterator[str]:
    if missing := missing_migrations():
        yield f"it is of an older release: run `manage.py migrate` ({len(missing)} migrations) before anything else"


def suite_notes(archive: zipfile.ZipFile) -> Iterator[str]:
    """Suites of the backup whose file in SUITES differs or is missing. The server writes none there."""
    for name in archive.namelist():
        if name.startswith(SUITES) and "/" not in name.removeprefix(SUITES):
            file = settings.SUITES / name.removeprefix(SUITES)
            if not file.exists() or file.read_bytes() != archive.read(name):
                yield f"{file} {'differs' if file.exists() else 'is missing'}: the backup holds it as {name}"


def key_notes() -> Iterator[str]:
    """Report secrets of the backup that the keys of this installation cannot decrypt."""
    if missing_migrations():
        return
    lost = 0
    for model in apps.get_models():
        names = [model_field.name for model_field in model._meta.get_fields() if isinstance(model_field, SealedField)]
        for row in model._default_manager.values_list(*names) if names else ():
            lost += sum(not can_be_read(secret) for secret in row)
    if lost:
        yield (
            f"{lost} secrets cannot be decrypted: set SECRET_KEY (or SPEEDTRACK_ENCRYPTION_KEYS) to that of the "
            "installation of the backup, or enter them again; everything else works"
        )


def can_be_read(secret: Any) -> bool:
    try:
        secret.reveal()
    except KeyLost:
        return False
    return True


@contextlib.contextmanager
def open_backup(file: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, after a check of all its content. Raises BackupError."""
    try:
        with zipfile.ZipFile(file) as archive:
            if damaged := archive.testzip():
                raise BackupError(f"{file} is damaged ({damaged}): use another backup")
            yield archive
    except FileNotFoundError as e:
        raise BackupError(f"there is no file {file}") from e
    except (zipfile.BadZipFile, OSError, EOFError) as e:
        raise BackupError(f"{file} is no backup, or not all of one ({e}): name what `manage.py backup` wrote") from e


def manifest_of(archive: zipfile.ZipFile) -> BackupManifest:
    try:
        document = json.loads(archive.read(MANIFEST))
        if document["schema"] != SCHEMA:
            raise BackupError(f"the backup has the form {document['schema']}, and this release reads {SCHEMA}")
        return BackupManifest(**document)
    except (KeyError, TypeError, ValueError) as e:
        raise BackupError(f"{archive.filename} is no backup ({e}): name what `manage.py backup` wrote") from e


@contextlib.contextmanager
def complete_file(file: Path) -> Iterator[IO[bytes]]:
    """A stream into a new file, which appears at the end of the block, or not at all if it fails."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=".backup-", dir=file.absolute().parent)
    except OSError as e:
        raise BackupError(f"{file} cannot be written ({e.strerror}): name a file in a directory that is yours") from e
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        Path(name).rename(file)
    except OSError as e:
        raise BackupError(f"{file} cannot be written ({e.strerror}): make room, or name another file") from e
    finally:
        Path(name).unlink(missing_ok=True)


def session_cursor() -> Any:
    return pgsession.session().cursor()
