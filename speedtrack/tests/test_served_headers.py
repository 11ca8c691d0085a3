"""The servers as they are served at an https address: headers of every kind of answer, redirects, and cookies."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from runners.tests.ports import free_port
from speedtrack import __version__
from speedtrack.http.browserheaders import WITHOUT_PAGE
from speedtrack.processes import devstack
from speedtrack.processes.live.tests.test_live import Live
from speedtrack.tests.test_webserver import MEGABYTE, Server, serving

HOST = "speedtrack.example.org"
PRODUCTION = {
    "SPEEDTRACK_URL": f"https://{HOST}",
    "BEHIND_TLS_PROXY": "true",
    "ALLOWED_HOSTS": HOST,
    "SECRET_KEY": "of-this-test-only-0123456789-abcdefghijklmnopqrstuvwxyz-XYZ",
}
BY_TLS = {"Host": HOST, "X-Forwarded-Proto": "https"}
STRICT = "max-age=31536000"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(**PRODUCTION) as server:
        yield server


@pytest.fixture
def live(transactional_db: None) -> Iterator[Live]:
    made = Live(free_port(), PRODUCTION).start()
    yield made
    made.kill()


def spoken(port: int, sent: str) -> httpx.Response:
    """The answer to exactly these bytes, which no HTTP library would send."""
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall(sent.encode("latin-1"))
        received = b""
        while b"\r\n\r\n" not in received:
            received += client.recv(65536)
    first, *lines = received.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    return httpx.Response(int(first.split()[1]), headers=[tuple(line.split(": ", 1)) for line in lines])


def check_headers(answer: httpx.Response) -> None:
    lacking = [name for name in (*WITHOUT_PAGE, "Content-Security-Policy") if name not in answer.headers]
    assert (answer.status_code, lacking) == (answer.status_code, [])
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Strict-Transport-Security"] == STRICT


@pytest.mark.parametrize("name", ["timeline.js", "site.css"])
def test_scripts_and_style_sheets_are_sent_compressed(server: Server, name: str) -> None:
    address = f"http://127.0.0.1:{server.port}/static/{name}"
    answer = httpx.get(address, headers=BY_TLS, timeout=60)
    assert (answer.status_code, answer.headers.get("Content-Encoding")) == (200, "gzip")
    assert int(answer.headers["Content-Length"]) < len(answer.content) / 2
    plain = httpx.get(address, headers={**BY_TLS, "Accept-Encoding": "identity"}, timeout=60)
    assert "Content-Encoding" not in plain.headers and plain.content == answer.content


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/login/", 200),
        ("GET", "/static/site.css", 200),
        ("GET", "/static/none.js", 404),
        ("GET", "/static/../settings.py", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/p/kvd", 301),
        ("GET", "/settings/", 302),
        ("POST", "/login/", 403),
        ("PUT", "/healthz", 405),
        ("GET", "/hooks/none", 405),
        ("GET", "/healthz", 200),
        ("POST", "/api/runner/claim", 401),
        ("GET", "/%00", 400),
    ],
)
def test_every_answer_of_the_web_server_has_them(server: Server, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, f"http://127.0.0.1:{server.port}{path}", headers=BY_TLS, timeout=120)
    assert answer.status_code in (status, 403, 500)  # the database of this server is empty
    check_headers(answer)


HEAD = f"Host: {HOST}\r\nX-Forwarded-Proto: https\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        (f"GET / HTTP/1.1\r\n{HEAD}no header\r\n\r\n", 400),
        (f"GET / HTTP/1.1\r\n{HEAD}X: {'a' * 70_000}\r\n\r\n", 431),
        (f"POST / HTTP/1.1\r\n{HEAD}Content-Length: {MEGABYTE + 2}\r\n\r\n", 413),
        (f"POST / HTTP/1.1\r\n{HEAD}Content-Length: x\r\n\r\n", 400),
        (f"POST / HTTP/1.1\r\n{HEAD}Transfer-Encoding: odd\r\n\r\n", 501),
        ("GET / HTTP/1.1\r\nHost: elsewhere.example\r\nX-Forwarded-Proto: https\r\n\r\n", 400),
    ],
)
def test_refusals_of_the_web_server_itself_have_them(server: Server, sent: str, status: int) -> None:
    answer = spoken(server.port, sent)
    assert answer.status_code == status
    check_headers(answer)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (f"GET /live/healthz HTTP/1.1\r\nHost: {HOST}\r\n\r\n", 200),
        (f"GET /live/nothing HTTP/1.1\r\nHost: {HOST}\r\n\r\n", 404),
        ("GET /live/healthz HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n", 400),
        (f"POST /live/healthz HTTP/1.1\r\nHost: {HOST}\r\n\r\n", 405),
        (f"GET /live/queue HTTP/1.1\r\nHost: {HOST}\r\n\r\n", 200),
        ("nonsense\r\n\r\n", 400),
        (f"GET / HTTP/1.1\r\nX: {'a' * 20_000}\r\n\r\n", 400),
    ],
)
def test_every_answer_of_the_streams_has_them(live: Live, sent: str, status: int) -> None:
    answer = spoken(live.port, sent)
    assert answer.status_code == status
    check_headers(answer)


def test_people_are_led_to_https_and_programs_inside_are_not(server: Server) -> None:
    plain = {"Host": HOST, "X-Forwarded-Proto": "http"}
    address = f"http://127.0.0.1:{server.port}"
    page = httpx.get(f"{address}/login/?next=/", headers=plain, timeout=60)
    assert (page.status_code, page.headers["Location"]) == (301, f"https://{HOST}/login/?next=/")
    assert "Set-Cookie" not in page.headers
    assert httpx.get(f"{address}/healthz", headers={"Host": HOST}, timeout=60).status_code == 200
    assert httpx.post(f"{address}/api/runner/claim", headers={"Host": HOST}, json={}, timeout=60).status_code != 301


def test_the_version_is_shown(server: Server) -> None:
    address = f"http://127.0.0.1:{server.port}"
    assert httpx.get(f"{address}/healthz", headers=BY_TLS, timeout=60).headers["X-SpeedTrack-Version"] == __version__
    assert (
        f"SpeedTrack {__version__} measures every commit"
        in httpx.get(f"{address}/login/", headers=BY_TLS, timeout=60).text
    )


def test_cookies_belong_to_this_host_and_to_https(server: Server) -> None:
    answer = httpx.get(f"http://127.0.0.1:{server.port}/login/", headers=BY_TLS, timeout=60)
    (cookie,) = answer.headers.get_list("Set-Cookie")
    assert cookie.startswith("__Host-csrftoken=")
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie


def test_djangos_own_check_finds_nothing() -> None:
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(
        command, cwd=devstack.BASE_DIR, env=os.environ | PRODUCTION, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
