"""`python -m runners doctor`: what it finds here, and the remedies of what is made wrong."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runners
from runners import doctor
from runners.doctor import MachineDiagnosis, examine, safe_runc
from runners.tests.api import TOKEN, Api, RecordedCall

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("1.1.5+ds1", False),
        ("1.2.7", False),
        ("1.2.8", True),
        ("1.3.2", False),
        ("1.3.3-0ubuntu1", True),
        ("1.4.0", True),
        ("1.5.0-rc.3", True),
        ("", False),
    ],
)
def test_an_old_runc_is_told(version: str, safe: bool) -> None:
    assert safe_runc(version) is safe


@pytest.fixture
def environ(api: Api, home: Path, speedbench: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "SPEEDTRACK_URL": api.url,
        "SPEEDTRACK_TOKEN": TOKEN,
        "SPEEDTRACK_RUNNER_HOME": str(home),
        "SPEEDTRACK_DRIVER": str(speedbench),
        "SPEEDTRACK_LOCK_DIR": str(home),
        "SPEEDTRACK_ALLOW_SHARED_CORES": "1",
        "PYTHONPATH": str(ROOT),
    }


def about(**changes: Any) -> Callable[[RecordedCall], tuple[int, dict[str, Any] | None] | None]:
    said = {"machine": "m1", "version": runners.__version__, "time": time.time()} | changes
    return lambda call: (200, said) if call.path == "me" else None


def found(name: str, environ: dict[str, str]) -> MachineDiagnosis:
    (one,) = examine([name], environ)
    assert one.state in doctor.MARKS
    return one


def test_a_machine_that_can_work(api: Api, environ: dict[str, str]) -> None:
    api.rules.append(about())
    done = subprocess.run(
        [sys.executable, "-m", "runners", "doctor", "--json"], env=environ, capture_output=True, text=True
    )
    states = {one["name"]: one["state"] for one in json.loads(done.stdout)}
    assert list(states) == list(doctor.CHECKS)
    assert (done.returncode, {name for name, state in states.items() if state == "bad"}) == (0, set())
    assert states["server"] == states["driver"] == "good"
    assert [call.path for call in api.calls] == ["me"], "it changes nothing on the server"


def test_lines_for_people_and_the_exit_code(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "runners", "doctor", "--only", "settings", "compiler"]
    done = subprocess.run(command, env=environ | {"SPEEDTRACK_TOKEN": ""}, capture_output=True, text=True)
    assert done.returncode == 1
    first, second = done.stdout.splitlines()
    assert first.startswith("BAD   settings")
    assert "no machine token: enrol this machine" in first
    assert "compiler" in second


def test_an_unknown_check_is_refused(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "runners", "doctor", "--only", "weather"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "there is no check 'weather': name some of settings, server" in done.stderr


@pytest.mark.parametrize(
    ("said", "state", "words"),
    [
        ({}, "good", "this is machine m1 of a server of release"),
        ({"time": -3600}, "note", "the clock here is +3"),
        ({"time": 3600}, "note", "the clock here is -3"),
        ({"version": "0.1"}, "note", "of release 0.1, and this runner is"),
        ({"time": "soon"}, "bad", "no SpeedTrack server"),
        ({"machine": None, "time": None}, "bad", "no SpeedTrack server"),
    ],
)
def test_what_the_server_says(api: Api, environ: dict[str, str], said: dict[str, Any], state: str, words: str) -> None:
    """``time``: of the server, in seconds from now."""
    if isinstance(said.get("time"), int):
        said = said | {"time": time.time() + said["time"]}
    api.rules.append(about(**said))
    one = found("server", environ)
    assert (one.state, words in one.words) == (state, True), one.words


def test_a_wrong_token(api: Api, environ: dict[str, str]) -> None:
    api.rules.append(about())
    one = found("server", environ | {"SPEEDTRACK_TOKEN": "strn_0_wrong"})
    assert one.state == "bad"
    assert "does not know this token: run `manage.py machine add NAME`" in one.words
    assert "wrong" not in one.words


def test_a_server_of_something_else(api: Api, environ: dict[str, str]) -> None:
    api.rules.append(lambda call: (404, {"error": "no"}) if call.path == "me" else None)
    assert "answers 404: check that it is a SpeedTrack server" in found("server", environ).words


def test_nobody_answers(environ: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gone = environ | {"SPEEDTRACK_URL": f"http://127.0.0.1:{port}", "BROKER_URL": f"redis://:pw@127.0.0.1:{port}/0"}
    assert "does not answer" in found("server", gone).words
    broker = found("broker", gone)
    assert (broker.state, "pw" in broker.words) == ("bad", False)
    assert "start it" in broker.words and "use --poll" in broker.words


def test_missing_programs(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found("compiler", environ) == MachineDiagnosis(
        "compiler", "bad", "cc is not installed: this machine needs it to build servers"
    )
    for name, words in (("perf", "linux-perf"), ("valgrind", "are not counted")):
        one = found(name, environ)
        assert (one.state, words in one.words) == ("note", True)


@pytest.mark.parametrize(
    ("name", "setting", "value", "words"),
    [
        ("driver", "SPEEDTRACK_DRIVER", "/no/such", "SPEEDTRACK_DRIVER is /no/such, which is no program"),
        ("generators", "SPEEDTRACK_MEMTIER", "/etc/passwd", "which is no program: correct it"),
        ("sandbox", "SPEEDTRACK_SANDBOX", "perhaps", "set it to one of"),
        ("disk", "SPEEDTRACK_RUNNER_HOME", "/proc/x", "cannot be made"),
        ("settings", "SPEEDTRACK_URL", "example.org", "does not begin with https:// or http://"),
    ],
)
def test_wrong_settings_are_named(environ: dict[str, str], name: str, setting: str, value: str, words: str) -> None:
    one = found(name, environ | {setting: value})
    assert (one.state, words in one.words) == ("bad", True), one.words


def test_a_full_disk(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for least, few, state in (("1000000000", 10**9, "bad"), ("1", 10**9, "note"), ("1", 0, "good")):
        monkeypatch.setattr(doctor, "FEW_FREE_MB", few)
        assert found("disk", environ | {"SPEEDTRACK_LEAST_FREE_MB": least}).state == state
