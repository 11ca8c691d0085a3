"""The embedded system on one machine with its runner."""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from celery import Celery

from speedtrack import devstack
from speedtrack.celery import BROKER_TRANSPORT
from speedtrack.tests import builders

NOBODY = 65534
CONNECT = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


def lets_in_others(path: Path) -> bool:
    """May another user of this machine connect to a socket? Tried as one where root runs the tests, else by modes."""
    if os.geteuid() == 0:
        done = subprocess.run([sys.executable, "-c", CONNECT, str(path), str(NOBODY)], cwd="/", capture_output=True)
        assert done.returncode == 0 or b"PermissionError" in done.stderr, done.stderr
        return done.returncode == 0
    return all(stat.S_IMODE(one.stat().st_mode) & 0o077 for one in (path, path.parent))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory that others may enter."""
    path = Path(tempfile.mkdtemp(prefix="st-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def long_path(within: Path) -> Path:
    """A directory with a path too long for a socket."""
    path = within / ("x" * 50) / ("y" * 50)
    path.mkdir(parents=True)
    return path


def test_servers_keep_off_the_cores_that_are_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runners", "plan", "--json"], cwd=devstack.BASE_DIR, capture_output=True, check=True
    )
    plan = json.loads(done.stdout)
    before = os.sched_getaffinity(0)
    try:
        devstack.keep_off_measured_cores()
        assert ",".join(map(str, sorted(os.sched_getaffinity(0)))) == plan["housekeeping"]
        assert plan["housekeeping"] != plan["server"]
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize("place", [Path, long_path])
def test_the_broker_lets_in_nobody_else(short_path: Path, place: type[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    home = place(short_path)
    (home / "valkey").mkdir(mode=0o755)  # as an older release left it
    monkeypatch.setattr(devstack, "HOME", home)
    monkeypatch.delenv("BROKER_URL", raising=False)
    with devstack.running_broker() as url:
        link = builders.redis_client(url)
        socket = Path(link.connection_pool.connection_kwargs["path"])
        assert link.config_get("port") == {"port": "0"}
        assert not lets_in_others(socket)
        celery = Celery("test", broker=url)
        celery.conf.broker_transport_options = BROKER_TRANSPORT
        with celery.connection_for_write() as there, there.SimpleQueue("nudges") as queue:
            queue.put("look")
            assert queue.get(timeout=60).payload == "look"
    assert not socket.exists()


def test_a_second_broker_of_one_home_is_refused_with_a_sentence(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devstack, "HOME", short_path)
    monkeypatch.delenv("BROKER_URL", raising=False)
    with devstack.running_broker() as url:
        with pytest.raises(devstack.StackError, match="embedded broker did not start"), devstack.running_broker():
            pass
        assert builders.redis_client(url).ping()


HOLD_POSTGRESQL = """
import sys
from pathlib import Path
from speedtrack import devstack
print(devstack.postgresql(Path(sys.argv[1]) / "postgresql"), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def holding_postgresql(home: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A process that uses the embedded PostgreSQL of a home until the block ends, and its URL."""
    command = [sys.executable, "-c", HOLD_POSTGRESQL, str(home)]
    with subprocess.Popen(
        command, cwd=devstack.BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process, process.stdout.readline().strip()
        process.communicate()


@pytest.mark.parametrize("place", [Path, long_path])
def test_the_embedded_postgresql_lets_in_nobody_else(short_path: Path, place: type[Path]) -> None:
    home = place(short_path)
    for _ in range(2):  # made anew, and started again
        with holding_postgresql(home) as (_process, url), psycopg.connect(url) as link:
            assert link.execute("SHOW listen_addresses").fetchone() == ("",)
            assert link.execute("SHOW unix_socket_directories").fetchone() == (link.info.host,)
            assert not lets_in_others(Path(link.info.host) / ".s.PGSQL.5432")


def test_the_embedded_postgresql_of_a_killed_process_is_stopped_by_the_next_one(short_path: Path) -> None:
    server = short_path / "postgresql" / "postmaster.pid"  # there as long as it runs
    with holding_postgresql(short_path) as (killed, _):
        killed.kill()
    running = server.read_text()
    with holding_postgresql(short_path):
        assert server.read_text() == running
    assert not server.exists()
