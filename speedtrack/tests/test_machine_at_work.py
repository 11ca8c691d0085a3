"""Real runners: enrolled by a code, their tokens replaced and revoked in the middle of a run, processes that stop,
two runners with one token, a runner of another version, an update, and a full disk.
"""

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core import mail
from django.utils import timezone

from speedtrack import __version__
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.runs.fleet import enrolment, machines
from speedtrack.runs.models import Alarm, Machine, MachineToken, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.runs.scheduling import versions
from speedtrack.tasks.notify import notify
from speedtrack.tests import builders
from speedtrack.tests.real_system import write_history
from speedtrack.tests.test_faults import SUITE

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE_S = 400
DRIVER = BASE_DIR / "runners" / "driver" / "target" / "release" / "speedbench"
LONG = SUITE.replace("trials = 5\nmost_trials = 6", "trials = 60\nmost_trials = 60")


@dataclass
class Room:
    """A server, a project with one queued run, and the runners that a test starts."""

    path: Path
    url: str
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def environment(self, home: str = "home", **changes: str) -> dict[str, str]:
        (self.path / home).mkdir(exist_ok=True)
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(BASE_DIR),
            "HOME": str(self.path / home),
            "SPEEDTRACK_RUNNER_HOME": str(self.path / home / "runner"),
            "SPEEDTRACK_DRIVER": str(DRIVER),
            "SPEEDTRACK_ALLOW_SHARED_CORES": "1",
            "SPEEDTRACK_PATIENCE_S": "1",
            "SPEEDTRACK_LOCK_DIR": os.environ["SPEEDTRACK_LOCK_DIR"],
        } | changes

    def call(self, *words: str, **changes: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "runners", *words],
            cwd=self.path,
            env=self.environment(**changes),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def start(self, **changes: str) -> "subprocess.Popen[str]":
        with (self.path / "runner.log").open("a") as log:
            runner = subprocess.Popen(
                [sys.executable, "-m", "runners", "--poll", "--every", "0.2"],
                cwd=self.path,
                env=self.environment(**changes),
                stdout=log,
                stderr=log,
                text=True,
            )
        self.started.append(runner)
        return runner

    @property
    def log(self) -> str:
        return (self.path / "runner.log").read_text()

    def until(self, reached: Callable[[], object]) -> None:
        """Play the dispatcher until something is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < deadline, self.log[-3000:]
            queue.reap()
            time.sleep(0.05)

    def enrolled(self) -> None:
        done = self.call("enroll", self.url, enrolment.make_code("m1"))
        assert done.returncode == 0, done.stderr


@pytest.fixture
def room(live_server: Any, tmp_path: Path, settings: Any) -> Iterator[Room]:
    builders.use_suite(settings, tmp_path / "suites", LONG)
    write_history(tmp_path / "kvd", 1)
    made = Room(tmp_path, live_server.url)
    yield made
    for runner in made.started:
        runner.terminate()
        if runner.poll() is None:
            runner.send_signal(signal.SIGCONT)
        runner.wait(PATIENCE_S)


def track(room: Room) -> Run:
    tracking.track(TrackingRequest(str(room.path / "kvd"), "tiny", last=1))
    return Run.objects.get()


def now(run: Run) -> dict[str, Any]:
    run.refresh_from_db()
    return run.progress or {}


def at_trial(run: Run, number: int) -> Callable[[], bool]:
    return lambda: now(run).get("done", 0) >= number


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def suspend_driver(room: Room, stopped: list[psutil.Process]) -> bool:
    """Stop the load driver of the runner that was started last, if one runs now."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in psutil.Process(room.started[-1].pid).children(recursive=True):
            if one.name() == "speedbench":
                one.suspend()
                stopped.append(one)
                return True
    return False


def test_a_machine_is_enrolled_rotates_its_token_in_a_run_and_is_revoked_in_it(room: Room, settings: Any) -> None:
    code = enrolment.make_code("m1", pool="large", days=30)
    done = room.call("enroll", room.url, code)
    assert done.returncode == 0, done.stderr
    assert "this is machine m1" in done.stdout and "python -m runners --poll" in done.stdout
    directory = room.path / "home" / ".config" / "speedtrack"
    assert {file.name: mode(file) for file in directory.iterdir()} == {"runner.env": 0o600, "token": 0o600}
    again = room.call("enroll", room.url, code, home="thief")
    assert again.returncode == 1 and "this enrolment code was used at" in again.stderr, again.stderr
    assert again.stderr.count("\n") == 1

    run = track(room)
    runner = room.start()
    room.until(at_trial(run, 1))
    first = (directory / "token").read_text()
    machine = Machine.objects.get()
    assert machine.pool == "large"
    machines.rotate(machine)
    room.until(lambda: MachineToken.objects.filter(last_used_at__isnull=False).count() == 2)
    second = (directory / "token").read_text()
    assert second != first and mode(directory / "token") == 0o600 and len(list(directory.iterdir())) == 2
    assert MachineToken.of(second.strip()).days == MachineToken.of(first.strip()).days == 30
    before = now(run)["done"]
    room.until(at_trial(run, before + 2))
    assert (run.attempt, run.status) == (1, "running"), "the run has gone on"

    elsewhere = room.path / "other"
    elsewhere.mkdir()
    other = room.call(
        "--once",
        SPEEDTRACK_RUNNER_HOME=str(elsewhere),
        SPEEDTRACK_LOCK_DIR=str(elsewhere),
    )
    assert other.returncode != 0 and "another runner works with the token of machine m1" in other.stderr
    assert (now(run) and run.attempt, run.status) == (1, "running")

    machines.revoke(machine)
    assert runner.wait(PATIENCE_S) == 1
    assert "this token of machine m1 was revoked" in room.log
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", 0)


def test_a_stopped_runner_loses_its_lease_although_its_heartbeat_lives(room: Room, settings: Any) -> None:
    settings.LEASE_S = 12
    room.enrolled()
    run = track(room)
    runner = room.start()
    room.until(at_trial(run, 1))
    runner.send_signal(signal.SIGSTOP)
    room.until(lambda: Alarm.objects.open().exists())
    alarm = Alarm.objects.get()
    assert alarm.kind == "stalled" and "is stopped (SIGSTOP" in alarm.why
    room.until(lambda: now(run) == {} and run.status == "queued")
    runner.send_signal(signal.SIGCONT)
    room.until(lambda: now(run).get("done", 0) >= 1 and run.attempt == 2)
    assert not Alarm.objects.open().exists() and Alarm.objects.count() == 1


def test_a_stopped_driver_is_told_of_once_and_again_when_it_is_over(room: Room, settings: Any) -> None:
    settings.OPERATORS = ["ops@example.org"]
    room.enrolled()
    run = track(room)
    room.start(SPEEDTRACK_OVERDUE_S="2")
    room.until(at_trial(run, 2))
    stopped: list[psutil.Process] = []
    room.until(lambda: suspend_driver(room, stopped))
    room.until(lambda: Alarm.objects.open().exists())
    run.refresh_from_db()
    assert run.status == "running" and run.lease_until > timezone.now(), "its lease is renewed"
    notify()
    for one in stopped:
        one.resume()
    room.until(lambda: not Alarm.objects.open().exists())
    notify()
    notify()
    assert [one.subject for one in mail.outbox] == [
        "[m1] is alive, but not finishing",
        "[m1] over: is alive, but not finishing",
    ]
    body = " ".join(mail.outbox[0].body.split())
    assert re.search(r"run \d+: no progress for \d+ s, at get-p16, trial", body)


def test_a_runner_of_another_version_gets_no_work_and_the_reason(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.enrolled()
    run = track(room)
    monkeypatch.setattr(versions, "PROTOCOL", versions.PROTOCOL + 1)
    monkeypatch.setattr(versions, "UNDERSTOOD", {versions.PROTOCOL})
    done = room.call("--once")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    same = f"version {__version__} (protocol"
    assert f"the runner is {same} 2), and this server is {same} 3)" in last
    assert "Update the runner" in last
    run.refresh_from_db()
    assert run.status == "queued"


def test_an_update_waits_for_the_end_of_the_run(room: Room, settings: Any) -> None:
    builders.use_suite(settings, room.path / "suites", SUITE)
    room.enrolled()
    run = track(room)
    runner = room.start()
    room.until(at_trial(run, 1))
    runner.send_signal(signal.SIGUSR2)
    assert runner.wait(PATIENCE_S) == 0, room.log
    run.refresh_from_db()
    assert run.status == "succeeded", room.log


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.mount
def test_a_full_disk_hands_the_run_back_and_takes_none_until_there_is_space(
    room: Room, small_disk: Path, settings: Any
) -> None:
    room.enrolled()
    run = track(room)
    room.start(SPEEDTRACK_RUNNER_HOME=str(small_disk / "runner"), SPEEDTRACK_LEAST_FREE_MB="20")
    room.until(at_trial(run, 1))
    filler = small_disk / "filler"
    with filler.open("wb") as stream, pytest.raises(OSError, match="No space left"):
        while True:
            stream.write(b"x" * 2**20)
            stream.flush()
    room.until(lambda: Alarm.objects.open().exists())
    assert "is full: 0 MB free, 20 MB are needed" in Alarm.objects.get().why
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", 0), "no attempt was lost"
    filler.unlink()
    room.until(at_trial(run, 1))
    assert not Alarm.objects.open().exists()
