import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from speedtrack.notices.channels import addresses, calls
from speedtrack.notices.channels.addresses import AddressRefused, allowed_addresses, destination
from speedtrack.notices.channels.calls import OutgoingCall, Response, call, require_success
from speedtrack.notices.errors import PermanentFailure, TemporaryFailure
from speedtrack.notices.tests.receivers import Receiver, serving

RESOLVE_S = 60
NO_URLS = [
    "",
    "/relative",
    "//example.org/",
    "ftp://example.org/",
    "file:///etc/passwd",
    "gopher://example.org/",
    "javascript:alert(1)",
    "https://",
    "https:///path",
    "https://user@example.org/",
    "https://a:b@example.org/",
    "https://example.org@127.0.0.1/",
    "https://example.org#@evil.org/",
    "https://example.org/#fragment",
    "https://exa mple.org/",
    "https://example.org/\r\nX: y",
    "https://example.org\\@127.0.0.1/",
    "https://ex\u0430mple.org/",
    "https://example.org:99999/",
    "https://example.org:x/",
    "https://[::1",
    "https://[fe80::1%25eth0]/",
    "https://-x.org/",
    "https://example..org/",
    "https://\u2460\u2461\u2466.0.0.1/",
    "https://%31%32%37.0.0.1/",
    "https://example.org/" + "a" * 2000,
]
INNER = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "localhost",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "240.0.0.1",
    "[::1]",
    "[fd00::1]",
    "[fec0::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:db8::1]",
    "[100::1]",
]
NEVER = [
    "169.254.169.254",
    "0xa9fea9fe",
    "[::ffff:169.254.169.254]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "0",
    "[::]",
    "224.0.0.1",
    "[ff02::1]",
    "255.255.255.255",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
]


@pytest.mark.parametrize("url", NO_URLS)
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        destination(url)


@pytest.mark.parametrize("host", INNER)
def test_addresses_that_are_not_public_are_refused_until_a_setting_allows_their_network(
    host: str, settings: Any
) -> None:
    where = destination(f"https://{host}/")
    with pytest.raises(AddressRefused, match="CHANNEL_NETWORKS"):
        allowed_addresses(where, RESOLVE_S)
    settings.CHANNEL_NETWORKS = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert allowed_addresses(where, RESOLVE_S)


@pytest.mark.parametrize("host", NEVER)
def test_addresses_of_cloud_metadata_are_refused_whatever_the_settings_allow(host: str, settings: Any) -> None:
    settings.CHANNEL_NETWORKS = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    with pytest.raises(AddressRefused, match="never"):
        allowed_addresses(destination(f"https://{host}/"), RESOLVE_S)


def test_one_allowed_network_opens_no_other(settings: Any) -> None:
    settings.CHANNEL_NETWORKS = [ip_network("10.1.0.0/16")]
    assert allowed_addresses(destination("http://10.1.2.3/"), RESOLVE_S) == [ip_address("10.1.2.3")]
    for host in ("10.2.0.1", "127.0.0.1", "192.168.1.1"):
        with pytest.raises(AddressRefused):
            allowed_addresses(destination(f"http://{host}/"), RESOLVE_S)


@pytest.mark.parametrize("host", ["93.184.216.34", "[2606:2800:220:1::1]", "[64:ff9b::5db8:d822]"])
def test_public_addresses_are_called_by_https_on_the_listed_ports_only(host: str) -> None:
    assert allowed_addresses(destination(f"https://{host}/"), RESOLVE_S)
    with pytest.raises(AddressRefused, match="https://"):
        allowed_addresses(destination(f"http://{host}/"), RESOLVE_S)
    with pytest.raises(AddressRefused, match="CHANNEL_PORTS"):
        allowed_addresses(destination(f"https://{host}:22/"), RESOLVE_S)


def test_a_name_with_one_inner_address_among_public_ones_is_refused() -> None:
    where = destination("https://example.org/")
    addresses.refuse_private(where, ip_address("93.184.216.34"))
    with pytest.raises(AddressRefused):
        addresses.refuse_private(where, ip_address("10.0.0.1"))


def test_a_name_that_nobody_knows_is_tried_again_later() -> None:
    with pytest.raises(TemporaryFailure, match=r"nobody\.invalid is not resolved"):
        call(OutgoingCall("GET", "https://nobody.invalid/"))


def test_the_call_carries_what_it_was_given(settings: Any) -> None:
    with serving(Receiver(lambda request: (201, {"X-Thing": "1"}, b'{"id": 7}')), settings) as receiver:
        answer = call(OutgoingCall("POST", f"{receiver.url}/a?b=c", {"text": "π"}, {"Authorization": "Bearer t"}))
    request = receiver.requests[0]
    assert (request.method, request.path, request.body) == ("POST", "/a?b=c", '{"text":"π"}'.encode())
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert (answer.status, answer.document(), answer.headers["x-thing"]) == (201, {"id": 7}, "1")


def test_a_redirect_is_not_followed(settings: Any) -> None:
    target = Receiver()
    with serving(target, settings), serving(Receiver(), settings) as receiver:
        receiver.answer = lambda request: (302, {"Location": target.url}, b"")
        answer = call(OutgoingCall("POST", receiver.url, {}))
        with pytest.raises(PermanentFailure, match="302: a redirect is not followed"):
            require_success(answer, "it")
    assert not target.requests


def test_a_proxy_of_the_environment_is_not_used(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Receiver(), settings) as proxy, serving(Receiver(), settings) as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        call(OutgoingCall("GET", receiver.url))
    assert receiver.requests and not proxy.requests


def test_the_connection_goes_to_the_checked_address_whatever_the_name_says_by_then(settings: Any) -> None:
    """The host of the URL does not resolve at all: only an address that was checked before can be connected to."""
    with serving(Receiver(), settings) as receiver:
        pinned = calls.PinnedBackend([ip_address("127.0.0.1")], calls.time.monotonic() + 60)
        stream = pinned.connect_tcp("rebound.invalid", receiver.port)
        assert stream.get_extra_info("server_addr") == ("127.0.0.1", receiver.port)
        stream.close()


def test_of_a_long_answer_only_the_beginning_is_read(settings: Any) -> None:
    with serving(Receiver(lambda request: (200, {}, b"x" * 2_000_000)), settings) as receiver:
        assert len(call(OutgoingCall("GET", receiver.url)).body) == calls.MOST_BYTES


@contextmanager
def raw(settings: Any, speak: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that speaks as it likes to one client; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings.CHANNEL_NETWORKS = [ip_network("127.0.0.1/32")]
        settings.CHANNEL_PORTS = frozenset({port})

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                speak(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{port}/"
        thread.join()


def test_a_server_that_drips_is_given_up_at_the_deadline(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "WHOLE_S", 0.5)
    over = threading.Event()

    def drip(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\n")
        for number in range(600):
            if over.wait(0.05):
                return
            try:
                client.sendall(f"X-{number}: y\r\n".encode())
            except OSError:
                return

    with raw(settings, drip) as url:
        with pytest.raises(TemporaryFailure, match="did not answer within"):
            call(OutgoingCall("GET", url))
        over.set()


@pytest.mark.parametrize("spoken", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort"])
def test_what_is_no_http_or_breaks_off_is_tried_again_later(settings: Any, spoken: bytes) -> None:
    def speak(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(spoken)

    with raw(settings, speak) as url, pytest.raises(TemporaryFailure, match="cannot be reached"):
        call(OutgoingCall("GET", url))


def test_nobody_listening_is_tried_again_later(settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings.CHANNEL_NETWORKS, settings.CHANNEL_PORTS = [ip_network("127.0.0.1/32")], frozenset({port})
    with pytest.raises(TemporaryFailure, match="cannot be reached"):
        call(OutgoingCall("GET", f"http://127.0.0.1:{port}/"))


def test_a_certificate_of_nobody_is_not_trusted(settings: Any, tmp_path: Path) -> None:
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
            "-keyout",
            str(tmp_path / "key"),
            "-out",
            str(tmp_path / "certificate"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")

    def speak(client: socket.socket) -> None:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(client, server_side=True)

    with raw(settings, speak) as url, pytest.raises(TemporaryFailure, match="certificate verify failed"):
        call(OutgoingCall("GET", url.replace("http:", "https:")))


@pytest.mark.parametrize(
    ("status", "headers", "error", "wait"),
    [
        (401, {}, PermanentFailure, None),
        (403, {}, PermanentFailure, None),
        (404, {}, PermanentFailure, None),
        (410, {}, PermanentFailure, None),
        (422, {}, PermanentFailure, None),
        (418, {}, PermanentFailure, None),
        (408, {}, TemporaryFailure, None),
        (500, {}, TemporaryFailure, None),
        (503, {"retry-after": "120"}, TemporaryFailure, 120),
        (429, {"retry-after": "30"}, TemporaryFailure, 30),
        (403, {"retry-after": "60"}, TemporaryFailure, 60),
        (429, {}, TemporaryFailure, None),
        (429, {"retry-after": "soon"}, TemporaryFailure, None),
        (429, {"retry-after": "9" * 30}, TemporaryFailure, 6 * 3600),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}, TemporaryFailure, 1),
        (403, {"x-ratelimit-remaining": "12", "x-ratelimit-reset": "1"}, PermanentFailure, None),
    ],
)
def test_an_answer_that_is_no_success_says_whether_to_try_again_and_when(
    status: int, headers: dict[str, str], error: type[Exception], wait: float | None
) -> None:
    with pytest.raises(error, match=f"it answered {status}") as caught:
        require_success(Response(status, headers, b""), "it")
    if error is TemporaryFailure:
        assert caught.value.after_s == wait  # type: ignore[attr-defined]
