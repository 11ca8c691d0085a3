"""The product behind a real pgbouncer in transaction mode: what needs a session of its own goes past it, or says so."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection
from django.test import Client

from speedtrack.ground.postgres import pgsession
from speedtrack.processes import dispatch
from speedtrack.projects.models import SYNC_LOCK, Project
from speedtrack.projects.sync import project_lock
from speedtrack.runs.models import LogChunk, Machine, Run
from speedtrack.tests import builders
from speedtrack.tests.clusters import databases, pool_before, until
from speedtrack.upkeep import doctor
from speedtrack.web.pages.running.log import whole_log

pytestmark = [pytest.mark.pgbouncer, pytest.mark.django_db(transaction=True)]
REMEDY = "set DATABASE_SESSION_URL to PostgreSQL itself"


@pytest.fixture
def direct() -> str:
    own = connection.settings_dict
    return f"postgresql://{own['USER']}@/{own['NAME']}?host={own['HOST']}"


@contextmanager
def pool_url(ignored: str) -> Iterator[str]:
    """The address of a pool before this database, which ignores these parameters of a connection."""
    own = connection.settings_dict
    connection.close()
    with pool_before(own["HOST"], ignored) as directory:
        yield f"postgresql://{own['USER']}@/{own['NAME']}?host={directory}&port=6432"


@pytest.fixture
def pooled() -> Iterator[str]:
    with pool_url(ignored="options") as url:
        yield url


@pytest.fixture
def pool(pooled: str, direct: str) -> Iterator[None]:
    """DATABASE_URL is the pool, DATABASE_SESSION_URL PostgreSQL itself."""
    with databases(DATABASE_URL=pooled, DATABASE_SESSION_URL=direct):
        yield


@pytest.fixture
def tracked(pool: None, settings: Any, tmp_path: Path) -> Machine:
    """The machine of a repository of three commits, which was looked at through the pool."""
    return builders.tracked_machine(settings, tmp_path)


def test_locks_and_the_dispatcher_refuse_a_pool_at_once(pooled: str) -> None:
    with databases(DATABASE_URL=pooled):
        with pytest.raises(ImproperlyConfigured, match=REMEDY):
            pgsession.take(SYNC_LOCK, 1)
        with pytest.raises(ImproperlyConfigured, match="DATABASE_URL leads to a connection pool"):
            call_command("dispatch")
        (found,) = doctor.examine(["database"])
        assert (found.state, REMEDY in found.words) == ("bad", True)
    refused = pytest.raises(ImproperlyConfigured, match="DATABASE_SESSION_URL leads to a connection pool")
    with databases(DATABASE_URL=pooled, DATABASE_SESSION_URL=pooled), refused:
        pgsession.take(SYNC_LOCK, 1)
    assert pgsession.take(SYNC_LOCK, 1), "no lock stayed in the pool"


def test_a_pool_that_refuses_options_is_named_with_the_remedy(direct: str) -> None:
    with pool_url(ignored="extra_float_digits") as url:
        with databases(DATABASE_URL=url):
            (finding,) = doctor.examine(["database"])
        with databases(DATABASE_URL=url, DATABASE_SESSION_URL=direct):
            (with_session,) = doctor.examine(["database"])
    assert (finding.state, REMEDY in finding.words) == ("bad", True), finding.words
    assert with_session.state == "good", with_session.words


def test_the_leader_hears_what_is_written_through_the_pool(pool: None, direct: str) -> None:
    leader = dispatch.DispatcherSession()
    assert leader.lead() and leader.lead()
    with psycopg.connect(direct) as other:
        assert other.execute("SELECT pg_try_advisory_lock(%s, 0)", [dispatch.LEADER_LOCK]).fetchone() == (False,)
    builders.machine("m1")
    while leader.notified():
        pass
    Machine.objects.update(paused=True)
    until(leader.notified)


def test_a_repository_is_looked_at_and_its_commits_are_measured(tracked: Machine) -> None:
    with project_lock(Project.objects.get()) as is_mine:
        assert is_mine and not Project.objects.at_rest().exists(), "the dispatcher sees the lock"
    assert Project.objects.at_rest().exists()
    assert len(builders.work(tracked, lambda *_: 5000.0)) == 3
    assert "get-p1" in Client().get("/p/repository/").content.decode()
    assert not Run.objects.unfinished().exists()


def test_a_log_is_read_in_pieces_from_sessions_that_change(tracked: Machine, pooled: str) -> None:
    attempt = builders.claim(tracked).attempts.get()
    lines = [f"line {seq}\n" for seq in range(100)]
    LogChunk.objects.bulk_create(
        LogChunk(attempt=attempt, seq=seq, phase="build", text=line) for seq, line in enumerate(lines)
    )
    pieces = whole_log(attempt.run, None)
    read = next(pieces)
    with psycopg.connect(pooled) as other:
        other.execute("SELECT 1")  # its transaction occupies the session that was read from
        read += "".join(pieces)
    assert [line for line in lines if line not in read] == []
