"""pytest plugin: what many tests begin with is made once in a session, and kept in a database of its own.

A test that asks for such a world is connected to a copy of the test database with that world in it. Its own changes are
rolled back as ever, and files that it changed come back, so the next test finds the world as it was made. A test that
commits gets a copy of its own where the world says so, and otherwise builds the world in the test database.
"""

import contextlib
import copy
import fcntl
import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management.commands import flush
from django.db import connection
from django.test import override_settings
from psycopg import sql
from pytest_django.plugin import DjangoDbBlocker

Build = Callable[[Any, Path], Any]  # of the settings and an empty folder
BUILDS: dict[str, Build] = {}  # by the name of the fixture that hands it out
COPIED: set[str] = set()  # those of which each test that commits gets a copy
COPIES_FROM, IDS_OF_COPY = 1_000_000_000, 100_000  # the ids of a copy's new rows


@dataclass
class StoredWorld:
    """A world as it was made: its database, its folder (also as a copy), and the objects of Python."""

    database: str
    folder: Path
    content: Any
    places: dict[str, Path]  #: the settings that name its folders

    @property
    def original(self) -> Path:
        return self.folder.with_suffix(".original")

    def restore_files(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.original, self.folder, symlinks=True)


STORED: dict[str, StoredWorld] = {}
counted_copies = itertools.count()
MIGRATED = "test_migrated"


def use_migrated_database() -> None:
    """Let the test database be a copy of one that the first worker of the session migrates, which takes long."""
    session, home = os.environ.get("PYTEST_XDIST_TESTRUNUID"), Path(os.environ["SPEEDTRACK_HOME"])
    if session is None:
        return  # this process is the only one
    test = connection.settings_dict["TEST"]
    with (home / "migrated.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / f"migrated-{session}").exists():
            own = test["NAME"]
            test["NAME"] = MIGRATED
            usual = connection.settings_dict["NAME"]
            connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
            connection.close()
            connection.settings_dict["NAME"] = settings.DATABASES["default"]["NAME"] = usual
            test["NAME"] = own
            (home / f"migrated-{session}").touch()
    test["TEMPLATE"] = MIGRATED


KEPT = ("django_content_type", "auth_permission")  # what Django notes of its models
EMPTY = """
DO $$
DECLARE
  tables regclass[] := ARRAY[{names}]::regclass[];
  used regclass[] := ARRAY(SELECT t FROM unnest(tables) t WHERE pg_relation_size(t) > 0);
BEGIN
  LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE;
  IF current_setting('is_superuser') = 'off'
      OR (SELECT sum(pg_relation_size(t)) FROM unnest(used) t) > 8000000 THEN
    TRUNCATE {tables};
  ELSE
    SET LOCAL session_replication_role = replica;  -- no triggers, so the order of the tables does not matter
    FOR place IN 1 .. cardinality(used) LOOP
      EXECUTE 'DELETE FROM ' || used[place];
    END LOOP;
  END IF;
END $$
"""


def empty(
    style: Any, tables: Sequence[str], *, reset_sequences: bool = False, allow_cascade: bool = False
) -> list[str]:
    """SQL that empties tables after a test, instead of Django's: TRUNCATE makes some files anew for each table."""
    if not tables:
        return []
    assert not reset_sequences, "ids go on counting"
    names = [connection.ops.quote_name(table) for table in tables if table not in KEPT]
    return [EMPTY.format(tables=", ".join(names), names=", ".join(f"'{name}'" for name in names))]


def empty_quickly() -> None:
    """Let the tests that commit leave an empty database behind, with what Django notes of its models."""
    connection.ops.sql_flush = empty  # type: ignore[method-assign]
    # It would look for changes to the notes.
    flush.emit_post_migrate_signal = lambda *arguments, **options: None  # type: ignore[attr-defined]


@contextlib.contextmanager
def connected_to(database: str) -> Iterator[None]:
    usual = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = database
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = usual


def copy_database(name: str, original: str = "") -> None:
    """Make a database like the test database, or another. Others that are connected to that are disconnected."""
    usual = original or connection.settings_dict["NAME"]
    parameters = connection.get_connection_params() | {"dbname": "postgres"}
    connection.close()
    fitting = {key: parameters[key] for key in ("host", "port", "user", "password", "dbname") if key in parameters}
    with psycopg.connect(**fitting, autocommit=True) as link:
        link.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [usual])
        link.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        link.execute(statement.format(sql.Identifier(name), sql.Identifier(usual)))


def make(name: str, folder: Path) -> StoredWorld:
    """Build a world. Its ids are no others', because processes cache by id what never changes."""
    database = f"{connection.settings_dict['NAME']}_{name}"
    copy_database(database)
    folder.mkdir()
    with connected_to(database), override_settings():
        count_ids_from(1_000_000 * (1 + len(STORED)))
        content = BUILDS[name](settings, folder)
        places = {setting: getattr(settings, setting) for setting in ("SUITES", "MIRRORS")}
    stored = StoredWorld(database, folder, content, places)
    shutil.copytree(folder, stored.original, symlinks=True)
    return stored


def count_ids_from(first_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval(format('%%I', sequencename), %s) FROM pg_sequences", [first_id])


def copy_of(world: StoredWorld) -> str:
    """A copy of a world's database for one test, which replaces that of the test before."""
    name = f"{connection.settings_dict['NAME']}_copy"
    with connected_to(world.database):
        copy_database(name)
    with connected_to(name):
        count_ids_from(COPIES_FROM + IDS_OF_COPY * next(counted_copies))
    return name


def is_transactional(request: pytest.FixtureRequest) -> bool:
    marker = request.node.get_closest_marker("django_db")
    by_mark = bool(marker and (marker.kwargs.get("transaction") or (marker.args and marker.args[0])))
    return by_mark or bool({"transactional_db", "live_server"} & set(request.fixturenames))


@pytest.fixture
def stored_world(world_connection: Any) -> Any:
    """The world that the test asks for by its fixture; None where tests empty the database at their end."""
    return world_connection


@pytest.fixture(autouse=True)
def world_connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[Any]:
    """Connect to the database of a world before the test's transaction begins.

    Therefore this plugin is loaded before pytest-django.
    """
    name = next((name for name in BUILDS if name in request.fixturenames), None)
    commits = is_transactional(request)
    if name is None or "stored_world" not in request.fixturenames or (commits and name not in COPIED):
        yield None
        return
    request.getfixturevalue("django_db_setup")
    if name not in STORED:
        with django_db_blocker.unblock():
            STORED[name] = make(name, tmp_path_factory.mktemp("worlds") / name)
    stored = STORED[name]
    with django_db_blocker.unblock():
        database = copy_of(stored) if commits else stored.database
    with connected_to(database), override_settings(**stored.places):
        yield copy.deepcopy(stored.content)
    stored.restore_files()


def shared(build: Build) -> Build:
    """A fixture of the name of a function that builds a world, which is built once where tests are rolled back."""
    name = build.__name__
    assert name not in BUILDS, f"two worlds are named {name}"
    BUILDS[name] = build

    def hand_out(stored_world: Any, db: None, settings: Any, tmp_path: Path) -> Any:
        return build(settings, tmp_path) if stored_world is None else stored_world

    hand_out.__doc__ = build.__doc__
    return pytest.fixture(name=name)(hand_out)


def copied(build: Build) -> Build:
    """A shared world of which a test that commits gets a copy of its own."""
    COPIED.add(build.__name__)
    return shared(build)
