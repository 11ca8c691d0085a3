"""Pages are read from a real streaming replica, whatever becomes of it and of its primary."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import InternalError, connections
from django.http import HttpResponse
from django.test import Client

from speedtrack.ground.postgres.replica import base, watch
from speedtrack.runs.models import LogChunk, Machine
from speedtrack.tests import builders
from speedtrack.tests.clusters import Cluster, databases, until
from speedtrack.upkeep import doctor
from speedtrack.web.requests import reading

pytestmark = pytest.mark.django_db(transaction=True)
MACHINE, LOGIN = "/machines/m1/", "/login/"


@dataclass
class Pair:
    home: Path
    primary: Cluster
    replica: Cluster

    def replicate(self) -> None:
        """Wait until the replica has all that was written."""
        position = self.primary.position()
        until(lambda: self.replica.has(position))

    @contextmanager
    def lagging(self) -> Iterator[None]:
        """The replica replays nothing, and the primary has written something since."""
        self.replica.ask("SELECT pg_wal_replay_pause()")
        until(lambda: self.replica.ask("SELECT pg_get_wal_replay_pause_state()") == "paused")
        builders.machine("m2")
        try:
            yield
        finally:
            self.replica.ask("SELECT pg_wal_replay_resume()")


@pytest.fixture(scope="module")
def clusters(django_db_setup: None, tmp_path_factory: Any) -> Iterator[Pair]:
    """A primary, which is a copy of the session's PostgreSQL, and its replica."""
    home = tmp_path_factory.mktemp("pair")
    home.chmod(0o755)
    own = connections["default"].settings_dict
    primary = Cluster(home / "primary", f"postgresql://{own['USER']}@/postgres?host={own['HOST']}")
    primary.ask("ALTER ROLE postgres SET synchronous_commit = on")  # what is committed is in its log
    primary.ask("ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms'")  # its copies wait as long for the primary
    try:
        replica = Cluster(home / "replica", primary.url, "--write-recovery-conf")
        try:
            yield Pair(home, primary, replica)
        finally:
            replica.stop()
    finally:
        primary.stop()


@pytest.fixture
def pair(clusters: Pair) -> Iterator[Pair]:
    """The product's databases: a primary with a machine m1, and a replica that has it, too."""
    urls = {"DATABASE_URL": clusters.primary.url, "DATABASE_REPLICA_URL": clusters.replica.url}
    with databases(**urls):
        with connections["default"].cursor() as cursor:
            cursor.execute("TRUNCATE projects_project, runs_machine, auth_user CASCADE")
        builders.machine("m1")
        clusters.replicate()
        yield clusters


def note_of(answer: HttpResponse) -> str:
    """What the answer says of where it was read; at the foot of the page and in a header."""
    assert answer.status_code == 200
    note = answer.headers.get(reading.NOTE, "")
    assert note in answer.content.decode()
    return note


def finding() -> str:
    (found,) = doctor.examine(["replica"])
    return f"{found.state}: {found.words}"


def test_pages_are_read_from_the_replica_and_what_it_lacks_from_the_primary(pair: Pair, client: Client) -> None:
    with pair.lagging():
        answer = client.get("/queue/")
        assert note_of(answer) == "" and "m1" in answer.content.decode() and "m2" not in answer.content.decode()
        assert note_of(client.get("/machines/m2/")) == ""
        assert client.get("/machines/m3/").status_code == 404
    assert finding() == "good: follows the primary: pages are read from it"


def test_somebody_who_has_written_sees_what_he_wrote(pair: Pair, client: Client) -> None:
    with pair.lagging():
        client.post(LOGIN, {"username": "nobody", "password": "wrong"})
        assert "m2" in client.get("/queue/").content.decode()
        assert "m2" not in Client().get("/queue/").content.decode()


def test_a_page_that_writes_is_made_by_the_primary(pair: Pair, client: Client) -> None:
    client.force_login(User.objects.create_superuser("ada", "ada@example.org"))
    pair.replicate()
    answer = client.get("/settings/notifications/")
    assert note_of(answer) == "" and "ada@example.org" in answer.content.decode()


def test_a_replica_that_lags_is_named_and_not_read(pair: Pair, client: Client, settings: Any, caplog: Any) -> None:
    settings.REPLICA_LAG_S = 0
    with pair.lagging():
        answer = client.get("/queue/")
        assert note_of(answer).startswith("Read from the primary: the replica is ") and "m2" in answer.content.decode()
        assert finding().startswith("note: Read from the primary: the replica is ")
        assert [r.levelname for r in caplog.records if r.name == watch.log.name] == ["WARNING"]
    pair.replicate()
    assert note_of(Client().get("/queue/")) == ""


def test_an_idle_primary_makes_no_replica_old(pair: Pair, client: Client, settings: Any) -> None:
    settings.REPLICA_LAG_S = 0
    assert note_of(client.get(MACHINE)) == ""


def test_a_replica_that_is_gone_is_named_and_left_alone(pair: Pair, client: Client, caplog: Any) -> None:
    assert note_of(client.get(MACHINE)) == ""
    with pair.replica.stopped():
        for _ in range(3):
            assert note_of(client.get(MACHINE)).startswith("Read from the primary: the replica does not answer.")
        assert len([r for r in caplog.records if r.name == watch.log.name and r.levelno == logging.WARNING]) == 1
        assert finding().startswith("bad: Read from the primary: the replica does not answer")
    assert note_of(Client().get(MACHINE)) == ""


def test_a_replica_that_hangs_costs_one_wait(pair: Pair, client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(base, "STATEMENT_S", 0.5)
    assert note_of(client.get(MACHINE)) == ""
    looks = []
    monkeypatch.setattr(watch, "look", lambda look=watch.look: looks.append(1) or look())
    with pair.replica.hanging():
        for _ in range(3):
            assert note_of(client.get(MACHINE)).startswith("Read from the primary: the replica does not answer.")
        assert len(looks) == 1
    assert note_of(Client().get(MACHINE)) == ""


def test_without_the_primary_the_history_stays_readable(pair: Pair, client: Client) -> None:
    client.force_login(User.objects.create_superuser("ada"))
    pair.replicate()
    before = Client()
    assert note_of(before.get(MACHINE)) == ""
    with pair.primary.stopped():
        for reader in (before, client, Client()):
            answer = reader.get("/queue/")
            assert "m1" in answer.content.decode()
        assert note_of(answer).startswith("The primary does not answer. The replica knows all until 20")
        unknown = client.get("/machines/m3/")
        assert (unknown.status_code, "Retry-After" in unknown) == (503, True)
        assert client.post(LOGIN, {"username": "ada", "password": "x"}).status_code == 503
        assert finding().startswith("bad: The primary does not answer.")
        (database,) = doctor.examine(["database"])
        assert (database.state, "does not answer" in database.words) == ("bad", True)
    assert note_of(Client().get(MACHINE)) == ""


def test_a_hanging_primary_does_not_keep_pages_from_the_replica(pair: Pair, monkeypatch: Any) -> None:
    monkeypatch.setattr(base, "STATEMENT_S", 0.5)
    with pair.primary.hanging():
        assert note_of(Client().get(MACHINE)).startswith("The primary does not answer.")


def test_a_log_is_sent_from_the_replica(pair: Pair, client: Client, settings: Any, tmp_path: Path) -> None:
    builders.use_suite(settings, tmp_path / "suites")
    repository = builders.Repository(tmp_path / "repository")
    repository.commits(1)
    builders.track(repository)
    run = builders.claim(Machine.objects.get())
    LogChunk.objects.bulk_create(
        LogChunk(attempt=run.attempts.get(), seq=seq, phase="build", text=f"line {seq}\n") for seq in range(100)
    )
    pair.replicate()
    with pair.primary.stopped():
        answer = client.get(f"/runs/{run.pk}/log.txt")
        assert answer.headers[reading.NOTE].startswith("The primary does not answer.")
        assert b"line 0\n" in (text := b"".join(answer.streaming_content)) and text.endswith(b"line 99\n")


def test_with_both_gone_pages_say_so(pair: Pair, client: Client) -> None:
    with pair.primary.stopped(), pair.replica.stopped():
        assert client.get(MACHINE).status_code == 503
        assert client.get("/healthz").status_code == 200


def test_a_promoted_replica_is_read_only_without_the_primary_and_never_written(pair: Pair, client: Client) -> None:
    promoted = Cluster(pair.home / "promoted", pair.primary.url, "--write-recovery-conf")
    try:
        promoted.ask("SELECT pg_promote()")
        with databases(DATABASE_URL=pair.primary.url, DATABASE_REPLICA_URL=promoted.url):
            assert note_of(client.get(MACHINE)).startswith("Read from the primary: the replica was promoted")
            assert "pg_basebackup" in finding()
            with pair.primary.stopped():
                assert note_of(Client().get(MACHINE)).startswith("The primary does not answer.")
                with reading.reading_from("replica"), pytest.raises(InternalError, match="read-only"):
                    builders.machine("m4")
    finally:
        promoted.stop()
