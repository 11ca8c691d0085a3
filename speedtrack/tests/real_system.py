"""The whole system with real processes, for tests that kill, suspend or restart them."""

import contextlib
import hashlib
import hmac
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import psutil
from celery import Celery

from runners.tests.broker_servers import Valkey
from speedtrack.celery import BROKER_TRANSPORT, app
from speedtrack.processes import devstack, dispatch
from speedtrack.projects.models import Project
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Measurement, Result, Run
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.tasks.git import sync
from speedtrack.tests import builders
from speedtrack.upkeep import fsck

PATIENCE_S = 400
SUITE = """
name = "tiny"
trials = 5
most_trials = 6
[build]
command = "make -j{cores}"
artifacts = ["kvd"]
[server]
command = "{artifact:kvd} --bind 127.0.0.1 --port {port} --unixsocket {socket}"
protocol = "resp"
[[benchmark]]
name = "get-p16"
why = "short"
[benchmark.workload]
expect = { hit_rate = 1.0 }
test = "get"
clients = 5
pipeline = 16
keys = { count = 1000 }
values = { bytes = 16 }
prefill = true
warmup_s = 0.05
duration_s = 0.3
"""
KEYS, MOST_TRIALS = 1000, 6  # as the suite says


@dataclass
class System:
    """A tracked copy of the sample server's history, a broker, and one runner process that may be killed."""

    home: Path
    url: str
    broker: Valkey
    repository: Path
    project: Project
    token: str
    runner: "subprocess.Popen[bytes] | None" = None

    @property
    def broker_url(self) -> str:
        return self.broker.url

    def restart_broker(self) -> None:
        """End the broker, and start it again: it stores nothing, so it is empty."""
        self.broker.stop()
        self.broker.start()

    @cached_property
    def question(self) -> str:
        """The dispatcher's statement. It is built once, as building it takes ten times as long as executing it."""
        return dispatch.build_question()

    @cached_property
    def celery(self) -> Celery:
        celery = Celery("test", broker=self.broker_url)
        celery.conf.update(
            broker_transport_options=BROKER_TRANSPORT,
            task_queues=app.conf.task_queues,
            task_default_queue=app.conf.task_default_queue,
        )
        return celery

    def start_runner(self, **changes: str) -> None:
        environment = {
            **os.environ,
            "SPEEDTRACK_URL": self.url,
            "SPEEDTRACK_TOKEN": self.token,
            "SPEEDTRACK_RUNNER_HOME": str(self.home / "runner"),
            "BROKER_URL": self.broker_url,
            "SPEEDTRACK_PATIENCE_S": "1",
            **changes,
        }
        with (self.home / "runner.log").open("ab") as log:
            self.runner = subprocess.Popen(
                [sys.executable, "-m", "runners"],
                cwd=devstack.BASE_DIR,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop_runner(self) -> None:
        if self.runner:
            self.runner.terminate()
            self.runner.wait(300)
            self.runner = None

    def kill_runner(self) -> None:
        assert self.runner is not None
        self.runner.kill()
        self.runner.wait()

    @property
    def runner_home(self) -> Path:
        return self.home / "runner"

    def at(self, stage: Callable[["System"], bool]) -> None:
        """Return as soon as the runner's work is at this stage."""
        self.until(lambda: Run.objects.active().exists())
        deadline = time.monotonic() + PATIENCE_S
        while not stage(self):
            assert time.monotonic() < deadline, (self.home / "runner.log").read_text()[-3000:]
            time.sleep(0.002)

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Suspend the runner and all processes that it has started, as a suspended machine does."""
        assert self.runner is not None
        processes = [psutil.Process(self.runner.pid), *marked(self.home)]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def catch(self, stage: Callable[["System"], bool]) -> None:
        """Kill the runner at this stage of its work, so that it cannot clean up, and start another one."""
        self.at(stage)
        self.kill_runner()
        self.start_runner()

    def push(self, commits: int) -> None:
        """Add commits to the repository and send the webhook that tells of them."""
        write_history(self.repository, commits)
        body = b'{"ref": "refs/heads/main"}'
        signature = hmac.new(self.project.hook_secret.reveal().encode(), body, hashlib.sha256).hexdigest()
        answer = httpx.post(
            f"{self.url}/hooks/{self.project.hook_id}",
            content=body,
            headers={"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "push", "X-GitHub-Delivery": "1"},
            timeout=60,
        )
        assert answer.status_code == 202

    def until(self, reached: Callable[[], bool]) -> None:
        """Play dispatcher and worker until something is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < deadline, (self.home / "runner.log").read_text()[-3000:]
            sync()
            dispatch.tick(self.celery, self.question)
            time.sleep(dispatch.REST_S)


@contextlib.contextmanager
def one_machine(
    home: Path, url: str, settings: Any, broker: Valkey, suite: str = SUITE, commits: int = 2, last: int = 1
) -> Iterator[System]:
    """The server in this process, ``last`` of the ``commits`` to be measured, and no runner yet.

    What runs at the end is asked to stop.
    """
    builders.use_suite(settings, home / "suites", suite)
    settings.LEASE_S, settings.MAX_ATTEMPTS = 30, 9
    write_history(home / "kvd", commits)
    token = registering.add_machine("m1")
    project = tracking.track(TrackingRequest(str(home / "kvd"), "tiny", last=last)).project
    system = System(home, url, broker, home / "kvd", project, token)
    try:
        yield system
    finally:
        system.stop_runner()


def write_history(repository: Path, commits: int) -> None:
    subprocess.run(
        [sys.executable, "-m", "runners.sample", str(repository), "--upto", str(commits)],
        cwd=devstack.BASE_DIR,
        check=True,
        capture_output=True,
    )


def marked(home: Path) -> list[psutil.Process]:
    """Running processes that the runner of this home has started, by its mark in their environment."""
    mark = (home / "runner" / "mark").read_text().strip()
    return [
        process
        for process in psutil.process_iter(["environ", "cmdline", "status"])
        if (process.info["environ"] or {}).get("SPEEDTRACK_MARK", "").startswith(mark)
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def strays(home: Path) -> list[str]:
    return [" ".join(process.info["cmdline"] or []) for process in marked(home)]


def left_over(home: Path) -> list[str]:
    """What is left of trials: processes, directories, sockets, unsent results. Nothing while the runner is idle."""
    runner = home / "runner"
    mark = (runner / "mark").read_text()[:8]
    listings = [
        runner.glob("trial-*"),
        (runner / "spool").iterdir(),
        (runner / "processes").iterdir(),
        Path("/tmp").glob(f"speedtrack-*-{mark}/*"),  # noqa: S108
    ]
    return strays(home) + [str(path) for listing in listings for path in listing]


def keys_in(socket_path: Path) -> int:
    """The number of keys in a trial's server; -1 while no server answers."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(socket_path))
            connection.sendall(b"*1\r\n$6\r\nDBSIZE\r\n")
            return int(connection.recv(100)[1:])
    except (OSError, ValueError):
        return -1


def all_done() -> bool:
    return Run.objects.exists() and not Run.objects.unfinished().exists()


def check_truth() -> None:
    """Every run has succeeded, charts see each of its trials exactly once, and rows fit each other and git."""
    for run in Run.objects.all():
        assert run.status == "succeeded", run.error
        accepted = Measurement.objects.filter(attempt__run=run, accepted=True)
        assert accepted.values("attempt").distinct().count() == 1
        for result in Result.objects.filter(attempt__in=accepted.values("attempt")):
            assert run.trials <= result.stopping["trials"] <= MOST_TRIALS
            numbers = list(range(result.stopping["trials"]))
            measurements = accepted.filter(series__benchmark=result.benchmark, side=result.side)
            assert measurements.exists()
            assert all(list(measurement.samples.by_trial) == numbers for measurement in measurements)
    faults = fsck_faults()
    assert faults == [], faults


def fsck_faults() -> list[str]:
    """What ``manage.py fsck`` finds."""
    return [f"{name}: {fault}" for name, check in fsck.checks().items() for fault in check.find(check)]
