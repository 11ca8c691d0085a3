"""What many tests begin with is made once in a process, and put back for each test after the first.

That is: the rows, the files below a folder, and the objects that a test holds. Times are as long ago as they were, and
the folder is that of the test. Where the database holds rows already, all is made anew.
"""

import io
import pickle
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Model

from speedtrack.live.things import expected
from speedtrack.tests import clusters
from speedtrack.web.pages.latency import shape_cache

Made = TypeVar("Made")

# What migrations and their signals leave in a database without a test's rows.
OF_MIGRATIONS = ("django_migrations", "django_content_type", "auth_permission")
COLUMNS = """
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""
HIGHEST_NUMBER = "SELECT setval(%s, GREATEST(nextval(%s), (SELECT max(id) FROM {})))"
TIME = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00\b")
PRESENT = timedelta(days=1)  # before a snapshot: what is older is of a history that was made up


@dataclass(frozen=True)
class Snapshot:
    taken: datetime
    folder: Path  #: that of the test which made it: rows have its path
    files: Path
    rows: dict[str, bytes]  #: of each table that has some, in PostgreSQL's text form
    objects: bytes


kept: dict[tuple[str, str], Snapshot] = {}
kept_files = tempfile.TemporaryDirectory(prefix="speedtrack-snapshots-")


def once(name: str, folder: Path, make: Callable[[], Made]) -> Made:
    """What ``make`` returns; only the first call of a process with this name makes it.

    ``make`` keeps all its files below the folder. The objects that it returns are found again by their numbers if they
    are rows, and copied if they are not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = (name, overridden_settings().replace(str(folder), ""))
    if filled_tables():
        return make()
    if key not in kept:
        known = set(folder.iterdir())
        made = make()
        kept[key] = take(made, folder, known)
        return made
    if any((folder / file.name).exists() for file in kept[key].files.iterdir()):
        return make()
    return put_back(kept[key], folder)


def take(made: object, folder: Path, known: set[Path]) -> Snapshot:
    files = Path(kept_files.name) / str(len(kept))
    shutil.copytree(folder, files, symlinks=True, ignore=lambda at, names: {n for n in names if Path(at) / n in known})
    rows = {}
    with connection.cursor() as cursor:
        for table in filled_tables():
            with cursor.copy(f"COPY {table} ({columns_of(table)}) TO STDOUT") as copy:
                rows[table] = b"".join(map(bytes, copy))
    objects = io.BytesIO()
    References(objects, folder).dump(made)
    return Snapshot(database_time(), folder, files, rows, objects.getvalue())


def put_back(snapshot: Snapshot, folder: Path) -> Any:
    forget_rows()
    shutil.copytree(snapshot.files, folder, symlinks=True, dirs_exist_ok=True)
    later = Later(snapshot.taken, database_time())
    with transaction.atomic(), connection.cursor() as cursor:
        for table, rows in snapshot.rows.items():
            with cursor.copy(f"COPY {table} ({columns_of(table)}) FROM STDIN") as copy:
                copy.write(TIME.sub(later, rows.replace(bytes(snapshot.folder), bytes(folder))))
            if sequence := sequence_of(table):
                cursor.execute(HIGHEST_NUMBER.format(table), [sequence, sequence])
    return Dereferences(io.BytesIO(snapshot.objects), folder).load()


def forget_rows() -> None:
    """What this process remembers of rows by their numbers: an earlier test may have changed them."""
    clusters.forget_rows()
    shape_cache.clear()
    expected.clear()


@dataclass(frozen=True)
class Later:
    """Replaces a time by one that is as long ago now."""

    then: datetime
    now: datetime

    def __call__(self, found: re.Match[bytes]) -> bytes:
        time = datetime.fromisoformat(found[0].decode())
        if time < self.then - PRESENT:
            return found[0]
        return (time + (self.now - self.then)).isoformat(" ").encode()


class References(pickle.Pickler):
    """Rows by their numbers, and paths from the folder on."""

    def __init__(self, file: io.BytesIO, folder: Path) -> None:
        super().__init__(file)
        self.folder = folder

    def persistent_id(self, found: object) -> object:
        if isinstance(found, Model):
            return type(found), found.pk
        if isinstance(found, Path) and found.is_relative_to(self.folder):
            return Path, found.relative_to(self.folder).as_posix()
        return None


class Dereferences(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, folder: Path) -> None:
        super().__init__(file)
        self.folder = folder

    def persistent_load(self, reference: Any) -> object:
        kind, value = reference
        return self.folder / value if kind is Path else kind._base_manager.get(pk=value)


def tables() -> list[str]:
    return [name for name in connection.introspection.django_table_names() if name not in OF_MIGRATIONS]


@cache
def filled_tables_statement() -> str:
    return " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in tables())


def filled_tables() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(filled_tables_statement())
        return [name for (name,) in cursor.fetchall()]


@cache
def columns_of(table: str) -> str:
    """Those that are not computed."""
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS, [table])
        return str(cursor.fetchone()[0])


@cache
def sequence_of(table: str) -> str | None:
    with connection.cursor() as cursor:
        if "id" not in columns_of(table).split(", "):
            return None
        cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", [table])
        return str(found) if (found := cursor.fetchone()[0]) else None


def database_time() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        found: datetime = cursor.fetchone()[0]
    return found


def overridden_settings() -> str:
    """Those that differ from the settings of the test run, as the fixtures of this test have set them."""
    return repr(sorted(_overrides(settings._wrapped), key=lambda item: item[0]))


def _overrides(holder: Any) -> Iterator[tuple[str, object]]:
    found: dict[str, object] = {}
    while hasattr(holder, "default_settings"):
        found = {name: value for name, value in vars(holder).items() if name.isupper()} | found
        holder = holder.default_settings
    yield from found.items()
