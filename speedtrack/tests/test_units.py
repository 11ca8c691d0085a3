"""The units of systemd: sound, well confined, and what they start works with the settings that they give."""

import configparser
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from runners.tests.ports import free_port
from speedtrack.celery import BROKER_TRANSPORT
from speedtrack.processes import devstack
from speedtrack.tests.installation import database_url

UNITS = devstack.BASE_DIR / "deploy" / "systemd"
PROCESSES = sorted(devstack.PROCESSES)
INSTALLED, MACHINE = "/opt/speedtrack", "/opt/speedtrack-runner"
BOUND_TENTHS = 40  # of `systemd-analyze security`: 4.0
PATIENCE_S = 120


def instances() -> dict[str, Path]:
    """The names of all services, with the files that describe them."""
    files = {file.stem: file for file in UNITS.glob("*.service")}
    template = files.pop("speedtrack@")
    return files | {f"speedtrack@{name}": template for name in PROCESSES}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with the units where `deploy/install` puts them, and with something at the paths of what they start."""
    place = tmp_path / "etc" / "systemd" / "system"
    place.mkdir(parents=True)
    for file in UNITS.iterdir():
        if file.suffix in (".service", ".target"):
            shutil.copy(file, place)
    for program in (f"{INSTALLED}/.venv/bin/python", f"{MACHINE}/bin/speedtrack-runner"):
        target = tmp_path / program.lstrip("/")
        target.parent.mkdir(parents=True)
        target.write_text("#!/bin/sh\n")
        target.chmod(0o755)
    shutil.copytree("/lib/systemd/system", tmp_path / "usr" / "lib" / "systemd" / "system", symlinks=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    return tmp_path


@pytest.mark.systemd_analyze
def test_systemd_finds_nothing_wrong_with_the_units(root: Path) -> None:
    names = [*(f"{name}.service" for name in instances()), "speedtrack.target"]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", f"--root={root}", *names],
        capture_output=True,
        text=True,
    )
    assert [line for line in done.stderr.splitlines() if "speedtrack" in line] == []


@pytest.mark.systemd_analyze
@pytest.mark.parametrize("name", instances())
def test_a_unit_is_confined(name: str, tmp_path: Path) -> None:
    unit = shutil.copy(instances()[name], tmp_path / f"{name}.service")
    words = ["systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={BOUND_TENTHS}", str(unit)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-300:]


def test_the_target_wants_each_process_of_the_server() -> None:
    wanted = {word for line in lines("speedtrack.target", "Wants") for word in line.split()}
    assert wanted == {f"speedtrack@{name}.service" for name in PROCESSES}


class Unit(configparser.RawConfigParser):
    optionxform = staticmethod(str)  # type: ignore[assignment]


def lines(file: str, key: str) -> list[str]:
    """All values of a setting that may stand in a unit more than once."""
    return [line.partition("=")[2] for line in (UNITS / file).read_text().splitlines() if line.partition("=")[0] == key]


@dataclass
class Host:
    """Starts what units start, as systemd does but for the user and the confinement."""

    room: Path
    settings: dict[str, str]
    processes: dict[str, "subprocess.Popen[bytes]"]

    def start(self, name: str) -> "subprocess.Popen[bytes]":
        file = f"{name.partition('@')[0]}{'@' if '@' in name else ''}.service"
        [command] = lines(file, "ExecStart")
        with (self.room / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [self.here(word, name) for word in command.split()],
                cwd=self.here(lines(file, "WorkingDirectory")[0], name),
                env=self.environment(file, name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.processes[name]

    def environment(self, file: str, name: str) -> dict[str, str]:
        own = dict(word.split("=", 1) for line in lines(file, "Environment") for word in line.split())
        given = self.settings if lines(file, "EnvironmentFile") else {}
        return {"PATH": os.environ["PATH"], **{key: self.here(word, name) for key, word in own.items()}, **given}

    def here(self, word: str, name: str) -> str:
        """A word of a unit with the directories and the interpreter of this test."""
        specifiers = {"%i": name.partition("@")[2], "%d": str(self.room / "credentials")}
        places = {
            f"{INSTALLED}/.venv/bin/python": sys.executable,
            INSTALLED: str(devstack.BASE_DIR),
            "/var/lib/speedtrack": str(self.room / "state"),
            "/run/speedtrack-broker": str(self.room / "run"),
        }
        for old, new in (specifiers | places).items():
            word = word.replace(old, new)
        return word

    def until(self, what: str, reached: object) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not reached():  # type: ignore[operator]
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            assert not ended and time.monotonic() < deadline, f"{what}; ended: {ended}\n{self.said()}"
            time.sleep(0.2)

    def said(self) -> str:
        return "\n".join(f"{log.name}:\n{log.read_text()[-1500:]}" for log in self.room.glob("*.log"))


@pytest.fixture
def host(transactional_db: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    room = tmp_path_factory.mktemp("u")
    for name in ("credentials", "state", "run"):
        (room / name).mkdir(mode=0o700)
    (room / "credentials" / "secret-key").write_text(f"{secrets.token_urlsafe(48)}\n")
    web, live = (f"127.0.0.1:{free_port()}" for _ in range(2))
    given = {
        "SPEEDTRACK_URL": f"http://{web}",
        "WEB_ADDRESS": web,
        "LIVE_ADDRESS": live,
        "SPEEDTRACK_LIVE_URL": f"http://{live}",
        "DATABASE_URL": database_url(),
        "BROKER_URL": f"redis+socket://{room / 'run' / 'valkey.sock'}",
    }
    with ExitStack() as stack:
        found = Host(room, given, {})
        stack.callback(lambda: [end(process) for process in found.processes.values()])
        yield found


def end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_what_the_units_start_is_a_whole_server(host: Host) -> None:
    assert host.start("speedtrack-migrate").wait(PATIENCE_S) == 0, host.said()
    host.processes.clear()
    host.start("speedtrack-broker")
    host.until("the broker's socket", (host.room / "run" / "valkey.sock").exists)
    for name in PROCESSES:
        host.start(f"speedtrack@{name}")
    host.until("pages, database and dispatcher", lambda: answers(f"{host.settings['SPEEDTRACK_URL']}/readyz"))
    host.until("streams", lambda: answers(f"{host.settings['SPEEDTRACK_LIVE_URL']}/live/healthz"))
    with Celery(broker=host.settings["BROKER_URL"]) as app:
        app.conf.broker_transport_options = BROKER_TRANSPORT
        host.until("workers", lambda: len(app.control.ping(timeout=2)) == len({"worker", "notify", "git"}))
    assert (host.room / "state" / "mirrors").parent.stat().st_mode & 0o077 == 0
    assert not (host.room / "state" / "secret-key").exists(), "the key is the credential's, and no other one was made"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["broker"], "say where the broker listens"),
        (["broker", "valkey.sock"], "say where the broker listens"),
        (["nothing"], "say which process: python -m speedtrack web|live|dispatcher|worker|notify|git|broker"),
        (["web"], "DATABASE_URL is not set"),
    ],
)
def test_a_wrong_process_is_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "speedtrack", *words],
        cwd=devstack.BASE_DIR,
        env={"PATH": os.environ["PATH"], "SPEEDTRACK_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_key_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "speedtrack.http.webserver"],
        cwd=devstack.BASE_DIR,
        env={
            "PATH": os.environ["PATH"],
            "SPEEDTRACK_HOME": str(tmp_path),
            "SECRET_KEY_FILE": "/nowhere",
            "DJANGO_SETTINGS_MODULE": "speedtrack.settings",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and "SECRET_KEY_FILE=/nowhere: cannot be read" in done.stderr


def test_secrets_of_one_process_have_a_file_of_their_own(tmp_path: Path) -> None:
    """systemd gives it to that process alone; the command that an operator starts has all of them."""
    assert lines("speedtrack@.service", "EnvironmentFile")[1:] == ["-/etc/speedtrack/%i.env"]
    loader = SourceFileLoader("manage", str(devstack.BASE_DIR / "deploy/speedtrack-manage"))
    manage: Any = module_from_spec(ModuleSpec("manage", loader))
    loader.exec_module(manage)
    manage.SETTINGS = tmp_path
    (tmp_path / "speedtrack.env").write_text("# common\nEMAIL_HOST=mail.example.org\nMETRICS_TOKEN=old\n")
    (tmp_path / "web.env").write_text("METRICS_TOKEN='of the web'\n")
    (tmp_path / "notify.env").write_text("EMAIL_HOST_PASSWORD=hush\n")
    (tmp_path / "secret-key").write_text("key\n")
    found = manage.settings()
    expected = {"EMAIL_HOST": "mail.example.org", "METRICS_TOKEN": "of the web", "EMAIL_HOST_PASSWORD": "hush"}
    assert expected.items() <= found.items() and found["SECRET_KEY"] == "key"


def begun_upgrade(place: Path, same_place: bool, is_migrated: bool) -> list[str]:
    """The commands of `speedtrack-manage` that `deploy/install` gives before it switches to a release."""
    release, older = place / "release", place / "older"
    for folder in (release / "deploy", older, place / "bin"):
        folder.mkdir(parents=True)
    (place / "current").symlink_to(release if same_place else older)
    text = (devstack.BASE_DIR / "deploy" / "install").read_text().replace("/opt/speedtrack\n", f"{place}/current\n")
    script = release / "deploy" / "install"
    script.write_text(text[: text.index('\ncheck_host "$@"')] + "\nback_up\n")
    manage = place / "bin" / "speedtrack-manage"
    manage.write_text(f'#!/bin/sh\necho "$1" >>{place}/asked\n[ "$1" != migrate ] || exit {int(not is_migrated)}\n')
    manage.chmod(0o755)
    path = f"{manage.parent}:{os.environ['PATH']}"
    subprocess.run(["bash", script], env={"PATH": path}, check=True, capture_output=True)
    asked = place / "asked"
    return asked.read_text().split() if asked.exists() else []


@pytest.mark.parametrize(
    ("same_place", "is_migrated", "asked"),
    [(False, True, ["backup"]), (True, False, ["migrate", "backup"]), (True, True, ["migrate"])],
)
def test_an_upgrade_is_backed_up_also_in_its_place(
    same_place: bool, is_migrated: bool, asked: list[str], tmp_path: Path
) -> None:
    assert begun_upgrade(tmp_path, same_place, is_migrated) == asked


def test_the_installation_waits_for_the_services_that_it_stops() -> None:
    """`systemctl stop` waits for the units that it is given: the target ends first, as it starts last."""
    stops = [
        line.split("stop ")[1]
        for line in (devstack.BASE_DIR / "deploy" / "install").read_text().splitlines()
        if "systemctl stop" in line
    ]
    assert stops and all("'speedtrack@*'" in stop for stop in stops)
