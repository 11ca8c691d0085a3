"""Backup and restore with real PostgreSQL: afterwards everything is as it was, or nothing has changed."""

import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from speedtrack import __version__
from speedtrack.ground.secrets.sealed import Secret
from speedtrack.notices.models import Channel
from speedtrack.projects.models import Annotation
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Measurement, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.scheduling.versions import PROTOCOL
from speedtrack.tests import builders, worlds
from speedtrack.tests.clusters import DebianServer, address_of, databases, debian_server, empty_database
from speedtrack.tests.test_fsck import run_fsck
from speedtrack.upkeep import backup, pgprograms
from speedtrack.upkeep.backup import back_up, restore
from speedtrack.upkeep.pgprograms import BackupError
from speedtrack.web.tests.world import World, slowed

VERSION = {"version": __version__, "protocol": PROTOCOL}
pytestmark = pytest.mark.django_db(transaction=True)

KEY_OF_ANOTHER = "k" * 40
PAGES = ("/", "/p/kvd/", "/p/kvd.json", "/alerts/", "/alerts.json", "/queue/", "/annotations/", "/machines/kvd-m1.json")


@worlds.copied
def kept(settings: Any, directory: Path) -> World:
    """Measured commits with an alert, waiting runs, a secret, a note, and a run under way."""
    made, _ = slowed(settings, directory)
    made.push(3)
    user = User.objects.create_user("ada")
    Annotation.objects.create(project=made.project, commit=made.commit(1), text="*a note*", author=user)
    Channel.objects.create(
        project=made.project,
        kind="webhook",
        url=Secret.of("https://example.org/x"),
        origin="https://example.org",
        name="x",
    )
    return made


@pytest.fixture
def empty() -> Iterator[str]:
    """The address of an empty database beside that of the test."""
    with empty_database("restored") as address:
        yield address


def contents() -> dict[str, list[str]]:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        found = backup.digests(cursor)
        cursor.execute("COMMIT")
    return found


def documents(client: Client) -> dict[str, bytes]:
    """The pages without what they say of the time since."""
    return {address: re.sub(rb"just now|\d+ \w+ ago", b"", client.get(address).content) for address in PAGES}


def tables(url: str) -> int:
    with psycopg.connect(url) as link:
        return len(link.execute(backup.TABLES).fetchall())


def test_everything_is_as_it_was(kept: World, empty: str, tmp_path: Path, client: Client) -> None:
    before, pages, rows = contents(), documents(client), {m: m._default_manager.count() for m in apps.get_models()}
    manifest = back_up(tmp_path / "b.zip")
    assert (tmp_path / "b.zip").stat().st_mode & 0o777 == 0o600
    with databases(DATABASE_URL=empty):
        restored = restore(tmp_path / "b.zip")
        assert restored.notes == []
        assert contents() == before == manifest.tables
        assert {m: m._default_manager.count() for m in apps.get_models()} == rows
        assert sum(rows.values()) > 200
        assert documents(client) == pages
        assert Channel.objects.get().url.reveal() == "https://example.org/x"
        assert run_fsck()[0] == 0


@pytest.fixture(scope="module")
def older() -> Iterator[DebianServer]:
    with debian_server() as server:
        server.ask("CREATE ROLE tracker LOGIN PASSWORD 'right'", "CREATE DATABASE moved OWNER tracker")
        yield server


@pytest.mark.debian_postgresql
def test_an_older_postgresql_takes_over_everything(
    kept: World, older: DebianServer, tmp_path: Path, client: Client
) -> None:
    """From the embedded PostgreSQL to Debian's, as a role that owns its database and has no other right."""
    before, pages = contents(), documents(client)
    good = tmp_path / "b.zip"
    manifest = back_up(good)
    cut = altered(good, tmp_path / "cut.zip", lambda n, c: c[: len(c) // 2] if n == backup.DUMP else c)
    with databases(DATABASE_URL=older.url("tracker", "moved", "right")):
        assert pgprograms.server_version() < manifest.postgresql
        with pytest.raises(BackupError, match="pg_restore failed"):
            restore(cut)
        assert contents() == {}
        assert restore(good).notes == []
        assert contents() == before
        assert documents(client) == pages
        assert run_fsck()[0] == 0
        Annotation.objects.update(text="changed since")
        with pytest.raises(BackupError, match="pg_restore failed"):
            restore(cut, replace=True)
        assert Annotation.objects.get().text == "changed since"
        restore(good, replace=True)
        assert contents() == before
        kept.push(1)
        assert Run.objects.filter(status="queued").count() == 4
        back_up(tmp_path / "back.zip")
        assert restore(tmp_path / "back.zip", replace=True).notes == []


def test_only_the_first_lines_of_a_script_lose_what_older_servers_lack() -> None:
    """Rows may have any text, and pieces end anywhere."""
    head, rows = (
        b"SET transaction_timeout = 0;\nSET x = 1;\n",
        b"COPY a FROM stdin;\nSET transaction_timeout = 0;\n\\.\nend",
    )
    for size in (1, 7, 1000):
        out = io.BytesIO()
        stream = pgprograms.WithoutLines(out, backup.UNKNOWN_TO_OLDER)
        for start in range(0, len(head + rows), size):
            stream.write((head + rows)[start : start + size])
        assert out.getvalue() == b"SET x = 1;\n" + rows


def test_sequences_go_on_and_constraints_and_triggers_are_there(kept: World, empty: str, tmp_path: Path) -> None:
    def shape() -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT conname::text, conrelid::regclass::text FROM pg_constraint"
                " UNION ALL SELECT tgname::text, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal"
                " UNION ALL SELECT indexname::text, tablename::text FROM pg_indexes WHERE schemaname = 'public'"
                " UNION ALL SELECT sequencename::text, coalesce(last_value, 0)::text FROM pg_sequences ORDER BY 1, 2"
            )
            return list(cursor.fetchall())

    before = shape()
    back_up(tmp_path / "b.zip")
    with databases(DATABASE_URL=empty):
        restore(tmp_path / "b.zip")
        assert shape() == before
        kept.push(1)  # commits, runs and events get new numbers
        assert Run.objects.filter(status="queued").count() == 4


def test_a_runner_goes_on_where_it_was(kept: World, empty: str, tmp_path: Path, client: Client) -> None:
    token = machines.renew_token("kvd-m1")
    headers = {"Authorization": f"Bearer {token}"}

    def call(path: str, document: dict[str, Any]) -> tuple[int, Any]:
        answer = client.post(f"/api/runner/{path}", json.dumps(document), "application/json", headers=headers)
        return answer.status_code, answer.json() if answer.content else {}

    job = call("claim", {**VERSION, "instance": "one"})[1]
    back_up(tmp_path / "b.zip")
    later = Run.objects.get(pk=job["run"])
    builders.send_build(later, later.commit)
    builders.measure(later)
    queue.complete(later.machine, later.pk, later.lease_token)  # what happens after the backup is lost
    with databases(DATABASE_URL=empty):
        restore(tmp_path / "b.zip")
        assert call("hello", {**VERSION, "boot_id": "b", "facts": {}})[0] == 200
        assert call(f"runs/{job['run']}/renew", {"token": job["token"], "progress": None})[0] == 200
        run = Run.objects.get(pk=job["run"])
        builders.expire_lease(run)
        queue.reap()
        assert call(f"runs/{job['run']}/renew", {"token": job["token"], "progress": None})[0] == 409
        Run.objects.update(not_before=run.created)
        again = call("claim", {**VERSION, "instance": "one"})[1]
        assert again["token"] > job["token"] or again["run"] != job["run"]
        claimed = Run.objects.get(pk=again["run"])
        builders.send_build(claimed, claimed.commit)
        builders.measure(claimed)
        assert call(f"runs/{again['run']}/complete", {"token": again["token"]})[0] == 200
        assert Measurement.objects.filter(attempt__run=claimed, accepted=True).exists()


def test_without_the_key_it_says_what_is_lost(kept: World, empty: str, tmp_path: Path, settings: Any) -> None:
    back_up(tmp_path / "b.zip")
    settings.SECRET_KEY = KEY_OF_ANOTHER
    with databases(DATABASE_URL=empty):
        (note,) = restore(tmp_path / "b.zip").notes
    assert "2 secrets cannot be decrypted: set SECRET_KEY" in note


def test_suites_that_are_missing_are_named(kept: World, empty: str, tmp_path: Path, settings: Any) -> None:
    back_up(tmp_path / "b.zip")
    (settings.SUITES / "tiny.toml").unlink()
    with databases(DATABASE_URL=empty):
        (note,) = restore(tmp_path / "b.zip").notes
    assert "tiny.toml is missing: the backup holds it as suites/tiny.toml" in note


def test_it_is_of_one_moment(kept: World, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that others write while it is written are in neither the dump nor the manifest."""
    pass_on: Callable[..., None] = pgprograms.pass_on
    before = contents()

    def pass_on_while_others_write(command: list[str], target: Any) -> None:
        with psycopg.connect(address_of(connection.settings_dict["NAME"]), autocommit=True) as link:
            link.execute("DELETE FROM projects_annotation")
        pass_on(command, target)

    monkeypatch.setattr(backup, "pass_on", pass_on_while_others_write)
    assert back_up(tmp_path / "b.zip").tables == before
    assert not Annotation.objects.exists()
    with databases(DATABASE_URL=empty):
        restore(tmp_path / "b.zip")
        assert Annotation.objects.count() == 1


def test_a_database_that_holds_something_is_not_overwritten(kept: World, empty: str, tmp_path: Path) -> None:
    back_up(tmp_path / "b.zip")
    with databases(DATABASE_URL=empty):
        restore(tmp_path / "b.zip")
        Annotation.objects.update(text="changed since")
        with pytest.raises(BackupError, match=r"holds .* tables: make an empty one"):
            restore(tmp_path / "b.zip")
        with psycopg.connect(empty), pytest.raises(BackupError, match="1 other sessions use the database"):
            restore(tmp_path / "b.zip", replace=True)
        assert Annotation.objects.get().text == "changed since"
        restore(tmp_path / "b.zip", replace=True)
        assert Annotation.objects.get().text == "*a note*"


def test_what_a_killed_restore_was_to_replace_is_put_back(kept: World, empty: str, tmp_path: Path) -> None:
    back_up(tmp_path / "b.zip")
    with databases(DATABASE_URL=empty):
        restore(tmp_path / "b.zip")
        held = contents()
        with psycopg.connect(empty, autocommit=True) as link:  # as it is during a restore that is killed
            link.execute("ALTER SCHEMA public RENAME TO before_restore; CREATE SCHEMA public")
        with pytest.raises(CommandError, match=r"a restore was interrupted.*restore FILE --replace` again"):
            call_command("migrate", verbosity=0)  # as a start does: an empty installation must not take its place
        with pytest.raises(BackupError, match="holds"):
            restore(tmp_path / "b.zip")
        assert contents() == held
        with psycopg.connect(empty, autocommit=True) as link:  # killed at its end
            link.execute("CREATE SCHEMA before_restore")
        with pytest.raises(BackupError, match="DROP SCHEMA before_restore CASCADE"):
            restore(tmp_path / "b.zip", replace=True)
        assert contents() == held


def altered(file: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """A sound archive with other members."""
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(target, "w") as copy:
        for name in source.namelist():
            if (content := change(name, source.read(name))) is not None:
                copy.writestr(name, content)
    return target


def test_what_is_no_backup_changes_nothing(kept: World, empty: str, tmp_path: Path) -> None:
    good = tmp_path / "b.zip"
    back_up(good)
    content = good.read_bytes()

    def manifest(**changes: Any) -> Callable[[str, bytes], bytes | None]:
        return lambda name, old: json.dumps(json.loads(old) | changes).encode() if name == backup.MANIFEST else old

    cut = tmp_path / "cut.zip"
    cut.write_bytes(content[: len(content) // 2])
    flipped = tmp_path / "flipped.zip"
    middle = len(content) // 3
    flipped.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    text = tmp_path / "text.zip"
    text.write_text("no archive")
    first_table = next(iter(json.loads(zipfile.ZipFile(good).read(backup.MANIFEST))["tables"]))
    rows = json.loads(zipfile.ZipFile(good).read(backup.MANIFEST))["tables"] | {first_table: ["1", "2"]}
    bad = [
        (tmp_path / "none.zip", "there is no file"),
        (tmp_path, "is no backup"),
        (text, "is no backup"),
        (cut, "is no backup"),
        (flipped, "is damaged"),
        (altered(good, tmp_path / "1.zip", lambda n, c: None if n == backup.MANIFEST else c), "is no backup"),
        (altered(good, tmp_path / "2.zip", lambda n, c: b"[]" if n == backup.MANIFEST else c), "is no backup"),
        (altered(good, tmp_path / "3.zip", manifest(schema="speedtrack.backup/9")), "this release reads"),
        (altered(good, tmp_path / "4.zip", manifest(postgresql=99)), "PostgreSQL 99 or newer"),
        (altered(good, tmp_path / "5.zip", manifest(migrations=[["runs", "0999_later"]])), "of a newer release"),
        (altered(good, tmp_path / "6.zip", lambda n, c: c[: len(c) // 2] if n == backup.DUMP else c), "pg_restore"),
        (altered(good, tmp_path / "7.zip", lambda n, c: b"x" * 5000 if n == backup.DUMP else c), "pg_restore failed"),
        (altered(good, tmp_path / "8.zip", manifest(tables=rows)), "not those of the backup"),
    ]
    with databases(DATABASE_URL=empty):
        for file, words in bad:
            with pytest.raises(BackupError, match=words):
                restore(file)
            connection.close()
            assert tables(empty) == 0, file
        restore(good)
        held = contents()
        for file, words in bad:
            with pytest.raises(BackupError, match=words):
                restore(file, replace=True)
            assert contents() == held, file


def test_a_backup_that_cannot_be_written_leaves_no_file(
    kept: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "LOCK_WAIT", "--lock-wait-timeout=1s")
    (tmp_path / "there").write_text("precious")
    for file, words in [
        (tmp_path / "there", "exists: name another file"),
        (tmp_path / "no" / "such" / "b.zip", "cannot be written"),
    ]:
        with pytest.raises(BackupError, match=words):
            back_up(file)
    assert (tmp_path / "there").read_text() == "precious"
    with psycopg.connect(address_of(connection.settings_dict["NAME"])) as link:
        link.execute("LOCK TABLE projects_annotation IN ACCESS EXCLUSIVE MODE")  # what pg_dump would wait for
        with pytest.raises(BackupError, match="another session, such as a migration"):
            back_up(tmp_path / "b.zip")
    assert {file.name for file in tmp_path.iterdir() if "b.zip" in file.name or "backup" in file.name} == set()


def test_work_in_the_background_ends_with_a_failure_between_two_of_its_statements() -> None:
    def work(cursor: Any) -> None:
        time.sleep(1)  # the block fails meanwhile, and finds no statement to cancel
        cursor.execute("SELECT pg_sleep(600)")

    with psycopg.connect(address_of(connection.settings_dict["NAME"])) as link:
        with pytest.raises(ZeroDivisionError), backup.in_background(work, link.cursor()) as future:
            raise ZeroDivisionError
        assert isinstance(future.exception(), psycopg.errors.QueryCanceled)


def test_the_programs_must_be_new_enough() -> None:
    assert pgprograms.major_of(pgprograms.program("pg_dump", 18)) == 18
    with pytest.raises(BackupError, match="no pg_dump of PostgreSQL 99 or newer: install"):
        pgprograms.program("pg_dump", 99)


def test_the_password_is_no_argument(settings: Any) -> None:
    with databases(DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/x?sslmode=prefer"):
        assert "hunter2" not in " ".join(pgprograms.address())
        assert "sslmode=prefer" in pgprograms.address()[1]
        assert pgprograms.environment()["PGPASSWORD"] == "hunter2"


def test_the_commands(kept: World, empty: str, tmp_path: Path) -> None:
    out = StringIO()
    call_command("backup", str(tmp_path / "b.zip"), stdout=out)
    assert "SECRET_KEY and SPEEDTRACK_ENCRYPTION_KEYS are not in it" in out.getvalue()
    with pytest.raises(CommandError, match="exists"):
        call_command("backup", str(tmp_path / "b.zip"))
    with databases(DATABASE_URL=empty):
        call_command("restore", str(tmp_path / "b.zip"), stdout=out)
        with pytest.raises(CommandError, match="--replace"):
            call_command("restore", str(tmp_path / "b.zip"))
    assert "Start the server, and run `manage.py fsck`" in out.getvalue()
