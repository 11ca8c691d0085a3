"""The web server as it is served: slow clients, bodies beyond the limits, and the end."""

import contextlib
import gc
import hashlib
import hmac
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
import waitress
from django.db import connection, transaction

from runners.tests.ports import free_port
from speedtrack.api.tests.conftest import CLAIM
from speedtrack.ground.secrets.sealed import Secret
from speedtrack.http import webserver
from speedtrack.http.webserver import LINE, RESTING_S, THREADS
from speedtrack.processes import devstack
from speedtrack.projects.models import Delivery, Project
from speedtrack.runs.fleet import registering
from speedtrack.tests.installation import server_environment

SLOW_CLIENTS = 201
LINES = "Host: 127.0.0.1\r\nConnection: keep-alive\r\n"
HALF_HEADER = f"GET / HTTP/1.1\r\n{LINES}X-Half: "
HALF_BODY = f"POST /hooks/none HTTP/1.1\r\n{LINES}Content-Length: 100000\r\n\r\n{{"
NEVER_READ = f"GET /static/none HTTP/1.1\r\n{LINES}\r\n" * 50
MEGABYTE = 1024 * 1024


@dataclass
class Server:
    """One process of the web server, and the connections that a test has opened to it."""

    process: "subprocess.Popen[bytes]"
    port: int
    clients: list[socket.socket] = field(default_factory=list)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=120)

    def connect(self, sent: str) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(120)
        client.connect(("127.0.0.1", self.port))
        client.sendall(sent.encode())
        self.clients.append(client)
        return client

    def post(self, path: str, length: int) -> str:
        """The first line of the answer to the head of a request that announces a body of this length."""
        client = self.connect(f"POST {path} HTTP/1.1\r\n{LINES}Content-Length: {length}\r\n\r\n")
        return client.recv(1000).decode().splitlines()[0]


@contextlib.contextmanager
def serving(*options: str, **environment: str) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, *devstack.PROCESSES["web"], "--bind", f"127.0.0.1:{port}", *options]
    process = subprocess.Popen(command, cwd=devstack.BASE_DIR, env={**os.environ, **environment})
    server = Server(process, port)
    try:
        wait_for(port)
        yield server
    finally:
        for client in server.clients:
            client.close()
        process.kill()
        process.wait()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def test_it_answers_beside_two_hundred_slow_clients(server: Server) -> None:
    for sent in (HALF_HEADER, HALF_BODY, NEVER_READ) * (SLOW_CLIENTS // 3):
        server.connect(sent)
    for _ in range(20):
        assert server.get("/healthz").text == "ok\n"
    assert server.get("/login/").status_code == 200


def test_half_a_request_is_closed_when_its_time_is_up() -> None:
    with serving("--headers-s", "0.5", "--body-s", "1") as server:
        halves = [server.connect(sent) for sent in (HALF_HEADER, HALF_BODY)]
        assert [client.recv(1) for client in halves] == [b"", b""]  # within the time that a client waits


def test_a_request_that_trickles_in_has_no_more_time_than_one_that_stops() -> None:
    with serving("--headers-s", "0.5") as server:
        client = server.connect(HALF_HEADER)
        with pytest.raises(OSError):  # reset or broken pipe
            for _ in range(200):
                client.sendall(b"x")
                time.sleep(0.1)


@pytest.mark.parametrize(
    ("path", "length", "status"),
    [
        ("/login/", MEGABYTE + 1, "413 Request Entity Too Large"),
        ("/p/kvd/settings/", MEGABYTE + 1, "413 Request Entity Too Large"),
        ("/hooks", MEGABYTE + 1, "413 Request Entity Too Large"),
        ("/hooks/none", 26 * MEGABYTE + 1, "413 Request Entity Too Large"),
        ("/api/runner/claim", 26 * MEGABYTE + 1, "413 Request Entity Too Large"),
    ],
)
def test_a_body_beyond_the_limit_of_its_path_is_refused_before_it_is_sent(
    server: Server, path: str, length: int, status: str
) -> None:
    assert server.post(path, length) == f"HTTP/1.1 {status}"


def test_a_webhook_may_be_as_large_as_github_sends_it(server: Server) -> None:
    client = server.connect(f"PUT /hooks/none HTTP/1.1\r\n{LINES}Content-Length: {25 * MEGABYTE}\r\n\r\n")
    client.sendall(b"x" * 25 * MEGABYTE)
    assert client.recv(1000).startswith(b"HTTP/1.1 405")


def most_held(process_id: int) -> int:
    """The most memory that a process has held, in bytes."""
    (line,) = (line for line in Path(f"/proc/{process_id}/status").read_text().splitlines() if "VmHWM" in line)
    return int(line.split()[1]) * 1024


def large_push(number: int) -> bytes:
    """A push of 25 MB; each has other commits."""
    shas = (hashlib.sha256(f"{number} {n}".encode()).hexdigest()[:40] for n in range(25 * MEGABYTE // 640))
    commits = [{"id": sha, "message": "x" * 100, "added": [f"src/{sha[:9]}/{n}.c" for n in range(20)]} for sha in shas]
    return json.dumps({"ref": "refs/heads/main", "commits": commits}).encode()


@pytest.mark.django_db(transaction=True)
def test_no_number_of_pages_keeps_calls_of_programs_waiting(tmp_path: Path, broker_url: str) -> None:
    """While each thread of pages waits for a table, and so many pages for a thread that more are refused."""
    headers = {"Authorization": f"Bearer {registering.add_machine('m1')}"}
    page, surplus, threads = f"GET /alerts/ HTTP/1.1\r\n{LINES}\r\n", 5, THREADS["page"]
    with serving(**server_environment(tmp_path, broker_url)) as server:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE alerts_alert")
            tabs = [server.connect(page) for _ in range(threads)]
            while waiting_sessions(cursor) < threads:
                time.sleep(0.05)
            tabs += [server.connect(page) for _ in range(LINE + surplus)]
            claim = {"url": f"http://127.0.0.1:{server.port}/api/runner/claim", "headers": headers, "json": CLAIM}
            assert [httpx.post(**claim, timeout=120).status_code for _ in range(20)] == [204] * 20
            assert server.get("/healthz").text == "ok\n"
            assert server.post("/accounts/signup/", 0) == "HTTP/1.1 403 Forbidden"  # no CSRF token
            refused: list[socket.socket] = []
            while len(refused) < surplus:
                refused, _, _ = select.select(tabs, [], [], 120)
        answers = [client.recv(1000) for client in tabs]
    assert sum(answer.startswith(b"HTTP/1.1 200") for answer in answers) == threads + LINE
    assert sum(b"Retry-After" in answer and answer.startswith(b"HTTP/1.1 503") for answer in answers) == surplus


@pytest.mark.django_db(transaction=True)
def test_sources_that_wait_for_git_keep_no_form_waiting(tmp_path: Path, broker_url: str) -> None:
    """Here they wait for a table."""
    lines = f"Authorization: Bearer {registering.add_machine('m1')}\r\n{LINES}"
    call = f"GET /api/runner/runs/1/source/{'a' * 40}?token=1 HTTP/1.1\r\n{lines}\r\n"
    with serving(**server_environment(tmp_path, broker_url)) as server:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE runs_run")
            calls = [server.connect(call) for _ in range(THREADS["source"] + 3)]
            while waiting_sessions(cursor) < THREADS["source"]:
                time.sleep(0.05)
            assert server.post("/accounts/signup/", 0) == "HTTP/1.1 403 Forbidden"  # no CSRF token
        assert [client.recv(1000)[:12] for client in calls] == [b"HTTP/1.1 404"] * len(calls)


def waiting_sessions(cursor: Any) -> int:
    cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
    return int(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_large_calls_of_a_webhook_leave_little_memory_behind(tmp_path: Path, broker_url: str) -> None:
    """Neither their bodies nor what is stored of them is held several times, or kept by each thread."""
    project = Project.objects.create(slug="kvd", name="kvd", url="https://example.org/kvd", hook_secret=Secret.of("s"))
    with serving(**server_environment(tmp_path, broker_url)) as server:
        server.get("/healthz")
        before = most_held(server.process.pid)
        for number in range(THREADS["prompt"] + 2):
            body = large_push(number)
            assert len(body) > 20 * MEGABYTE
            headers = {
                "X-GitHub-Event": "push",
                "X-GitHub-Delivery": str(number),
                "X-Hub-Signature-256": f"sha256={hmac.new(b's', body, hashlib.sha256).hexdigest()}",
            }
            address = f"http://127.0.0.1:{server.port}/hooks/{project.hook_id}"
            assert httpx.post(address, content=body, headers=headers, timeout=120).json() == {"status": "received"}
        assert most_held(server.process.pid) - before < 50 * MEGABYTE
    stored = Delivery.objects.latest("pk")
    assert stored.body == body and stored.body_digest == hashlib.sha256(body).hexdigest()


def test_requests_under_way_are_finished_when_it_is_told_to_end() -> None:
    with serving() as server:
        client = server.connect(f"POST /healthz HTTP/1.1\r\n{LINES}Content-Length: 10\r\n\r\n12345")
        assert server.get("/healthz").status_code == 200  # so the first half has been read
        server.process.send_signal(signal.SIGTERM)
        while not refused(server.port):
            time.sleep(0.02)
        client.sendall(b"67890")
        assert client.recv(1000).startswith(b"HTTP/1.1 403")  # no CSRF token
        assert server.process.wait(120) == 0


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False  # it was in the queue of the socket that is being closed
    return False


@pytest.mark.parametrize(("scheme", "status"), [("http", 405), ("https", 403)])
def test_the_proxy_says_whether_the_client_came_by_tls(scheme: str, status: int) -> None:
    """By TLS Django wants a Referer beside the token; with a right token the address says that it takes no form."""
    with serving(BEHIND_TLS_PROXY="true") as server:
        token = server.get("/login/").cookies["csrftoken"]
        answer = httpx.post(
            f"http://127.0.0.1:{server.port}/healthz",
            data={"csrfmiddlewaretoken": token},
            headers={"X-Forwarded-Proto": scheme, "Cookie": f"csrftoken={token}"},
            timeout=120,
        )
        assert answer.status_code == status


#: Modules of waitress whose inner parts webserver.py extends or reads: the beginning of the SHA-256 of each.
READ_SOURCES = {
    "buffers": "50bf15244d9056a9",
    "channel": "6b44713fd38f8917",
    "parser": "f3c294637d49ced3",
    "receiver": "e4b4903d525a6d6a",
    "server": "93fa60086cb5b979",
    "task": "fc30d7eb4fde6134",
}


def test_waitress_is_inside_as_it_was_when_the_web_server_was_written() -> None:
    folder = Path(waitress.__file__).parent
    digests = {name: hashlib.sha256((folder / f"{name}.py").read_bytes()).hexdigest()[:16] for name in READ_SOURCES}
    changed = [name for name, digest in digests.items() if digest != READ_SOURCES[name]]
    assert changed == [], (
        f"waitress {version('waitress')} has other insides: compare {changed} with the version before, see whether"
        " speedtrack/http/webserver.py still fits, and enter the new digests here"
    )


def test_collections_leave_out_what_is_loaded_once() -> None:
    gc.unfreeze()
    usual = gc.get_threshold()
    webserver.load_pages()
    try:
        assert gc.get_freeze_count() > 100_000
        assert gc.get_threshold() == (webserver.COLLECTED, *usual[1:])
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)


SHARE, ALL = 20, 40
HEALTH = f"GET /healthz HTTP/1.1\r\n{LINES}"


@pytest.fixture
def small() -> Iterator[Server]:
    with serving("--connections", str(ALL), "--per-address", str(SHARE)) as server:
        yield server


def from_address(server: Server, address: str, sent: str = f"{HEALTH}\r\n") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), 20, source_address=(address, 0))
    client.sendall(sent.encode())
    server.clients.append(client)
    return client


def ended(client: socket.socket) -> bytes:
    """What it receives until its connection ends."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65536):
            received += piece
    return received


@pytest.mark.parametrize("sent", [HALF_HEADER, HALF_BODY, "\r\n", ""])
def test_no_address_takes_the_places_of_others(small: Server, sent: str) -> None:
    for _ in range(5 * ALL):
        with contextlib.suppress(OSError):  # refused, before it has sent anything
            from_address(small, "127.0.0.1", sent)
    for _ in range(3):
        assert from_address(small, "127.0.0.2").recv(1000).startswith(b"HTTP/1.1 200")


def test_beyond_its_share_an_address_is_told_so_and_has_places_again_once_it_ends_some(small: Server) -> None:
    files = files_of(small.process.pid)
    halves = [from_address(small, "127.0.0.1", HALF_HEADER) for _ in range(SHARE)]
    for method in ("GET", "POST", "HEAD"):
        refused = ended(from_address(small, "127.0.0.1", HEALTH.replace("GET", method) + "\r\n"))
        head, _, body = refused.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 429 Too Many Requests") and b"Retry-After: 10" in head
        assert (b"20 connections of your address are open" in body) == (method != "HEAD")
    for half in halves:
        half.close()
    deadline = time.monotonic() + 120
    while not from_address(small, "127.0.0.1").recv(1000).startswith(b"HTTP/1.1 200"):
        assert time.monotonic() < deadline
    assert files_of(small.process.pid) < files + SHARE, "what is refused or closed is let go of"


def files_of(process_id: int) -> int:
    return len(list(Path(f"/proc/{process_id}/fd").iterdir()))


def test_connections_that_rest_give_way_to_new_ones(small: Server) -> None:
    clients = [from_address(small, "127.0.0.1") for _ in range(SHARE)]
    assert all(client.recv(1000).startswith(b"HTTP/1.1 200") for client in clients)
    time.sleep(RESTING_S + 0.5)
    assert from_address(small, "127.0.0.1").recv(1000).startswith(b"HTTP/1.1 200")


def test_behind_a_proxy_the_share_is_that_of_the_client_it_names() -> None:
    with serving("--connections", str(3 * ALL), "--per-address", str(SHARE), BEHIND_TLS_PROXY="true") as server:
        half = f"POST /hooks/none HTTP/1.1\r\n{LINES}X-Forwarded-For: 192.0.2.1, %s\r\nContent-Length: 100000\r\n\r\n{{"
        for number in range(2 * SHARE):
            from_address(server, "127.0.0.1", half % f"2001:db8::{number:x}")
        others = [from_address(server, "127.0.0.1", half % f"192.0.2.{number}") for number in range(10, 10 + SHARE)]
        asked = f"GET /healthz HTTP/1.1\r\n{LINES}X-Forwarded-For: %s\r\n\r\n"
        refused = from_address(server, "127.0.0.1", asked % "2001:db8::ffff")
        assert refused.recv(1000).startswith(b"HTTP/1.1 429")
        for address in ("192.0.2.1", "192.0.2.10", "2001:db8:0:1::1", "no address"):
            assert from_address(server, "127.0.0.1", asked % address).recv(1000).startswith(b"HTTP/1.1 200"), address
        assert len(others) == SHARE
