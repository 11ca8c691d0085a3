"""``manage.py up``: the server in a terminal, which starts again whatever ends."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from runners.tests.broker_servers import Valkey
from runners.tests.ports import free_port
from speedtrack.processes import devstack, postgresql
from speedtrack.tests.builders import redis_client
from speedtrack.tests.installation import database_url

PATIENCE_S = 180
LINK = "Make the first account of this installation, once: "


@pytest.fixture
def environment(transactional_db: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    web, live = (f"127.0.0.1:{free_port()}" for _ in range(2))
    home = str(tmp_path_factory.mktemp("up"))
    given = {"SPEEDTRACK_HOME": home, "WEB_ADDRESS": web, "LIVE_ADDRESS": live, "DATABASE_URL": database_url()}
    return {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **given}


def start_up(environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "manage.py", "up"],
        cwd=devstack.BASE_DIR,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def server(environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    process = start_up(environment)
    try:
        yield process
    finally:
        process.kill()  # its children end with it
        process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def until(what: str, reached: Callable[[], bool], server: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert server.stdout and server.poll() is None, server.stdout.read() if server.stdout else ""
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_the_server_is_kept_up_until_it_is_told_to_end(
    server: "subprocess.Popen[str]", environment: dict[str, str]
) -> None:
    until("ready", lambda: answers(f"http://{environment['WEB_ADDRESS']}/readyz"), server)
    children = psutil.Process(server.pid).children(recursive=True)
    held = sum(one.memory_full_info().pss for one in (psutil.Process(server.pid), *children)) / 2**20
    assert held < 450, "MB of the idle server without PostgreSQL: its processes share what all of them load"
    [streams] = [one for one in children if one.name() == "up-live"]
    streams.kill()
    until("streams again", lambda: answers(f"http://{environment['LIVE_ADDRESS']}/live/healthz"), server)
    key = Path(environment["SPEEDTRACK_HOME"]) / "secret-key"
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_text()) >= 64
    for _ in range(3):  # by somebody who is impatient
        server.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    said, _ = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 0 and "The live had ended, and was started again" in said, said
    assert f"Serving at http://{environment['WEB_ADDRESS']}" in said
    assert re.search(rf"{LINK}http://\S+/accounts/\S+", said), said
    assert not any(is_alive(one) for one in children)


def test_a_stop_that_an_error_began_is_whole(server: "subprocess.Popen[str]", environment: dict[str, str]) -> None:
    """The embedded broker is lost, and somebody who sees nothing happen presses Ctrl-C."""
    until("ready", lambda: answers(f"http://{environment['WEB_ADDRESS']}/readyz"), server)
    children = psutil.Process(server.pid).children()
    [broker] = [one for one in children if "valkey" in one.name()]
    broker.kill()
    until("end", lambda: any(not is_alive(one) for one in children if one != broker), server)
    server.send_signal(signal.SIGTERM)
    said, _ = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 1 and "error: the embedded broker has ended: start again" in said, said
    assert not any(is_alive(one) for one in children)


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_what_outlives_a_killed_server_keeps_no_new_one_from_starting(
    server: "subprocess.Popen[str]", environment: dict[str, str]
) -> None:
    until("ready", lambda: answers(f"http://{environment['WEB_ADDRESS']}/readyz"), server)
    [worker] = [one for one in psutil.Process(server.pid).children() if one.name() == "up-worker"]
    worker.suspend()
    try:
        server.kill()
        server.wait()
        with (Path(environment["SPEEDTRACK_HOME"]) / "valkey" / "lock").open("ab") as lock:
            until_free = time.monotonic() + PATIENCE_S
            while not postgresql.try_lock(lock):  # the other children end first
                assert time.monotonic() < until_free
                time.sleep(0.1)
    finally:
        worker.kill()


def test_a_taken_address_is_one_line(environment: dict[str, str]) -> None:
    host, _, port = environment["WEB_ADDRESS"].partition(":")
    with socket.create_server((host, int(port))):
        done = subprocess.run(
            [sys.executable, "manage.py", "up"],
            cwd=devstack.BASE_DIR,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert done.returncode == 1 and "set WEB_ADDRESS to a free port" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_that_is_away_is_waited_for_with_a_sentence(environment: dict[str, str], broker: Valkey) -> None:
    """Its password has what ends the host in an address, and is in nothing that is printed."""
    url = f"redis+socket://:se/cr#e?t[@{broker.socket}"
    link = redis_client(broker.url)
    link.config_set("requirepass", "other")  # this connection stays logged in
    process = start_up(environment | {"BROKER_URL": url})
    try:
        assert process.stdout
        said = process.stdout.readline()
        assert said.startswith(f"Waiting for the broker redis+socket://{broker.socket}: it refuses"), said
        link.config_set("requirepass", "se/cr#e?t[")
        until("ready", lambda: answers(f"http://{environment['WEB_ADDRESS']}/readyz"), process)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0 and "se/cr" not in said, said
        assert not [log for log in Path(environment["SPEEDTRACK_HOME"]).glob("log/*") if "se/cr" in log.read_text()]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("command", [["manage.py", "up"], ["-m", "speedtrack", "worker"], ["manage.py", "dispatch"]])
def test_a_wrong_address_of_the_broker_is_one_line(environment: dict[str, str], command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=devstack.BASE_DIR,
        env=environment | {"BROKER_URL": "redis://:se/cr#et@host:name"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1 and said.startswith("error: BROKER_URL: it cannot be read"), said
    assert said.count("\n") == 1 and "cr#et" not in said


def test_the_first_start_of_a_stack_prints_the_owners_link(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The service `migrate` of docker-compose.yml does; not once there is an operator."""
    call_command("prepare")
    link = capsys.readouterr().out.partition(LINK)[2].strip()
    page = Client().get(urlsplit(link).path)
    assert page.status_code == 200 and b"password" in page.content
    User.objects.create_superuser("ada")
    call_command("prepare")
    assert LINK not in capsys.readouterr().out


FRONTEND = ("package.json", "package-lock.json", "build.mjs")  # what the build of the pages depends on, but its sources


def test_a_release_archive_is_set_up_without_npm(tmp_path: Path) -> None:
    """What `make archive` packs has the pages built, and no `.git`."""
    (tmp_path / "frontend/dist").mkdir(parents=True)
    (tmp_path / "frontend/src").mkdir()
    for name in ("Makefile", "requirements.txt", *(f"frontend/{one}" for one in FRONTEND)):
        shutil.copy(devstack.BASE_DIR / name, tmp_path / name)

    def steps() -> str:
        done = subprocess.run(["make", "--dry-run", "up"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "npm" in steps()  # a tree that was never built
    (tmp_path / "frontend/dist/.built").touch()
    (tmp_path / "frontend/package.json").touch()  # whatever the times of unpacked files are
    assert "manage.py up" in steps() and "npm" not in steps()


@pytest.mark.parametrize(
    "command",
    [["manage.py", "migrate"], ["-m", "runners", "enroll", "http://127.0.0.1:{port}", "st-code"]],
)
def test_ctrl_c_is_no_traceback(environment: dict[str, str], command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        process = subprocess.Popen(
            [sys.executable, *(word.replace("{port}", port) for word in command)],
            cwd=devstack.BASE_DIR,
            env=environment | {"DATABASE_URL": f"postgresql://u:p@127.0.0.1:{port}/d"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs have it ignored
        )
        connection, _ = silent.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (130, "interrupted\n")
