"""The program itself, as a process: settings, lock, shutdown, a crash and what the next start makes of it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runners import brokers
from runners.tests.api import TOKEN, Answer, Api, RecordedCall
from runners.tests.broker_servers import RabbitMQ, until
from runners.tests.conftest import make_benchmark, make_job, marked
from runners.work.worker import TASK, celery_app

ROOT = Path(__file__).parents[3]
LIMIT_S = 300.0
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(api: Api, home: Path, speedbench: Path) -> Iterator[Start]:
    """Starts `python -m runners` with the settings of this test; what still runs at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def runner(*words: str, **changes: str) -> "subprocess.Popen[str]":
        settings = {
            "PATH": os.environ["PATH"],
            "SPEEDTRACK_URL": api.url,
            "SPEEDTRACK_TOKEN": TOKEN,
            "SPEEDTRACK_RUNNER_HOME": str(home),
            "SPEEDTRACK_DRIVER": str(speedbench),
            "SPEEDTRACK_ALLOW_SHARED_CORES": "1",
            "SPEEDTRACK_PATIENCE_S": "1",
            "SPEEDTRACK_LOCK_DIR": str(home),
            "PYTHONPATH": str(ROOT),
            "PYTHONFAULTHANDLER": "1",
        } | changes
        process = subprocess.Popen(
            [sys.executable, "-m", "runners", *words],
            env=settings,
            cwd=home,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        started.append(process)
        return process

    yield runner
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Exit code and output once it has ended."""
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # the output then shows where each thread is
        pytest.fail(f"the runner does not end:\n{process.communicate()[0]}")
    return process.returncode, output


def during_a_trial(api: Api, home: Path) -> None:
    """Returns when a trial is being measured: it has been told of before its server is there, and may not begin."""
    with api.arrived:
        assert api.arrived.wait_for(
            lambda: any("trial" in (call.body.get("progress") or {}).get("now", "") for call in api.calls), LIMIT_S
        )
    deadline = time.monotonic() + LIMIT_S
    while not (home / "trial-0" / "socket" / "s").exists():
        assert time.monotonic() < deadline, "a trial was told of, and has no server"
        time.sleep(0.01)


def until_shown(api: Api, words: str) -> None:
    """Returns once the server has been told that the idle runner waits for this."""
    with api.arrived:
        assert api.arrived.wait_for(
            lambda: any(words in (call.body.get("waits") or "") for call in api.calls), LIMIT_S
        ), api.bodies("beat")


def long_job() -> dict[str, object]:
    return make_job(trials=20, benchmarks=[make_benchmark(duration_s=1.5)])


def test_once_works_until_there_is_no_work(start: Start, api: Api) -> None:
    api.jobs = [make_job(run=1, trials=1), make_job(run=2, trials=1)]
    code, output = ended(start("--once", BROKER_URL=""))
    assert code == 0, output
    assert [call.path for call in api.of("/complete")] == ["runs/1/complete", "runs/2/complete"]
    assert [body["build"]["cached"] for body in api.bodies("/build")] == [False, True]
    assert api.bodies("hello")[0]["facts"]["series"]["cpu_model"] and "this is machine m1" in output


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"SPEEDTRACK_URL": ""}, "SPEEDTRACK_URL is not set: set it to the address"),
        ({"SPEEDTRACK_URL": "speed.example.org"}, "does not begin with https:// or http://"),
        ({"SPEEDTRACK_TOKEN": ""}, "no machine token: enrol this machine"),
        ({"SPEEDTRACK_TOKEN": "two words"}, "copy it again"),
        ({"SPEEDTRACK_TOKEN": "", "SPEEDTRACK_TOKEN_FILE": "/nowhere"}, "SPEEDTRACK_TOKEN_FILE cannot be read"),
        ({"SPEEDTRACK_DRIVER": "/nowhere"}, "SPEEDTRACK_DRIVER is /nowhere, which is no program: install the wheel"),
        ({"SPEEDTRACK_RUNNER_HOME": "/proc/runner"}, "SPEEDTRACK_RUNNER_HOME /proc/runner cannot be made"),
        ({}, "BROKER_URL is not set: set it to the broker of the server (redis://...), or start with --poll"),
    ],
)
def test_a_wrong_setting_is_one_line_with_cause_and_remedy(start: Start, changes: dict[str, str], line: str) -> None:
    code, output = ended(start(*([] if not changes else ["--once"]), **changes))
    assert code == 2 and line in output and output.count("\n") == 1, output


def test_the_token_may_come_from_a_file(start: Start, api: Api, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    code, output = ended(start("--once", SPEEDTRACK_TOKEN="", SPEEDTRACK_TOKEN_FILE=str(tmp_path / "token")))
    assert code == 0 and api.of("claim"), output


def test_an_unknown_token_ends_the_runner_with_the_remedy(start: Start) -> None:
    code, output = ended(start("--poll", SPEEDTRACK_TOKEN="strn_9_wrong"))
    assert code == 1
    assert "does not know this machine's token (unknown token): run `manage.py machine enroll-code NAME`" in output


def test_an_unreachable_server_is_waited_for(start: Start) -> None:
    runner = start("--poll", SPEEDTRACK_URL="http://127.0.0.1:1")
    assert runner.stdout is not None
    lines = iter(runner.stdout.readline, "")
    assert any("http://127.0.0.1:1 cannot be reached" in line and "waiting for it" in line for line in lines)
    runner.terminate()
    assert ended(runner)[0] == 0


def test_two_runners_do_not_share_a_home(start: Start, api: Api) -> None:
    first = start("--poll")
    api.await_call("claim", LIMIT_S)
    code, output = ended(start("--poll"))
    assert code == 2 and f"another runner (process {first.pid}) uses" in output
    first.terminate()
    assert ended(first)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_shutdown_finishes_the_trial_and_hands_the_run_back(
    start: Start, api: Api, home: Path, number: signal.Signals
) -> None:
    api.jobs = [long_job()]
    runner = start("--poll")
    during_a_trial(api, home)
    runner.send_signal(number)
    code, output = ended(runner)
    assert code == 0, output
    assert api.bodies("/fail") == [{"token": 3, "kind": "stopped", "error": "runner is shutting down"}]
    assert "get-p1, trial 1: " in api.text("measure") and marked(home) == []


def test_a_killed_runner_leaves_strays_that_the_next_one_ends(start: Start, api: Api, home: Path) -> None:
    """Where there is no sandbox: nothing outlives one (test_sandbox.py)."""
    api.jobs = [long_job()]
    runner = start("--once", SPEEDTRACK_SANDBOX="off")
    during_a_trial(api, home)
    runner.kill()
    runner.wait()
    assert marked(home), "the server outlives its runner"
    code, output = ended(start("--once"))
    assert code == 0 and "that an earlier runner left behind" in output
    assert marked(home) == [] and not (home / "trial-0").exists()


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        (
            "off",
            "NO SANDBOX (SPEEDTRACK_SANDBOX=off): host builds and measured servers run with all rights of this user",
        ),
        pytest.param("required", "builds and servers run in a sandbox: no network", marks=pytest.mark.sandbox),
    ],
)
def test_the_first_line_of_the_log_is_about_the_sandbox(start: Start, choice: str, line: str) -> None:
    _, output = ended(start("--once", SPEEDTRACK_SANDBOX=choice))
    assert line in output.splitlines()[0]


def test_results_of_a_killed_runner_are_sent_by_the_next(start: Start, api: Api, home: Path) -> None:
    def away(call: RecordedCall) -> Answer | None:
        return (503, {"error": "away"}) if call.path.endswith(("/measurement", "/complete")) else None

    api.rules = [away]
    api.jobs = [make_job(trials=1)]
    runner = start("--once")
    api.await_call("/measurement", LIMIT_S)
    runner.kill()
    runner.wait()
    api.rules = []
    before = len(api.of("/measurement"))
    code, output = ended(start("--once"))
    assert code == 0 and len(api.of("/measurement")) == before + 1, output
    assert list((home / "spool").iterdir()) == []


def test_the_plan_is_printed_with_its_reasons(start: Start) -> None:
    code, output = ended(start("plan"))
    assert code == 0
    lines = {line.split()[0]: line for line in output.splitlines()}
    assert "core" in lines["server"] and "memory node" in lines["memory"]
    code, output = ended(start("plan", "--json"))
    plan = json.loads(output)
    assert code == 0 and lines["server"].split()[1] == plan["server"]


def test_a_plan_for_more_cores_than_there_are_is_refused_in_one_line(start: Start) -> None:
    code, output = ended(start("plan", "--cores", "9999", SPEEDTRACK_ALLOW_SHARED_CORES="0"))
    assert code == 2 and output.startswith("runner: a server of 9999 cores and the driver need 10000 physical cores")
    assert output.count("\n") == 1


def test_a_message_of_the_broker_starts_the_work(start: Start, api: Api, broker_url: str) -> None:
    runner = start(BROKER_URL=broker_url)
    api.await_call("claim", LIMIT_S)
    api.jobs = [make_job(trials=1)]
    celery_app(brokers.read(broker_url), "machine.m1").send_task(TASK, queue="machine.m1")
    api.await_call("/complete", LIMIT_S)
    runner.send_signal(signal.SIGTERM)
    code, output = ended(runner)
    assert code == 0, output


@pytest.mark.rabbitmq
@pytest.mark.timeout(300)
def test_a_message_of_rabbitmq_starts_the_work(start: Start, api: Api, rabbitmq: RabbitMQ) -> None:
    runner = start(BROKER_URL=rabbitmq.url)
    api.await_call("claim", LIMIT_S)
    rabbitmq.stop()
    rabbitmq.forget()
    rabbitmq.start()  # it lost the queue, which the runner declares again

    def is_consumed() -> bool:
        assert runner.poll() is None, ended(runner)
        return rabbitmq.queue("machine.m1") == (0, 1)

    until(is_consumed, "the runner waits for messages")
    api.jobs = [make_job(trials=1)]
    celery_app(brokers.read(rabbitmq.url), "machine.m1").send_task(TASK, queue="machine.m1")
    api.await_call("/complete", LIMIT_S)
    runner.send_signal(signal.SIGTERM)
    code, output = ended(runner)
    assert code == 0, output


def test_a_shutdown_reaches_a_celery_worker_during_a_trial(start: Start, api: Api, home: Path, broker_url: str) -> None:
    runner = start(BROKER_URL=broker_url)
    api.await_call("claim", LIMIT_S)
    api.jobs = [long_job()]
    celery_app(brokers.read(broker_url), "machine.m1").send_task(TASK, queue="machine.m1")
    during_a_trial(api, home)
    runner.send_signal(signal.SIGTERM)
    code, output = ended(runner)
    assert code == 0, output
    assert api.bodies("/fail") == [{"token": 3, "kind": "stopped", "error": "runner is shutting down"}]
    assert marked(home) == []


def test_a_revoked_token_ends_a_celery_worker(start: Start, api: Api, broker_url: str) -> None:
    runner = start(BROKER_URL=broker_url)
    api.await_call("claim", LIMIT_S)
    api.rules = [lambda call: (401, {"error": "unknown token"})]
    celery_app(brokers.read(broker_url), "machine.m1").send_task(TASK, queue="machine.m1")
    code, output = ended(runner)
    assert code == 1 and "does not know this machine's token" in output, output


def test_a_worker_without_its_broker_waits_for_it(start: Start, api: Api) -> None:
    runner = start(BROKER_URL="redis://127.0.0.1:1/0")
    output: list[str] = []
    waiting = threading.Event()

    def read() -> None:
        assert runner.stdout is not None
        for line in runner.stdout:
            output.append(line)
            if "Cannot connect to redis://" in line:
                waiting.set()

    threading.Thread(target=read, daemon=True).start()
    assert waiting.wait(LIMIT_S), output
    until_shown(api, "its broker, which cannot be reached: nothing listens there")
    assert "127.0.0.1" not in json.dumps(api.bodies("beat")), "everybody may read it"
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(LIMIT_S) == 0, output


def test_a_second_runner_of_the_host_waits_before_its_claim_and_logs_the_holder(
    start: Start, api: Api, home: Path, tmp_path: Path
) -> None:
    api.jobs = [long_job(), make_job(run=18, trials=1)]
    first = start("--poll")
    during_a_trial(api, home)
    (tmp_path / "second").mkdir()
    second = start("--once", SPEEDTRACK_RUNNER_HOME=str(tmp_path / "second"))
    assert second.stdout is not None
    waiting = next(line for line in second.stdout if "waiting for core" in line)
    mark = (home / "mark").read_text()
    for word in ("machine m1", f"process {first.pid} on", f"home {home}", f"instance {mark[:12]}", "since 20"):
        assert word in waiting
    assert {body["instance"] for body in api.bodies("claim")} == {mark}, "nothing is leased while it waits"
    words = f"core 0, which is in use or asked for by the runner of machine m1 (process {first.pid})"
    until_shown(api, words)
    assert str(home) not in json.dumps(api.bodies("beat")), "everybody may read it"
    first.kill()
    first.wait()
    code, output = ended(second)
    assert code == 0 and "is free after" in output, output
    assert api.bodies("beat")[-1] == {"unable": "", "waits": "", "ended": "worked once, and found no more work"}
    assert [call.path for call in api.of("/complete")] == ["runs/18/complete"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_a_runner_that_waits_for_cores_can_be_stopped(
    start: Start, api: Api, home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    api.jobs = [long_job(), make_job(run=18, trials=1)]
    start("--poll")
    during_a_trial(api, home)
    (tmp_path / "second").mkdir()
    second = start("--poll", SPEEDTRACK_RUNNER_HOME=str(tmp_path / "second"))
    assert second.stdout is not None
    assert any("waiting for core" in line for line in second.stdout)
    second.send_signal(number)
    assert ended(second)[0] == 0 and len(api.of("claim")) == 1
    why = "was drained, such as for an update" if number == signal.SIGUSR2 else "was stopped"
    assert api.bodies("beat")[-1]["ended"] == why


ALONE = """
import signal
import threading
from runners.processes.signals import on_signals

stopping = threading.Event()
on_signals(stopping.set, signal.SIGTERM)
with stopping._cond:  # as `wait` has it at its begin and end
    signal.raise_signal(signal.SIGTERM)
assert stopping.wait(100)
"""
UNDER_CELERY = """
import signal
import threading
from types import SimpleNamespace
from runners.work.worker import TASK, NudgeSource, celery_app, serve

broker, stopping = SimpleNamespace(settings={"broker_url": "memory://"}), threading.Event()
hangups = [signal.getsignal(signal.SIGHUP)]

def look():
    hangups.append(signal.getsignal(signal.SIGHUP))
    with stopping._cond:
        signal.raise_signal(signal.SIGTERM)
    assert stopping.wait(100)

celery_app(broker, "q").send_task(TASK, queue="q")
serve(look, NudgeSource(broker, "q", print), "m1", stopping)
assert len(set(hangups)) == 1 < len(hangups)
"""


@pytest.mark.parametrize("script", [ALONE, UNDER_CELERY])
def test_a_signal_may_come_while_the_runner_has_the_lock_of_its_stop_event(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=LIMIT_S)
