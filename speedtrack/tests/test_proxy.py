"""The proxy of deploy/caddy as it is: slow clients, long bodies, what it says of its clients, streams, TLS, runners."""

import contextlib
import http.server
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from runners.tests.ports import free_port
from speedtrack.http import bodylimits, browserheaders
from speedtrack.processes import devstack
from speedtrack.tests.test_webserver import HALF_BODY, HALF_HEADER, wait_for

pytestmark = pytest.mark.caddy

HEADERS_S, BODY_S = 1, 2
SLOW_CLIENTS = 200
#: What releases before 2.7 call `request_buffers`.
OLDER = "buffer_requests\nmax_buffer_size 1MiB"


class Behind(http.server.ThreadingHTTPServer):
    """What a proxy stands before: it answers with what arrived."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Echo)
        self.paths: list[str] = []
        self.go_on = threading.Event()  # lets a stream send its second event
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Behind

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        if self.path.startswith("/live/"):
            self.stream()
        else:
            self.answer(
                json.dumps({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            )

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        left = int(self.headers["Content-Length"] or 1 << 40)  # in pieces: until the proxy gives up
        while left and (piece := self.rfile.read(min(left, 1 << 20))):
            left -= len(piece)
        self.answer("complete" if not left else "cut off")

    def answer(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number in (1, 2):
            self.wfile.write(f"data: {number}\n\n".encode())
            self.server.go_on.wait(60)

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the proxy has gone away
            super().handle()

    def log_message(self, format: str, *words: object) -> None: ...


@dataclass
class Proxy:
    """A Caddy with a file of deploy/caddy."""

    port: int
    behind: Behind
    home: Path
    clients: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, sent: str) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), 30)
        client.sendall(sent.encode())
        self.clients.append(client)
        return client

    def raw(self, path: str) -> str:
        """The answer to a request for a path that no client would send as it is."""
        client = self.connect(f"GET {path} HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: client.recv(4096), b"")).decode()


@pytest.fixture
def behind() -> Iterator[Behind]:
    with Behind() as server:
        yield server
        server.go_on.set()
        server.shutdown()


@contextlib.contextmanager
def proxying(behind: Behind, home: Path, file: str = "Caddyfile", **settings: str) -> Iterator[Proxy]:
    port = free_port()
    program = str(shutil.which("caddy"))
    version = subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout.lstrip("v")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SPEEDTRACK_SITE": f"http://127.0.0.1:{port}",
        "PROXY_RUNNERS": f"http://:{port}",
        "PROXY_HEALTH": f"http://127.0.0.1:{free_port()}",
        "PROXY_WEB": behind.address,
        "PROXY_LIVE": behind.address,
        "PROXY_HEADERS": f"{HEADERS_S}s",
        "PROXY_BODY": f"{BODY_S}s",
        **({"PROXY_BUFFERS": OLDER} if version.startswith("2.6.") else {}),
        **{name: value.replace("PORT", str(port)) for name, value in settings.items()},
    }
    command = [program, "run", "--config", str(devstack.BASE_DIR / "deploy/caddy" / file), "--adapter", "caddyfile"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stderr=log)
    proxy = Proxy(port, behind, home)
    try:
        wait_for(port)
        yield proxy
    finally:
        for client in proxy.clients:
            client.close()
        process.kill()
        process.wait()


@pytest.fixture
def proxy(behind: Behind, tmp_path: Path) -> Iterator[Proxy]:
    with proxying(behind, tmp_path) as proxy:
        yield proxy


def test_the_proxy_of_the_documentation_is_accepted(tmp_path: Path) -> None:
    page = (devstack.BASE_DIR / "docs/installing.md").read_text()
    [snippet] = re.findall(r"^```\n(speed\.example\.org \{.*?)^```", page, flags=re.M | re.S)
    (tmp_path / "Caddyfile").write_text(snippet)
    command = ["caddy", "validate", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(command, env=home, capture_output=True, text=True)
    assert done.returncode == 0 and "Valid configuration" in done.stdout + done.stderr, done.stderr


def test_slow_clients_are_let_go_and_never_reach_the_web_server(proxy: Proxy) -> None:
    halves = [proxy.connect(sent) for sent in (HALF_HEADER, HALF_BODY.replace("/hooks/none", "/login/"))]
    halves += [proxy.connect(HALF_HEADER) for _ in range(SLOW_CLIENTS)]
    assert httpx.get(f"{proxy.url}/beside", timeout=60).is_success

    began, trickling = time.monotonic(), proxy.connect(HALF_HEADER)
    with pytest.raises(OSError):  # reset or broken pipe
        while time.monotonic() < began + 30:
            trickling.sendall(b"x")
            time.sleep(0.1)

    for client in halves:  # each is closed within the time that a client waits
        while client.recv(4096):
            pass
    assert proxy.behind.paths == ["/beside"]


def test_bodies_are_limited_where_the_web_server_limits_them(behind: Behind, tmp_path: Path) -> None:
    limits = {"/login/": bodylimits.PAGES, **{f"{start}x": limit for start, limit in bodylimits.LONGER.items()}}
    results = ("/api/v1/projects/kvd/results", "/result/add/json/", "/codespeed/token/result/add/json/")
    limits |= dict.fromkeys(results, bodylimits.RESULTS_LIMIT)
    with proxying(behind, tmp_path, PROXY_BODY="1m") as proxy, httpx.Client(base_url=proxy.url, timeout=60) as client:
        for path, limit in limits.items():
            assert client.post(path, content=bytes(limit)).text == "complete"
            assert client.post(path, content=bytes(limit + 1)).is_error
            assert client.post(path, content=iter([bytes(bodylimits.MEGABYTE)] * 30)).is_error


def test_what_the_proxy_answers_by_itself_is_as_safe_for_browsers(behind: Behind, tmp_path: Path) -> None:
    with proxying(behind, tmp_path) as proxy, httpx.Client(base_url=proxy.url, timeout=60) as client:
        long = client.post("/login/", content=bytes(bodylimits.PAGES + 1))
        behind.shutdown()
        behind.server_close()
        away = client.post("/login/")
    assert long.status_code in (413, 502) and away.status_code == 502  # releases of Caddy differ
    with proxying(behind, tmp_path, "runners.Caddyfile") as proxy:
        nothing = httpx.get(f"{proxy.url}/login/", timeout=60)
    for answer in (long, away, nothing):
        found = {name: answer.headers.get_list(name) for name in browserheaders.WITHOUT_PAGE}
        assert found == {name: [value] for name, value in browserheaders.WITHOUT_PAGE.items()}, answer.status_code


def test_the_web_server_is_told_who_asks_by_the_proxy_alone(proxy: Proxy) -> None:
    lies = {
        "X-Forwarded-For": "192.0.2.1",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "elsewhere.example.org",
        "Forwarded": "for=192.0.2.1",
        "X-Real-IP": "192.0.2.1",
    }
    arrived = httpx.get(f"{proxy.url}/p/x/", headers=lies, timeout=60).json()
    assert (arrived["x-forwarded-for"], arrived["x-forwarded-proto"]) == ("127.0.0.1", "http")
    assert arrived["host"] == f"127.0.0.1:{proxy.port}"
    assert "192.0.2.1" not in str(arrived) and "elsewhere" not in str(arrived)


def test_events_of_a_stream_pass_at_once_for_as_long_as_it_lasts(proxy: Proxy) -> None:
    with httpx.stream("GET", f"{proxy.url}/live/queue", timeout=30) as stream:
        events = (line for line in stream.iter_lines() if line)
        assert next(events) == "data: 1"
        time.sleep(BODY_S + 0.5)  # what is given to a request to arrive does not end its answer
        proxy.behind.go_on.set()
        assert next(events) == "data: 2"


def test_a_domain_has_tls_and_http_leads_there(behind: Behind, tmp_path: Path) -> None:
    http_port, site = free_port(), {"SPEEDTRACK_SITE": "localhost", "PROXY_OPTIONS": "https_port PORT\nhttp_port "}
    site["PROXY_OPTIONS"] += str(http_port)
    with proxying(behind, tmp_path, **site) as proxy:
        wait_for(http_port)
        answer = httpx.get(f"http://localhost:{http_port}/p/x/?a=b", timeout=60)
        assert (answer.status_code, answer.headers["Location"]) == (308, "https://localhost/p/x/?a=b")
        authority = tmp_path / ".local/share/caddy/pki/authorities/local/root.crt"
        checked = ssl.create_default_context(cafile=str(authority))
        arrived = httpx.get(f"https://localhost:{proxy.port}/p/x/", verify=checked, timeout=60).json()
        assert arrived["x-forwarded-proto"] == "https"


def test_runners_find_their_api_and_nothing_else(behind: Behind, tmp_path: Path) -> None:
    with proxying(behind, tmp_path, "runners.Caddyfile") as proxy:
        allowed = proxy.raw("/api/runner/claim")
        assert '"host": "web"' in allowed and '"x-forwarded-proto": "https"' in allowed
        for path in (
            "/",
            "/login/",
            "/api/v1/projects",
            "/hooks/x",
            "/live/queue",
            "/metrics",
            "/api/runner",
            "/api/runners/x",
            "/api/runner/../../login/",
            "/api/runner/..%2f..%2flogin/",
            "/api/runner/%2e%2e/%2e%2e/login/",
            "http://web/login/",
        ):
            assert "404 Not Found" in proxy.raw(path).splitlines()[0], path
        assert behind.paths == ["/api/runner/claim"]
