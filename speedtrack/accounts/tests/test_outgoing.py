"""Calls of logins against real servers on the loopback: what they may reach, and by which name they are known."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from speedtrack.accounts.logins import outgoing
from speedtrack.accounts.logins.adapters import SocialAdapter


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append((self.headers["Host"], self.path))  # type: ignore[attr-defined]
        self.send_response(302 if self.path == "/elsewhere" else 200)
        self.send_header("Location", "/landed")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def asked_of(server: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = server.asked
    return found


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "https://127.0.0.1:{port}/",
        "https://localhost:{port}/",
        "https://127.1:{port}/",
        "https://2130706433:{port}/",
        "https://0x7f000001:{port}/",
        "https://[::1]:{port}/",
        "https://[::ffff:127.0.0.1]:{port}/",
        "https://[64:ff9b::7f00:1]:{port}/",
        "https://0.0.0.0:{port}/",
        "https://10.0.0.1/",
        "https://192.168.1.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[fe80::1%25lo]/",
        "https://user:secret@127.0.0.1:{port}/",
        "http://example.org/",
    ],
)
def test_a_server_of_logins_leads_to_no_inner_address(server: ThreadingHTTPServer, url: str) -> None:
    """Such as by the addresses that its document names for tokens and keys."""
    session = outgoing.session_to(["https://id.example.org"])
    with pytest.raises(requests.RequestException) as caught:
        session.get(url.format(port=server.server_port))
    assert isinstance(caught.value, outgoing.ProviderRefused | requests.exceptions.InvalidURL)
    assert asked_of(server) == [] and "secret" not in str(caught.value)


def test_the_server_that_is_set_may_be_inside_and_its_redirects_are_not_followed(
    server: ThreadingHTTPServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://127.0.0.1:{server.server_port}"
    app = {"provider_id": "oidc", "client_id": "us", "secret": "s", "settings": {"server_url": f"{address}/realm"}}
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    session = SocialAdapter().get_requests_session()
    assert session.get(f"{address}/elsewhere").status_code == 302
    assert session.post(f"{address}/elsewhere").status_code == 501
    assert asked_of(server) == [(address.removeprefix("http://"), "/elsewhere")]
    with pytest.raises(outgoing.ProviderRefused, match="only https is"):
        session.get("http://127.0.0.1:9/")
    with pytest.raises(outgoing.ProviderRefused, match="metadata"):
        outgoing.session_to(["http://169.254.169.254"]).get("http://169.254.169.254/")


def test_it_is_called_at_the_checked_address_and_proves_its_name(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-days", "1", "-subj", "/CN=id.test", "-addext", "subjectAltName=DNS:id.test", "-keyout", str(key)]
    subprocess.run([*argv, "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    asked: list[str] = []

    def changing(host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        """Resolves a name once only."""
        if not host.startswith("127."):
            asked.append(host)
            assert asked.count(host) == 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    url, other = (f"https://{name}:{server.server_port}" for name in ("id.test", "other.test"))
    assert outgoing.session_to([url]).get(url).status_code == 200
    assert asked_of(server) == [(url.removeprefix("https://"), "/")]
    with pytest.raises(requests.exceptions.SSLError, match=r"other\.test"):
        outgoing.session_to([other]).get(other)
    assert asked == ["id.test", "other.test"]
