"""The process of streams as it is served: what viewers are sent, after a break too, and who is refused."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db import connection

from runners.tests.ports import free_port
from speedtrack.accounts import members
from speedtrack.accounts.models import Role
from speedtrack.processes import devstack
from speedtrack.processes.live.__main__ import MORE_CONNECTIONS
from speedtrack.runs import tickets
from speedtrack.runs.documents import LogPiece, Renewal, ReportedProgress
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.queue import queue
from speedtrack.tests import builders
from speedtrack.tests.installation import database_url
from speedtrack.tests.test_webserver import wait_for

PATIENCE_S = 60


@dataclass
class Live:
    """A process of streams on the test's database."""

    port: int
    settings: dict[str, str] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Live":
        command = [sys.executable, *devstack.PROCESSES["live"], "--bind", f"127.0.0.1:{self.port}", *self.options]
        self.process = subprocess.Popen(command, cwd=devstack.BASE_DIR, env=os.environ | environment() | self.settings)
        wait_for(self.port)
        return self

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


def environment() -> dict[str, str]:
    """The settings of this test for another process."""
    return {
        "DATABASE_URL": database_url(),
        "SPEEDTRACK_URL": django_settings.URL,
        "SECRET_KEY": django_settings.SECRET_KEY,
    }


@pytest.fixture(scope="module")
def served(django_db_setup: None) -> Iterator[Live]:
    made = Live(free_port()).start()
    yield made
    made.kill()


@pytest.fixture
def live(transactional_db: None, served: Live) -> Live:
    """The process that the tests of this file share, started again if a test has ended it."""
    if served.process is None or served.process.poll() is not None:
        served.start()
    return served


@pytest.fixture
def run(transactional_db: None, settings: Any, tmp_path: Any) -> Run:
    """A run that its runner has claimed."""
    settings.CANARY_AUTO = False
    builders.use_suite(settings, tmp_path / "suites")
    repository = builders.Repository(tmp_path / "repository")
    repository.commits(1)
    machine = builders.machine("m1")
    builders.track(repository)
    return builders.claim(machine)


@dataclass
class Event:
    kind: str
    id: str
    data: Any


class Stream:
    """A viewer."""

    def __init__(self, live: Live, path: str, **headers: str) -> None:
        self.http = httpx.Client(timeout=PATIENCE_S)
        request = self.http.build_request("GET", live.url + path, headers=headers)
        self.answer = self.http.send(request, stream=True)
        self.lines = self.answer.iter_lines()
        self.comments: list[str] = []

    def next(self, kind: str = "") -> Event:
        """The next event, of this kind."""
        fields: dict[str, str] = {}
        for line in self.lines:
            if line.startswith(":"):
                self.comments.append(line)
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                found = Event(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
                if kind in ("", found.kind):
                    return found
                fields = {}
            else:
                fields = {}
        raise EOFError("the stream has ended")

    def texts(self) -> list[tuple[int, str]]:
        """The lines of the next part of a log."""
        return [(number, "".join(text for text, _ in spans)) for number, spans, _ in self.next("log").data["lines"]]

    def close(self) -> None:
        self.answer.close()
        self.http.close()


def send(run: Run, seq: int, text: str, phase: str = "measure") -> None:
    queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=seq, phase=phase, text=text))


def report(run: Run, done: int, now: str = "get-p1, trial 1") -> None:
    progress = ReportedProgress(done=done, total=10, now=now)
    queue.renew(run.machine, run.pk, Renewal(token=run.lease_token, progress=progress))


def end(run: Run) -> None:
    """Cancel it, and let its runner hear of that."""
    queue.cancel(run, "no longer wanted")
    queue.renew(run.machine, run.pk, Renewal(token=run.lease_token))


def test_lines_come_as_they_are_written_and_the_stream_ends_with_its_run(live: Live, run: Run) -> None:
    send(run, 0, "one\ntw")
    stream = Stream(live, f"/live/runs/{run.pk}")
    assert stream.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.answer.headers["x-accel-buffering"] == "no"
    assert stream.texts() == [(1, "one"), (2, "tw")]
    send(run, 1, "o\n\x1b[31mthree\n")
    event = stream.next("log")
    assert event.id == "4"
    assert [line[0] for line in event.data["lines"]] == [2, 3]
    assert event.data["lines"][1][1] == [["three", "red"]]
    end(run)
    while not stream.next("state").data["done"]:
        pass
    with pytest.raises(EOFError):
        stream.next()


def test_after_a_break_the_lines_that_lack_are_sent(live: Live, run: Run) -> None:
    send(run, 0, "one\ntwo\n")
    stream = Stream(live, f"/live/runs/{run.pk}")
    last = stream.next("log").id
    live.kill()
    with pytest.raises((httpx.HTTPError, EOFError)):
        stream.next("never")
    send(run, 1, "three\n")
    live.start()
    assert Stream(live, f"/live/runs/{run.pk}", **{"Last-Event-ID": last}).texts() == [(3, "three")]
    assert Stream(live, f"/live/runs/{run.pk}?at={last}").texts() == [(3, "three")]


def test_progress_is_told_and_the_queue_moves(live: Live, run: Run) -> None:
    of_run, of_queue = Stream(live, f"/live/runs/{run.pk}"), Stream(live, "/live/queue")
    before = of_queue.next("state").data["version"]
    of_run.next("state")
    report(run, 3)
    for stream in (of_run, of_queue):
        while not (found := stream.next("state").data["progress"].get(str(run.pk), {})).get("done"):
            pass
        assert (found["percent"], found["now"]) == (30, "get-p1, trial 1")
    again = Stream(live, "/live/queue").next("state")
    assert again.data["version"] != before and again.id == again.data["version"]
    machine = Machine.objects.get()
    known = Stream(live, "/live/queue", **{"Last-Event-ID": again.id})
    machine.paused = True
    machine.save()
    assert known.next("state").data["version"] not in (before, again.id), "what the viewer has is not sent again"


def test_a_run_that_is_deleted_ends_its_stream_and_no_other(live: Live, run: Run) -> None:
    send(run, 0, "one\n")
    of_run, of_queue = Stream(live, f"/live/runs/{run.pk}"), Stream(live, "/live/queue")
    assert of_run.texts() == [(1, "one")]
    before = of_queue.next("state").data["version"]
    Run.objects.filter(pk=run.pk).delete()
    with pytest.raises(EOFError):
        of_run.next("never")
    assert httpx.get(f"{live.url}/live/runs/{run.pk}", timeout=60).status_code == 404
    Machine.objects.update(paused=True)
    assert of_queue.next("state").data["version"] != before


def test_who_is_no_longer_a_member_of_a_private_project_is_disconnected(live: Live, run: Run) -> None:
    rita, eve = User.objects.create_user("rita"), User.objects.create_user("eve")
    members.show_to(run.project, everybody=False)
    for user in (rita, eve):
        members.give_role(run.project, user, Role.READER)
    streams = [Stream(live, f"/live/runs/{run.pk}/{tickets.ticket_for(user.pk, run.pk)}") for user in (rita, eve)]
    for stream in streams:
        stream.next("state")
    members.remove(run.project, rita)
    with pytest.raises(EOFError):
        streams[0].next("log")
    send(run, 1, "on\n")
    assert streams[1].texts() == [(1, "on")]
    for stream in streams:
        stream.close()


def test_a_viewer_far_behind_gets_the_end_of_the_log(live: Live, run: Run) -> None:
    send(run, 0, "".join(f"{n}\n" for n in range(1, 3001)))
    texts = Stream(live, f"/live/runs/{run.pk}").texts()
    assert (texts[0], texts[-1], len(texts)) == ((2501, "2501"), (3000, "3000"), 500)


def test_an_ended_run_has_a_stream_that_ends(live: Live, run: Run) -> None:
    send(run, 0, "one\n")
    end(run)
    stream = Stream(live, f"/live/runs/{run.pk}?at=2")
    assert stream.next().data["done"] is True
    with pytest.raises(EOFError):
        stream.next()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/live/runs/77", {}, 404),
        ("/live/runs/0", {}, 404),
        ("/live/runs/99999999999999999999", {}, 404),
        ("/live/runs/1%00", {}, 404),
        ("/live/../queue", {}, 404),
        ("/", {}, 404),
        ("/live/queue", {"Host": "evil.example"}, 400),
        ("/live/queue", {"Host": ""}, 400),
        ("/live/healthz", {}, 200),
    ],
)
def test_what_is_no_stream_is_refused(live: Live, path: str, headers: dict[str, str], status: int) -> None:
    answer = httpx.get(live.url + path, headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert httpx.post(f"{live.url}/live/queue", content=b"x", timeout=60).status_code == 405


def test_only_pages_of_the_web_server_may_read(live: Live, settings: Any) -> None:
    def allowed(origin: str) -> str | None:
        return httpx.get(f"{live.url}/live/healthz", headers={"Origin": origin}, timeout=60).headers.get(
            "access-control-allow-origin"
        )

    own = django_settings.URL
    assert allowed(own) == own
    assert allowed(own.replace("127.0.0.1", "localhost")) == own.replace("127.0.0.1", "localhost")
    for other in ("https://evil.example", "null", "http://127.0.0.1:1", f"{own}.evil.example", "http://[", ""):
        assert allowed(other) is None


def test_half_requests_and_viewers_that_read_nothing_disturb_nobody(live: Live, run: Run) -> None:
    clients = []
    for number in range(120):
        client = socket.create_connection(("127.0.0.1", live.port))
        head = f"GET /live/runs/{run.pk} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        client.sendall((head + ("\r\n" if number % 2 else "X-Half: ")).encode())
        clients.append(client)
    stream = Stream(live, f"/live/runs/{run.pk}")
    send(run, 0, "one\n")
    assert stream.texts() == [(1, "one")]
    for client in clients:
        client.close()


def test_it_ends_at_once_when_it_is_told_to(live: Live, run: Run) -> None:
    stream = Stream(live, "/live/queue")
    stream.next("state")
    assert live.process
    live.process.terminate()
    assert live.process.wait(PATIENCE_S) is not None
    with contextlib.suppress(httpx.HTTPError, EOFError):
        stream.next()


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, *devstack.PROCESSES["live"], "--bind", bind]
        done = subprocess.run(command, cwd=devstack.BASE_DIR, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"error: {bind} cannot be served here" in done.stderr and "--bind" in done.stderr
    assert "Traceback" not in done.stderr


def test_while_the_database_is_away_viewers_stay(live: Live, run: Run) -> None:
    stream = Stream(live, f"/live/runs/{run.pk}")
    stream.next("state")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    send(run, 0, "one\n")
    assert stream.texts() == [(1, "one")]


SHARE = 20


@pytest.fixture
def shared(transactional_db: None) -> Iterator[Live]:
    made = Live(free_port(), options=["--per-address", str(SHARE)]).start()
    yield made
    made.kill()


def watch_from(live: Live, address: str, sent: str = "\r\n", name: str = "127.0.0.1") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", live.port), 20, source_address=(address, 0))
    client.sendall(f"GET /live/queue HTTP/1.1\r\nHost: {name}\r\n{sent}".encode())
    return client


def status_of(client: socket.socket) -> int:
    return int(client.recv(1000).split()[1])


def test_no_address_takes_the_places_of_all_viewers(shared: Live) -> None:
    viewers = [watch_from(shared, "127.0.0.1") for _ in range(3 * SHARE)]
    assert [status_of(viewer) for viewer in viewers] == [200] * SHARE + [429] * (2 * SHARE)
    assert status_of(watch_from(shared, "127.0.0.2")) == 200
    for viewer in viewers:
        viewer.close()
    deadline = time.monotonic() + PATIENCE_S
    while status_of(watch_from(shared, "127.0.0.1")) != 200:
        assert time.monotonic() < deadline


def test_half_requests_of_one_address_leave_places_and_end(shared: Live) -> None:
    most = SHARE + MORE_CONNECTIONS
    halves = [watch_from(shared, "127.0.0.1", "X-Half: ") for _ in range(most)]
    beyond = watch_from(shared, "127.0.0.1", "X-Half: ")
    assert b"429" in beyond.recv(1000)
    assert status_of(watch_from(shared, "127.0.0.2")) == 200
    halves[0].settimeout(PATIENCE_S)
    assert halves[0].recv(1) == b""  # within the time that a test waits
    assert status_of(watch_from(shared, "127.0.0.1")) == 200


def test_behind_a_proxy_the_share_is_that_of_the_viewer_it_names(transactional_db: None) -> None:
    made = Live(free_port(), {"BEHIND_TLS_PROXY": "true"}, ["--per-address", str(SHARE)]).start()
    try:
        of = "X-Forwarded-For: 192.0.2.9, %s\r\n\r\n"
        viewers = [watch_from(made, "127.0.0.1", of % f"2001:db8::{n:x}") for n in range(SHARE)]
        assert {status_of(viewer) for viewer in viewers} == {200}
        assert status_of(watch_from(made, "127.0.0.1", of % "2001:db8::ffff")) == 429
        assert status_of(watch_from(made, "127.0.0.1", of % "192.0.2.9")) == 200
        unnamed = [watch_from(made, "127.0.0.1") for _ in range(SHARE + 1)]
        assert {status_of(viewer) for viewer in unnamed} == {200}, "the proxy is not a viewer"
    finally:
        made.kill()


def test_a_viewer_hears_every_few_seconds_that_the_database_is_looked_at(live: Live) -> None:
    stream = Stream(live, "/live/queue")
    stream.next("ping")
    begun = time.monotonic()
    stream.next("ping")
    assert time.monotonic() - begun < 7
