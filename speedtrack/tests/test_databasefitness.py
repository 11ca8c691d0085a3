"""What keeps this release from using a database is one sentence with the remedy, and nothing is changed before it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from speedtrack.ground.postgres import databasefitness
from speedtrack.ground.postgres.databases import from_environment
from speedtrack.monitoring import health
from speedtrack.processes import postgresql
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.tests.clusters import Cluster, DebianServer, copied_database, databases, debian_server, empty_database
from speedtrack.tests.upgrades.test_upgrade import HERE
from speedtrack.upkeep import doctor

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = HERE / "1.0.0.sql"
SHAPE = """
SELECT relname, relkind::text,
       (SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid)
FROM pg_class c WHERE relnamespace = 'public'::regnamespace ORDER BY 1
"""


@pytest.fixture(scope="module")
def server() -> Iterator[DebianServer]:
    with debian_server() as server:
        server.ask("CREATE ROLE tracker LOGIN PASSWORD 'right'", "CREATE DATABASE plain")
        yield server


def run(home: Path, url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    known = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_")}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env=known | {"SPEEDTRACK_HOME": str(home), "DATABASE_URL": url},
        capture_output=True,
        text=True,
        cwd=BASE_DIR,
    )


def sentences(url: str) -> list[str]:
    """What `migrate` and `doctor` say; each is one line."""
    with databases(DATABASE_URL=url):
        try:
            call_command("migrate", verbosity=0)
            said = ["migrated"]
        except CommandError as e:
            said = [str(e)]
        except OperationalError as e:  # what manage.py says then
            said = [databasefitness.of_error(e, connection)]
        (found,) = doctor.examine(["database"])
    assert found.state == "bad"
    assert all(len(text.splitlines()) == 1 for text in (*said, found.words)), said
    return [*said, found.words]


def all_say(url: str, *words: str) -> None:
    for sentence in sentences(url):
        assert all(word in sentence for word in words), sentence


@pytest.mark.debian_postgresql
def test_a_role_that_may_not_create_is_told_the_statements_that_work(server: DebianServer, tmp_path: Path) -> None:
    url = server.url("tracker", "plain")
    all_say(url, "the role tracker may not make tables in the schema public")
    done = run(tmp_path, url, "prepare")
    assert done.returncode == 1 and "may not make tables" in done.stderr and "Traceback" not in done.stderr
    statements = re.search(r"`(.*)`", sentences(url)[0])
    assert statements
    server.ask(statements[1], database="plain")
    with databases(DATABASE_URL=url):
        call_command("migrate", verbosity=0)
    server.ask("ALTER TABLE runs_run OWNER TO postgres", database="plain")
    all_say(url, "the table runs_run belongs to postgres, who alone can change it")
    server.ask("REVOKE ALL ON runs_machine FROM tracker; ALTER TABLE runs_machine OWNER TO postgres", database="plain")
    done = run(tmp_path, url, "machine", "list")
    assert done.returncode == 1 and "error: the role of DATABASE_URL may not do this" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.debian_postgresql
def test_a_connection_that_fails_is_told_with_the_remedy(server: DebianServer) -> None:
    server.ask(
        "CREATE ROLE locked PASSWORD 'x'",
        "CREATE DATABASE closed",
        "REVOKE CONNECT ON DATABASE closed FROM PUBLIC",
        "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0",
        "ALTER DATABASE latin OWNER TO tracker",
        "CREATE DATABASE still OWNER tracker",
        "ALTER DATABASE still SET default_transaction_read_only = on",
    )
    for url, words in [
        (server.url("tracker", "plain", "wrong"), "has another password than the role"),
        (server.url("tracker", "plain", "wrong").replace(":wrong", ""), "write the password into DATABASE_URL"),
        (server.url("nobody", "plain"), 'CREATE ROLE "nobody" LOGIN'),
        (server.url("locked", "plain"), 'ALTER ROLE "locked" LOGIN'),
        (server.url("tracker", "nowhere"), 'CREATE DATABASE "nowhere" OWNER "tracker" ENCODING'),
        (server.url("tracker", "closed"), 'GRANT CONNECT ON DATABASE "closed" TO "tracker"'),
        (server.url("tracker", "latin"), "has the encoding LATIN1"),
        (server.url("tracker", "still"), "default_transaction_read_only"),
        ("postgresql://tracker@127.0.0.1:1/plain", "check DATABASE_URL, and that PostgreSQL runs there"),
        ("postgresql://tracker@nowhere.invalid/plain", "correct the host in DATABASE_URL"),
    ]:
        all_say(url, words)


@pytest.mark.debian_postgresql
def test_an_old_server_is_refused(server: DebianServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databasefitness, "OLDEST_POSTGRESQL", 99)
    with databases(DATABASE_URL=server.url()), pytest.raises(CommandError, match="use 99 or newer"):
        call_command("migrate")


def test_a_standby_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    standby = Cluster(tmp_path / "standby", os.environ["DATABASE_URL"], "--write-recovery-conf")
    try:
        all_say(postgresql.url_of(standby.lines), "leads to a standby, which takes no changes: name the primary")
    finally:
        standby.stop()


@pytest.fixture
def first_release() -> Iterator[str]:
    """The address of a database of release 1.0.0."""
    with empty_database("first_release") as address:
        with psycopg.connect(address) as link:
            link.execute(FIRST.read_text())
        yield address


def changed(url: str, statement: str) -> list[object]:
    """The shape of a database, and what was applied to it, after this statement."""
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("SET search_path TO public")
        if statement:
            link.execute(statement)
        applied = link.execute("SELECT app, name FROM django_migrations ORDER BY 1, 2").fetchall()
        return [*applied, *link.execute(SHAPE).fetchall()]


OLDER = "the database was made by a checkout before 1.0.0"


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("ALTER TABLE runs_run DROP COLUMN attempt_count CASCADE", "has no column"),
        ("DROP TABLE alerts_alert CASCADE", "the table alerts_alert is missing"),
        ("INSERT INTO django_migrations (app, name, applied) VALUES ('runs', '0002_more', now())", "runs.0002_more"),
        ("DELETE FROM django_migrations WHERE app = 'runs'; "
         "INSERT INTO django_migrations (app, name, applied) VALUES ('runs', '0001_other', now())", "runs.0001_other"),
    ],
)  # fmt: skip
def test_a_database_before_the_first_release_is_left_as_it_is(first_release: str, statement: str, cause: str) -> None:
    with psycopg.connect(first_release) as link:
        (column,) = link.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'public.runs_run'::regclass AND attnum = 3"
        ).fetchone() or ("",)
    before = changed(first_release, statement.replace("attempt_count", column))
    all_say(first_release, OLDER, cause, "nothing was changed")
    assert changed(first_release, "") == before


@pytest.fixture
def newer_release() -> Iterator[str]:
    with copied_database("newer") as address:
        yield address


def test_a_database_of_a_newer_release_is_left_as_it_is(newer_release: str) -> None:
    later = "INSERT INTO django_migrations (app, name, applied) VALUES ('runs', '0999_later', now())"
    before = changed(newer_release, later)
    all_say(newer_release, "of a newer release (it has the migration runs.0999_later)")
    assert changed(newer_release, "") == before
    with databases(DATABASE_URL=newer_release):
        assert health.check_migrations().state == "bad" and "newer release" in health.check_migrations().words
        (found,) = doctor.examine(["database"])
        assert "newer release" in found.words


@pytest.mark.parametrize("variable", ["DATABASE_URL", "DATABASE_SESSION_URL", "DATABASE_REPLICA_URL"])
@pytest.mark.parametrize("ports", ["99999", "x", "0", "5432,70000", "9" * 5000])
def test_a_wrong_port_of_a_database_is_named_before_its_host(
    variable: str, ports: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = ",".join(f"nowhere.invalid:{port}" for port in ports.split(","))
    monkeypatch.setenv(variable, f"postgresql://tracker@{hosts}/plain")
    wrong = ports.rpartition(",")[2]
    with pytest.raises(ImproperlyConfigured, match=f"^{variable} has the port '{wrong}': give one from 1 to 65535"):
        from_environment()
    monkeypatch.setenv(variable, "postgresql://tracker@a.invalid:5432,b.invalid,c.invalid:65535/plain")
    from_environment()


def test_a_database_of_an_older_release_is_backed_up_before_it_is_migrated(first_release: str, tmp_path: Path) -> None:
    """`deploy/install` does so with the new program where the installed checkout itself was changed."""
    assert run(tmp_path, first_release, "migrate", "--check").returncode == 1
    done = run(tmp_path, first_release, "backup", str(tmp_path / "b.zip"))
    assert done.returncode == 0 and (tmp_path / "b.zip").exists(), done.stderr
