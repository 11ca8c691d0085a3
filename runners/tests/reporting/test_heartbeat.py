"""The heartbeat as a real process against a real server: where it runs, when it ends, and when it does not renew."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runners.machine.topology import allowed_cpus
from runners.processes.control import boottime
from runners.reporting.beats import Moment
from runners.reporting.client import Client
from runners.reporting.heartbeat import HeartbeatProcess
from runners.reporting.lease import OVERDUE_S, PhaseDurations
from runners.reporting.token import TokenFile, check_sum, new_token, rotate
from runners.tests.api import Api
from runners.tests.conftest import alive

CHECKOUT = Path(__file__).parents[3]
LIMIT_S = 120.0
LEASE = {"run": 17, "token": 3, "lease_s": 2.0}
ONE_CPU = frozenset([min(allowed_cpus())])


@pytest.fixture
def heartbeat(client: Client) -> Iterator[HeartbeatProcess]:
    made = HeartbeatProcess(client, allowed_cpus())
    made.start()
    yield made
    made.close()


def lease(seconds: float = 600.0) -> dict[str, float]:
    return {**LEASE, "renewed_at": boottime() + seconds, "deadline_at": boottime() + seconds}


def until(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pid_of(heartbeat: HeartbeatProcess) -> int:
    assert heartbeat._process is not None
    return heartbeat._process.pid


def test_it_renews_from_the_housekeeping_cores_with_the_age_of_the_last_progress(
    heartbeat: HeartbeatProcess, api: Api
) -> None:
    heartbeat.hold(lease(), ONE_CPU)
    heartbeat.show({"document": {"now": "build"}, "at": boottime() - 7, "limit_s": 100.0})
    until(lambda: any(body["progress"] for body in api.bodies("/renew")))
    assert os.sched_getaffinity(pid_of(heartbeat)) == ONE_CPU
    newest = api.bodies("/renew")[-1]
    assert newest["progress"]["now"] == "build" and 7 <= newest["progress"]["age_s"] < 60 and newest["hung"] == ""


def test_a_heartbeat_that_is_killed_is_started_again_and_goes_on(heartbeat: HeartbeatProcess, api: Api) -> None:
    heartbeat.hold(lease(), ONE_CPU)
    until(lambda: api.of("/renew"))
    first = pid_of(heartbeat)
    os.kill(first, signal.SIGKILL)
    until(lambda: pid_of(heartbeat) != first)
    before = len(api.of("/renew"))
    until(lambda: len(api.of("/renew")) > before)


def test_a_heartbeat_that_cannot_be_started_again_is_tried_again(
    heartbeat: HeartbeatProcess, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a build takes all memory."""
    heartbeat.hold(lease(), ONE_CPU)
    first, start, failures = pid_of(heartbeat), subprocess.Popen, []

    def popen(*words: Any, **options: Any) -> "subprocess.Popen[str]":
        if not failures:
            failures.append(words)
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return start(*words, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    os.kill(first, signal.SIGKILL)
    until(lambda: pid_of(heartbeat) != first)
    before = len(api.of("/renew"))
    until(lambda: len(api.of("/renew")) > before)


def test_it_can_be_closed_after_it_was_killed(heartbeat: HeartbeatProcess, api: Api) -> None:
    heartbeat.start()
    assert heartbeat._process is not None
    heartbeat._process.kill()
    heartbeat._process.wait()
    heartbeat.drop()
    heartbeat.close("was stopped")
    assert api.bodies("beat")[-1]["ended"] == "was stopped"


def test_it_ends_with_a_runner_that_is_killed(api: Api, tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from runners.reporting.connection import ServerConnection\n"
        "from runners.reporting.heartbeat import HeartbeatProcess\n"
        f"beat = HeartbeatProcess(ServerConnection({api.url!r}, 'any'), frozenset({sorted(ONE_CPU)}))\n"
        "beat.start()\n"
        "print(beat._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", program], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    pid = int(runner.stdout.readline())
    assert alive(pid)
    runner.kill()
    runner.wait()
    until(lambda: not alive(pid))


def test_it_stops_renewing_when_it_is_told_or_the_lease_is_lost(heartbeat: HeartbeatProcess, api: Api) -> None:
    heard: list[dict[str, object]] = []
    heartbeat.heard.of_run = heard.append
    heartbeat.hold(lease(), ONE_CPU)
    until(lambda: heard)
    assert heard[0]["kind"] == "renewed" and heard[0]["lease_s"] == 60
    api.rules = [lambda call: (409, {"error": "gone"}) if call.path.endswith("/renew") else None]
    heartbeat.show({"document": {"now": "x"}, "at": boottime(), "limit_s": 1.0})
    until(lambda: heard[-1]["kind"] == "lost")
    assert "gone" in str(heard[-1]["text"])
    count = len(api.of("/renew"))
    heartbeat.show({"document": {"now": "y"}, "at": boottime(), "limit_s": 1.0})
    heartbeat.unable("no space")
    until(lambda: {"unable": "no space", "waits": "", "ended": ""} in api.bodies("beat"))
    assert len(api.of("/renew")) == count


def test_renewals_are_heard_while_a_token_is_replaced(heartbeat: HeartbeatProcess, api: Api) -> None:
    """The server may take longer to answer that call than a lease lasts."""
    heard: list[dict[str, object]] = []
    began, answered = threading.Event(), threading.Event()
    times: list[int] = []

    def replace() -> None:
        times.append(1)
        began.set()
        answered.wait(LIMIT_S)

    heartbeat.heard.of_run, heartbeat.heard.rotate = heard.append, replace
    api.rules = [lambda call: (200, {"lease_s": 2, "cancel": False, "rotate": True})]
    heartbeat.hold(lease(), ONE_CPU)
    until(began.is_set)
    before = len(heard)
    until(lambda: len(heard) > before + 1)
    assert len(times) == 1, "one at a time"
    answered.set()
    until(lambda: len(times) > 1)


def test_work_that_outlasts_its_limits_hangs() -> None:
    assert not Moment({}, boottime() - 250, limit_s=100).hangs
    assert Moment({}, boottime() - 270, limit_s=100).hangs


def test_a_phase_is_overdue_by_what_its_like_took() -> None:
    pace = PhaseDurations()
    assert pace.overdue_s("get", limit_s=900) == 900, "the first of its like ends itself"
    for at in (0.0, 100.0, 160.0):
        pace.begin("get", at)
    assert pace.overdue_s("get", limit_s=900) == 500
    pace.begin("set", 161.0)
    pace.begin("done", 162.0)
    assert pace.overdue_s("set", limit_s=900) == OVERDUE_S


def test_a_token_is_replaced_on_disk_and_in_use(client: Client, api: Api, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    api.rules = [lambda call: (503, {"error": "away"}) if call.path == "token" else None]
    assert not rotate(client, file)
    assert file.read_text() == "old\n"
    waiting = (tmp_path / "token.next").read_text().strip()
    api.rules = []
    assert rotate(client, file)
    assert {body["token"] for body in api.bodies("token")} == {waiting}, "the same one, as the server may know it"
    assert file.read_text().strip() == waiting == client.token
    assert file.stat().st_mode & 0o777 == 0o600 and [one.name for one in tmp_path.glob("token*")] == ["token"]


def test_a_token_without_a_file_is_not_replaced(client: Client, api: Api) -> None:
    assert not rotate(client, None) and not api.calls


def test_tokens_are_long_and_have_a_check_sum(tmp_path: Path) -> None:
    prefix, key, secret, check = new_token().split("_")
    assert (prefix, len(key), len(secret)) == ("strn", 12, 43) and check == check_sum(key, secret)
    assert TokenFile(tmp_path / "token").successor() == TokenFile(tmp_path / "token").successor()
