"""Recorded traffic as a benchmark: played by a real runner against two commits, drawn, and repeated by hand."""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from speedtrack.processes.devstack import BASE_DIR
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Result, Run, Status
from speedtrack.runs.requests import byhand, tracking
from speedtrack.tests.test_reproduce import DRIVER, program

FILE = "shop/monday.monitor"
BENCHMARK = """
[[benchmark]]
name = "production"
why = "what the shop sent on a Monday"
workload.mode = "replay"
workload.requests = 5000
workload.clients = 20
workload.replay = {{ file = "{file}", digest = "{digest}", speed = "fast" }}
"""


def record(file: Path) -> str:
    """Writes MONITOR's output, nine GETs to a SET; returns its digest."""
    commands = ('"SET" "item:{}" "of some use"', *['"GET" "item:{}"'] * 9)
    lines = (
        f"{1_700_000_000 + number / 5_000:.6f} [0 10.0.0.1:{4000 + number % 30}] {command.format(number % 77)}\n"
        for number, command in enumerate(commands * 600)
    )
    file.parent.mkdir(parents=True)
    file.write_text("".join(lines))
    return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def repository(tmp_path: Path, settings: Any) -> Path:
    """The sample's first commits, tracked with a suite that plays a recording of this machine."""
    settings.MIRRORS, settings.SUITES = tmp_path / "mirrors", tmp_path / "suites"
    head, *_ = (BASE_DIR / "suites" / "sample.toml").read_text().partition("[[benchmark]]")
    settings.SUITES.mkdir()
    digest = record(tmp_path / "recordings" / FILE)
    (settings.SUITES / "sample.toml").write_text(head + BENCHMARK.format(file=FILE, digest=digest))
    repository = tmp_path / "kvd"
    written = program(
        tmp_path, sys.executable, "-m", "runners.sample", str(repository), "--upto", "2", PYTHONPATH=str(BASE_DIR)
    )
    assert written.returncode == 0, written.stderr
    tracking.track(tracking.TrackingRequest(str(repository), "sample", last=0))
    return repository


def work(tmp_path: Path, url: str, token: str, recordings: Path) -> str:
    """Lets a runner work once; returns what it printed."""
    done = program(
        tmp_path,
        sys.executable,
        "-m",
        "runners",
        "--once",
        PYTHONPATH=str(BASE_DIR),
        SPEEDTRACK_URL=url,
        SPEEDTRACK_TOKEN=token,
        SPEEDTRACK_DRIVER=str(DRIVER),
        SPEEDTRACK_RUNNER_HOME=str(tmp_path / "runner"),
        SPEEDTRACK_RECORDINGS=str(recordings),
        SPEEDTRACK_ALLOW_SHARED_CORES="1",
        SPEEDTRACK_PATIENCE_S="1",  # a machine that runs tests is never quiet
        SPEEDTRACK_LOCK_DIR=os.environ["SPEEDTRACK_LOCK_DIR"],
    )
    return done.stderr


def test_recorded_traffic_is_a_line_of_a_project(
    live_server: Any, client: Client, tmp_path: Path, repository: Path
) -> None:
    token = registering.add_machine("m1")
    for commit in ("HEAD~1", "HEAD"):
        byhand.queue_by_hand(byhand.choose("kvd", commit, [], None))
    said = work(tmp_path, live_server.url, token, tmp_path / "recordings")
    assert [run.status for run in Run.objects.all()] == [Status.SUCCEEDED] * 2, said

    line = "/p/kvd/timeline/production/throughput_rps"
    assert "recorded traffic, 20 connections" in client.get(line).content.decode()
    (drawn,) = client.get(f"{line}.json").json()["lines"]
    assert len(drawn["value"]) == 2 and min(drawn["value"]) > 0
    results = list(Result.objects.order_by("pk"))
    sent = [trial["driver"]["tests"][0]["replay"]["sent"] for result in results for trial in result.unpacked()]
    assert len(results) == 2 and set(sent) == {5000}

    run = Run.objects.order_by("pk").last()
    assert run is not None
    script = client.get(f"/runs/{run.pk}/reproduce.sh?benchmark=production&side=head").content.decode()
    (tmp_path / "reproduce.sh").write_text(script)
    by_hand = program(
        tmp_path, "bash", "reproduce.sh", SPEEDBENCH=str(DRIVER), RECORDINGS="recordings", TMPDIR=str(tmp_path)
    )
    assert by_hand.returncode == 0, by_hand.stderr
    assert json.loads(by_hand.stdout)["tests"][0]["replay"]["sent"] == 5000


def test_a_machine_without_the_recording_says_so(
    live_server: Any, client: Client, tmp_path: Path, repository: Path
) -> None:
    token = registering.add_machine("m1")
    byhand.queue_by_hand(byhand.choose("kvd", "HEAD", [], None))
    (tmp_path / "empty").mkdir()
    work(tmp_path, live_server.url, token, tmp_path / "empty")
    run = Run.objects.get()
    assert run.status == Status.FAILED and not Result.objects.exists()
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert f"the recording {FILE} cannot be read on this machine" in page and "set SPEEDTRACK_RECORDINGS" in page
