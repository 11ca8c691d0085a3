"""A process is killed at each place between the steps of a run; whoever comes after it finishes the work once.

The order of the places is random: SPEEDTRACK_SEED repeats it.
"""

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now

from runners import failpoints as places_of_runner
from runners.tests.broker_servers import Valkey
from speedtrack.ground.observing import failpoints as places_of_server
from speedtrack.notices.models import Outbox
from speedtrack.processes import devstack
from speedtrack.projects.models import Delivery
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import MachineEvent, Run, Series
from speedtrack.runs.planning import pushes
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import byhand, tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository
from speedtrack.tests.installation import Installation, server_environment
from speedtrack.tests.real_system import (
    SUITE,
    System,
    all_done,
    check_truth,
    fsck_faults,
    left_over,
    one_machine,
    write_history,
)

VARIABLE, OF_RUNNER = "SPEEDTRACK_FAILPOINT", "SPEEDTRACK_RUNNER_FAILPOINT"
SEED = os.environ.get("SPEEDTRACK_SEED", "") or str(random.randrange(10**6))
BROKEN = 5  # the commit of the sample server that does not compile


def shuffled(places: list[str]) -> list[str]:
    print(f"SPEEDTRACK_SEED={SEED}")  # pytest shows it if the test fails
    return random.Random(SEED).sample(places, len(places))


@pytest.mark.parametrize("room", ["runners", "speedtrack"])
def test_every_place_that_can_be_named_is_in_the_code(room: str) -> None:
    known = places_of_runner.PLACES if room == "runners" else places_of_server.PLACES
    sources = [file.read_text() for file in (devstack.BASE_DIR / room).rglob("*.py") if "tests" not in file.parts]
    reached = set(re.findall(r'failpoints\.reach\(f?"([^"]+)"\)', "\n".join(sources)))
    patterns = [re.compile(re.sub(r"\\{.+?\\}", r"\\w+", re.escape(one))) for one in reached]
    assert [place for place in known if not any(one.fullmatch(place) for one in patterns)] == []
    assert [one.pattern for one in patterns if not any(one.fullmatch(place) for place in known)] == []


@pytest.mark.parametrize("text", ["complete.sent", "nowhere:kill", "complete.sent:explode", "complete.sent:kill:0"])
def test_what_is_no_place_stops_the_start_of_a_runner(text: str, tmp_path: Path) -> None:
    environment = {**os.environ, OF_RUNNER: text, "SPEEDTRACK_RUNNER_HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "runners", "--once"]
    done = subprocess.run(argv, cwd=devstack.BASE_DIR, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"{OF_RUNNER} is {text!r}: leave it unset" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["complete.before_commit", "nowhere:kill", "claim.after_commit:kill:x"])
def test_what_is_no_place_is_no_setting_of_the_server(text: str) -> None:
    with pytest.raises(places_of_server.ImproperlyConfigured, match=f"{VARIABLE} is .*: leave it unset"):
        places_of_server.arm({VARIABLE: text})


def test_a_place_is_passed_as_often_as_is_said() -> None:
    point = places_of_server.points.parse("complete.after_commit:stop:3")
    point.action = signal.SIGCONT  # harmless
    for _ in range(5):
        point.passed()
    assert point.passages == -2


# -- the runner ------------------------------------------------------------------------------------------------------


@pytest.fixture
def system(live_server: Any, tmp_path: Path, settings: Any, broker: Valkey) -> Iterator[System]:
    with one_machine(tmp_path, live_server.url, settings, broker) as system:
        yield system


def again(system: System, expression: str = "main") -> None:
    """Queue a commit by hand: what it builds is in the store, so that this costs little."""
    assert byhand.queue_by_hand(byhand.choose(system.project.slug, expression, [], None)) == 1


def die_at(system: System, place: str) -> None:
    system.start_runner(**{OF_RUNNER: f"{place}:kill"})
    runner = system.runner
    system.until(lambda: runner.poll() is not None)
    assert runner.returncode == -signal.SIGKILL, f"{place}: {(system.home / 'runner.log').read_text()[-3000:]}"


@pytest.mark.timeout(1800)
@pytest.mark.django_db(transaction=True)
def test_a_runner_that_dies_at_any_place_leaves_work_that_is_done_once(system: System) -> None:
    ordinary = [p for p in places_of_runner.PLACES if p.partition(".")[0] not in ("fail", "profile")]
    for place in shuffled(ordinary):
        if all_done():
            again(system)
        die_at(system, place)
        system.start_runner()
        system.until(all_done)
        system.until(lambda: left_over(system.home) == [])
        system.stop_runner()
    check_truth()
    assert Run.objects.count() == len(ordinary)
    assert not Run.objects.exclude(attempts__outcome="succeeded").exists()


@pytest.mark.timeout(1800)
@pytest.mark.django_db(transaction=True)
def test_a_runner_that_dies_while_it_reports_a_failure_reports_it_once(system: System) -> None:
    write_history(system.repository, BROKEN)
    pushes.sync_and_plan(system.project)
    Run.objects.exclude(commit__positions__number=BROKEN - 1).delete()
    run = Run.objects.get()
    for place in shuffled([p for p in places_of_runner.PLACES if p.startswith("fail.")]):
        if run.done:
            queue.retry(run, "by hand")
        die_at(system, place)
        system.start_runner()
        system.until(all_done)
        system.until(lambda: left_over(system.home) == [])
        system.stop_runner()
        run.refresh_from_db()
        assert run.status == "failed" and "build failed" in run.error, place
    assert run.attempts.filter(outcome="failed").count() == 3
    assert fsck_faults() == []


# -- the server ------------------------------------------------------------------------------------------------------


@pytest.fixture
def servers(tmp_path: Path, settings: Any, broker_url: str) -> Iterator[Installation]:
    """The server's processes and a runner, none of which is started yet."""
    builders.use_suite(settings, tmp_path / "suites", SUITE)
    settings.MIRRORS = tmp_path / "mirrors"
    environment = server_environment(tmp_path, broker_url, LEASE_S="30", MAX_ATTEMPTS="9", POLL_EVERY_S="3600")
    servers = Installation(tmp_path, dict(environment), commands={"runner": ["-m", "runners"]})
    servers.own["runner"] = {
        "SPEEDTRACK_URL": servers.url,
        "SPEEDTRACK_TOKEN": registering.add_machine("m1"),
        "SPEEDTRACK_RUNNER_HOME": str(tmp_path / "runner"),
        "SPEEDTRACK_PATIENCE_S": "1",
    }
    try:
        yield servers
    finally:
        servers.stop()


@pytest.mark.timeout(1800)
@pytest.mark.django_db(transaction=True)
def test_a_web_server_that_dies_at_any_place_leaves_work_that_is_done_once(
    servers: Installation, tmp_path: Path
) -> None:
    """Before it commits, nothing has happened; after that, the runner has no answer and asks again."""
    write_history(tmp_path / "kvd", 2)
    project = tracking.track(TrackingRequest(str(tmp_path / "kvd"), "tiny", last=0)).project
    servers.start_web()
    servers.start("runner", "dispatcher")
    ordinary = [
        f"{call}.{stage}"
        for call in ("claim", "build", "measurement", "complete")
        for stage in ("before_commit", "after_commit")
    ]
    for place in shuffled(ordinary):
        servers.stop("web")
        servers.start_web(**{VARIABLE: f"{place}:kill"})
        assert byhand.queue_by_hand(byhand.choose(project.slug, "main", [], None)) == 1
        servers.until(lambda: servers.is_dead("web"), f"it dies: {place}")
        servers.start_web()
        servers.until(all_done, f"all is done after its death: {place}")
    check_truth()
    assert Run.objects.count() == len(ordinary)
    servers.until(lambda: left_over(tmp_path) == [], "nothing is left")


@pytest.mark.timeout(1800)
@pytest.mark.django_db(transaction=True)
def test_a_web_server_that_dies_while_it_takes_a_failure_ends_the_run_once(
    servers: Installation, tmp_path: Path
) -> None:
    write_history(tmp_path / "kvd", BROKEN)
    tracking.track(TrackingRequest(str(tmp_path / "kvd"), "tiny", last=1))
    run = Run.objects.get()
    servers.start("runner", "dispatcher")
    for place in shuffled(["fail.before_commit", "fail.after_commit"]):
        servers.start_web(**{VARIABLE: f"{place}:kill"})
        if run.done:
            queue.retry(run, "by hand")
        servers.until(lambda: servers.is_dead("web"), f"it dies: {place}")
        servers.start_web()
        servers.until(all_done, f"all is done after its death: {place}")
        servers.stop("web")
        run.refresh_from_db()
        assert run.status == "failed" and "build failed" in run.error, place
    assert run.attempts.filter(outcome="failed").count() == 2
    assert fsck_faults() == []


@pytest.mark.parametrize("place", ["sync.before_commit", "sync.after_commit"])
@pytest.mark.django_db(transaction=True)
def test_a_look_that_dies_is_made_again(servers: Installation, tmp_path: Path, place: str) -> None:
    repository = Repository(tmp_path / "kvd")
    repository.commits(1)
    project = builders.track(repository, last=0).project
    new = repository.commits(3)
    Delivery.objects.create(
        project=project,
        provider="github",
        delivery_id="1",
        event="push",
        headers={},
        packed_body=b"",
        body_digest="1",
    )
    servers.start("dispatcher")
    servers.start("git", **{VARIABLE: f"{place}:kill"})
    servers.until(lambda: servers.is_dead("git"), "it dies")
    assert Run.objects.count() == (0 if place == "sync.before_commit" else 3)
    assert Delivery.objects.get().status == "received"
    servers.start("git")
    servers.until(lambda: Delivery.objects.get().status == "processed", "another one has looked")
    assert sorted(Run.objects.values_list("commit__sha", flat=True)) == sorted(new)
    assert fsck_faults() == []


@pytest.mark.parametrize("place", ["detect.before_commit", "confirm.before_commit"])
@pytest.mark.django_db(transaction=True)
def test_decisions_that_die_are_made_again(servers: Installation, tmp_path: Path, place: str) -> None:
    repository = Repository(tmp_path / "kvd")
    repository.commits(12)
    builders.use_suite(type("Unset", (), {})(), tmp_path / "suites")
    builders.track(repository, last=12)
    machine = builders.Machine.objects.get()
    builders.work(machine, lambda sha, benchmark, trial: 5000.0 + 7 * trial)
    servers.start("dispatcher")
    servers.start("worker", **{VARIABLE: f"{place}:kill"})
    servers.until(lambda: "signal 9" in servers.log("worker").read_text(), "a process of the worker dies")
    assert Series.objects.undetected().exists() == (place == "detect.before_commit")
    servers.stop("worker")
    servers.start("worker")
    servers.until(lambda: not Series.objects.undetected().exists(), "another one has looked")
    assert fsck_faults() == []


@pytest.mark.django_db(transaction=True)
def test_a_sender_that_dies_before_it_notes_a_mail_sends_it_once_more_under_the_same_number(
    servers: Installation, tmp_path: Path
) -> None:
    """Whether the mail server has it nobody can know; readers see one mail, as both have one Message-ID."""
    machine = builders.Machine.objects.get()
    MachineEvent.objects.create(machine=machine, kind=MachineEvent.Kind.LIFTED, why="by hand", untold=True)
    servers.start("dispatcher")
    servers.start("notify", **{VARIABLE: "send.sent:kill"})
    servers.until(lambda: servers.is_dead("notify"), "it dies")
    row = Outbox.objects.get()
    assert row.sent_at is None and row.attempts == 1
    assert not Outbox.objects.due().exists(), "whoever follows waits, as the first one may be at it still"
    servers.start("notify")
    Outbox.objects.update(not_before=Now())
    servers.until(lambda: Outbox.objects.filter(sent_at__isnull=False).exists(), "another one has sent it")
    assert Outbox.objects.get().attempts == 2
    assert len(list((tmp_path / "mail").iterdir())) == 1  # files are named by Message-ID
