"""HTTP as it is on the wire: where answers end, what follows them on a connection, and requests that lie about that."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.http import webserver
from speedtrack.processes.live.tests.test_live import Live, live, served  # noqa: F401 - fixtures
from speedtrack.projects.models import Annotation
from speedtrack.runs.models import Run
from speedtrack.tests.installation import server_environment
from speedtrack.tests.test_odd_requests import addresses, patterns, right_parts
from speedtrack.tests.test_webserver import MEGABYTE, Server, serving
from speedtrack.web.tests.world import slowed

#: Of which two answers to GET may differ as well. Django pads what it compresses by chance, and sends shorter as it is.
VARYING = {"date", "set-cookie", "etag", "age", "expires", "content-length", "content-encoding"}


class Answer(NamedTuple):
    """The head of an answer. ``headers`` by their names in small letters."""

    status: int
    headers: dict[str, str]

    @property
    def is_last(self) -> bool:
        """Whether the connection ends behind it."""
        return self.headers.get("connection", "").lower() == "close"


class Wire:
    """A connection on which a test sees each byte."""

    def __init__(self, port: int, sent: str | bytes = b"") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.received = b""
        self.send(sent)

    def send(self, sent: str | bytes) -> None:
        self.socket.sendall(sent if isinstance(sent, bytes) else sent.encode("latin-1"))

    def more(self) -> bool:
        """Receive more; return whether there was any."""
        try:
            piece = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        self.received += piece
        return bool(piece)

    def head(self) -> Answer:
        while b"\r\n\r\n" not in self.received:
            assert self.more(), f"the connection has ended within the head of an answer: {self.received!r}"
        head, _, self.received = self.received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        assert first.startswith("HTTP/1."), f"no head of an answer: {first[:200]!r}"
        fields = (line.partition(":") for line in lines)
        return Answer(int(first.split()[1]), {name.lower(): value.strip() for name, _, value in fields})

    def body(self, answer: Answer) -> bytes:
        if "content-length" in answer.headers:
            length = int(answer.headers["content-length"])
            while len(self.received) < length:
                assert self.more()
            body, self.received = self.received[:length], self.received[length:]
            return body
        return self.rest()

    def rest(self) -> bytes:
        """Everything until the connection ends."""
        while self.more():
            pass
        rest, self.received = self.received, b""
        return rest

    def check_end(self, answer: Answer) -> None:
        """Nothing follows this head: the connection ends, or the next request gets its own answer."""
        if answer.is_last:
            assert self.rest() == b"", "bytes follow an answer that has no body"
            return
        self.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        following = self.head()
        assert (following.status, self.body(following)) == (200, b"ok\n")

    def close(self) -> None:
        self.socket.close()


def request(method: str, path: str, *lines: str, version: str = "1.1") -> str:
    return "\r\n".join((f"{method} {path} HTTP/{version}", "Host: 127.0.0.1", *lines, "", ""))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


class Site(NamedTuple):
    """A server on a database with something on each page, whose operator has this cookie."""

    port: int
    cookie: str
    addresses: list[str]


@pytest.fixture
def site(transactional_db: None, settings: Any, tmp_path: Path, broker_url: str) -> Iterator[Site]:
    made, alert = slowed(settings, tmp_path / "world")
    run = Run.objects.filter(commit__sha=made.shas[5]).earliest("pk")
    Annotation.objects.create(project=made.project, commit=made.commit(5), text="warm")
    right = right_parts(made, alert, run)
    found = [
        next(addresses(route, right | {"form": form})) for _, route in patterns() for form in ("json", "csv", "svg")
    ]
    client = Client()
    client.force_login(User.objects.create_superuser("ada", is_staff=True))
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    with serving(**server_environment(tmp_path, broker_url, API_RATE="0", API_RATE_ANONYMOUS="0")) as server:
        yield Site(server.port, cookie, [*dict.fromkeys(found), "/static/site.css", "/static/none.js", "/nowhere"])


def test_every_address_answers_head_with_the_headers_of_get_and_no_body(site: Site) -> None:
    kept, statuses = 0, set()
    for address in site.addresses:
        for lines in ((f"Cookie: {site.cookie}",), (f"Cookie: {site.cookie}", "Accept-Encoding: gzip"), ()):
            of_get = Wire(site.port, request("GET", address, *lines))
            of_head = Wire(site.port, request("HEAD", address, *lines))
            got, headed = of_get.head(), of_head.head()
            assert headed.status == got.status, address
            assert headed.headers.keys() - VARYING == got.headers.keys() - VARYING, address
            assert ("content-length" in headed.headers) == ("content-length" in got.headers), address
            of_head.check_end(headed)
            kept += not headed.is_last
            statuses.add(headed.status)
            of_get.close()
            of_head.close()
    assert kept > 100 and {200, 302, 404, 405} <= statuses


def test_what_has_not_changed_and_what_is_empty_have_neither_a_body_nor_a_length(site: Site) -> None:
    for address in ("/static/site.css", "/api/v1/projects/kvd"):
        wire = Wire(site.port, request("GET", address))
        etag = wire.head().headers.get("etag")
        assert etag, address
        for method in ("GET", "HEAD"):
            wire = Wire(site.port, request(method, address, f"If-None-Match: {etag}"))
            answer = wire.head()
            assert answer.status == 304, address
            assert not {"content-length", "transfer-encoding"} & answer.headers.keys()
            wire.check_end(answer)


ERRORS = [
    ("/nowhere", (), 404),
    ("/hooks/none", (), 405),
    ("/ HTTP/1.1\r\nno header", (), 400),
    ("/", ("Host: twice.example",), 400),
    ("/", ("X: " + "a" * 70_000,), 431),
    ("/", (f"Content-Length: {MEGABYTE + 2}",), 413),
    ("/", ("Content-Length: x",), 400),
    ("/", ("Content-Length: " + "9" * 5000,), 400),
    ("/", ("Transfer-Encoding: odd",), 501),
    ("http://[/", (), 400),
]


@pytest.mark.parametrize(("path", "lines", "status"), ERRORS)
def test_head_of_an_error_has_no_body(server: Server, path: str, lines: tuple[str, ...], status: int) -> None:
    for method in ("GET", "HEAD"):
        wire = Wire(server.port, request(method, path, *lines))
        answer = wire.head()
        assert answer.status in (status, 500), "the database of this server is empty"
        if method == "HEAD":
            wire.check_end(answer)
        else:
            assert wire.body(answer)


def test_head_of_an_odd_request_is_known_however_its_bytes_arrive(server: Server) -> None:
    wire = Wire(server.port, "\r\n\r\n")
    for letter in request("HEAD", "/", "no header"):
        wire.send(letter)
    answer = wire.head()
    assert answer.status == 400
    wire.check_end(answer)


@pytest.mark.parametrize(
    "body", ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nX: y\r\n\r\n"]
)
def test_head_with_a_body_of_its_own(server: Server, body: str) -> None:
    wire = Wire(server.port, request("HEAD", "/healthz").removesuffix("\r\n") + body)
    answer = wire.head()
    assert (answer.status, answer.headers["content-length"]) == (200, "3")
    wire.check_end(answer)


def test_pipelined_requests_get_their_answers_in_order(server: Server) -> None:
    wire = Wire(server.port, request("HEAD", "/healthz") * 3 + request("GET", "/healthz") + request("HEAD", "/nowhere"))
    for _ in range(3):
        assert wire.head().status == 200
    answer = wire.head()
    assert wire.body(answer) == b"ok\n"
    wire.check_end(wire.head())


def test_head_of_http_1_0_is_kept_alive_where_it_asks_for_that(server: Server) -> None:
    wire = Wire(server.port, request("HEAD", "/healthz", "Connection: keep-alive", version="1.0"))
    answer = wire.head()
    assert answer.headers["connection"].lower() == "keep-alive"
    wire.check_end(answer)
    wire = Wire(server.port, request("HEAD", "/healthz", version="1.0"))
    assert wire.head().is_last and wire.rest() == b""


def test_who_waits_to_send_a_body_is_told_to_go_on_only_if_there_is_one(server: Server) -> None:
    for method in ("GET", "HEAD"):
        wire = Wire(server.port, request(method, "/healthz", "Expect: 100-continue"))
        answer = wire.head()
        assert answer.status == 200
        assert wire.body(answer) == b"ok\n" if method == "GET" else True
        wire.check_end(answer)
    wire = Wire(server.port, request("PUT", "/healthz", "Expect: 100-continue", "Content-Length: 5"))
    assert wire.head().status == 100
    wire.send("hello")
    answer = wire.head()
    assert answer.status in (403, 405)
    wire.body(answer)
    wire.check_end(answer)
    wire = Wire(server.port, request("PUT", "/", "Expect: 100-continue", f"Content-Length: {MEGABYTE + 2}"))
    assert wire.head().status == 413


SMUGGLED = request("GET", "/healthz")
CHUNKS = "0\r\n\r\n"


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("1.1", ("Content-Length: 5", "Content-Length: 6")),
        ("1.1", ("Content-Length: 5", "Content-Length: 5")),
        ("1.1", ("Content-Length: +5",)),
        ("1.1", ("Content-Length: 5, 5",)),
        ("1.1", ("Content-Length:",)),
        ("1.1", ("Content-Length : 5",)),
        ("1.1", ("Content-Length: 5", "Transfer-Encoding: chunked")),
        ("1.1", ("Transfer-Encoding: chunked", "Content-Length: 0")),
        ("1.1", ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")),
        ("1.1", ("Transfer-Encoding: chunked, chunked",)),
        ("1.1", ("Transfer-Encoding: identity",)),
        ("1.1", ("Transfer-Encoding: gzip, chunked",)),
        ("1.1", ("Transfer-Encoding:", "Content-Length: 5")),
        ("1.1", ("Transfer-Encoding:\r\n chunked", "Content-Length: 5")),
        ("1.1", ("Transfer-Encoding: \x0bchunked",)),
        ("1.1", ("Transfer-Encoding : chunked",)),
        ("1.0", ("Transfer-Encoding: chunked", "Connection: keep-alive")),
        ("1.2", ("Transfer-Encoding: chunked", "Connection: keep-alive")),
        ("1.1", ("X: a\nTransfer-Encoding: chunked",)),
        ("1.1", ("X: a\rTransfer-Encoding: chunked",)),
    ],
)
def test_a_body_whose_end_is_ambiguous_ends_the_connection(
    server: Server, version: str, lines: tuple[str, ...]
) -> None:
    wire = Wire(server.port, request("POST", "/healthz", *lines, version=version) + CHUNKS + SMUGGLED)
    answer = wire.head()
    assert answer.status in (400, 501) and answer.is_last
    wire.body(answer)
    assert wire.rest() == b"", "what follows is answered as another request"


def test_headers_with_an_underscore_say_nothing_of_the_body(server: Server) -> None:
    wire = Wire(server.port, request("HEAD", "/healthz", "Content_Length: 500", "Transfer_Encoding: chunked"))
    wire.check_end(wire.head())


@pytest.mark.parametrize("chunks", ["x\r\n", "5\r\nhelloX", "-1\r\n", "5;\x00\r\n", "0x5\r\nhello\r\n", "1_0\r\n"])
def test_chunks_that_are_none_end_the_connection(server: Server, chunks: str) -> None:
    wire = Wire(server.port, request("POST", "/healthz", "Transfer-Encoding: chunked") + chunks + "\r\n" + SMUGGLED)
    answer = wire.head()
    assert answer.status == 400 and answer.is_last
    wire.body(answer)
    assert wire.rest() == b""


@pytest.mark.parametrize("begin", ["5;a=", "0\r\nX: "])
def test_a_line_between_chunks_has_a_limit(server: Server, begin: str) -> None:
    wire = Wire(server.port, request("POST", "/hooks/none", "Transfer-Encoding: chunked") + begin + "a" * 80_000)
    assert wire.head().status == 400


def test_of_an_answer_to_head_one_piece_is_made_and_what_made_it_is_closed() -> None:
    made: list[str] = []

    def pieces() -> Iterator[bytes]:
        try:
            for number in range(1000):
                made.append(str(number))
                yield b"x"
        finally:
            made.append("closed")

    answer = webserver.OnlyHeaders(generator := pieces())
    assert list(answer) == [b"x"]
    answer.close()
    assert made == ["0", "closed"] and next(generator, None) is None


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("/live/healthz", ()),
        ("/live/nothing", ()),
        ("/live/queue", ()),
        ("/live/runs/7", ()),
        ("/live/healthz", ("Host: elsewhere.example",)),
        ("/live/healthz", ("no header",)),
        ("/live/healthz", (f"X: {'a' * 20_000}",)),
        ("/live/healthz", ("Content-Length: 2", "", "hi")),
    ],
)
def test_the_streams_answer_head_with_headers_alone(live: Live, path: str, lines: tuple[str, ...]) -> None:  # noqa: F811
    wire = Wire(live.port, request("HEAD", path, *lines).removesuffix("\r\n\r\n" if "" in lines else ""))
    answer = wire.head()
    assert answer.status in (200, 400, 404)
    if answer.is_last:
        assert wire.rest() == b""
    else:
        wire.send(request("GET", "/live/healthz", "Connection: close"))
        following = wire.head()
        assert (following.status, wire.body(following)) == (200, b"ok\n")
