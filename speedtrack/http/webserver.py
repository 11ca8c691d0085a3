"""``python -m speedtrack.http.webserver --bind HOST:PORT``: the web server, waitress with deadlines and shares.

One thread reads and writes all connections. A request gets one of the THREADS only once it has arrived completely, and
its answer is buffered. So a client that sends or reads slowly occupies only a connection, until its time limit; and no
client may occupy more than its share of the connections. Each kind of request (THREADS) has threads of its own, which
no other kind occupies.
"""

import argparse
import copy
import ctypes
import gc
import json
import re
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import Any, ClassVar

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.buffers import ReadOnlyFileBasedBuffer
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher
from waitress.utilities import BadRequest, Error

from speedtrack.http import bodylimits, browserheaders, problems
from speedtrack.http.clientaddress import named_by_proxy, network_of

#: prompt: calls of programs that get a quick answer. page: what is only read; few, because all share one interpreter,
#: so that each thread that computes delays every step of the others. other: may wait for git or a foreign server.
#: source: may wait for git for minutes, while the runner repeats its call.
THREADS = {"prompt": 3, "page": 2, "other": 2, "source": 2}
PROMPT = ("/api/runner/", "/hooks/", "/healthz", "/readyz", "/metrics")
LINE = 100  # requests of a kind may wait for a thread; more are refused, but none of the prompt ones
SWITCH_S = 0.0005  # after so long a busy thread lets another one run, so that pages delay calls less
CONNECTIONS = 1000
PER_ADDRESS = CONNECTIONS // 4
SURPLUS = 1 / 20  # of all connections may be beyond the shares of their addresses, so that they get a refusal
SURPLUS_S = 2  # such connections must send a request within this time
RETRY_S = 10
RESTING_S = 1  # without a byte in either direction before a connection may be closed for another one
COLLECTED = 20_000  # new objects between two collections: with Python's 700 these take half the time of a large page
OPEN_FILES = 4 * CONNECTIONS  # sockets, and the files that buffer large bodies
HEADERS_S = 20  # from a request's first byte to the end of its headers
BODY_S = 120  # from a request's first byte to its last
IDLE_S = 60  # without a byte in either direction
DRAIN_S = 5  # for requests under way when the server is stopped
HEADER_BYTES = 64 * 1024
TRANSFER_CODINGS = re.compile(rb"^transfer-encoding:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
M_MMAP_THRESHOLD = -3  # malloc.h
LARGE_BLOCK = 1024 * 1024
BUFFERED_BYTES = 64 * 1024 * 1024  # of an answer; if it is longer, the thread waits for the client


class TooManyConnections(Error):
    code, reason = 429, "Too Many Requests"


class TooManyWaiting(Error):
    code, reason = 503, "Service Unavailable"


class Request(HTTPRequestParser):
    """A request that is arriving. Its path determines the limit of its body."""

    adj: Adjustments

    def __init__(self, adj: Adjustments, connection: "ClientConnection") -> None:
        super().__init__(adj)
        self.began = time.time()
        self.connection = connection
        self.start = b""
        self.is_answered = False  #: the headers of the answer are sent

    @property
    def is_head(self) -> bool:
        """This uses only the first bytes, since invalid requests are answered as well."""
        return self.start == b"HEAD "

    def received(self, data: bytes) -> int:
        self.start = (self.start + data).lstrip()[:5] if len(self.start) < 5 else self.start
        had_headers = self.headers_finished
        consumed: int = super().received(data)
        if self.headers_finished and not had_headers and not self.error and not self.empty:
            self.refuse(self.connection.refusal(self))
        elif self.chunked and len(self.body_rcv.control_line) + len(self.body_rcv.trailer) > HEADER_BYTES:
            self.refuse(BadRequest("A line between two chunks, or the trailer, is too long"))
        if self.completed:
            self.expect_continue = False  # waitress would ask for a body that never comes
        return consumed

    def refuse(self, error: Error | None) -> None:
        if error is not None:
            self.error, self.completed = error, True

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(header_plus)
        except ValueError as e:  # an address or a number that no library reads
            raise ParsingError(str(e)) from e
        self.check_framing(header_plus)
        if (limit := bodylimits.limit_of(self.path)) != bodylimits.PAGES:
            self.adj = copy.copy(self.adj)
            self.adj.max_request_body_size = limit + 1

    def check_framing(self, header_plus: bytes) -> None:
        """Refuse a body whose end a proxy might see elsewhere: the bytes after it would be a forged request."""
        codings = [coding.lower() for coding in TRANSFER_CODINGS.findall(header_plus)]
        if codings and (not self.chunked or codings != [b"chunked"] or "CONTENT_LENGTH" in self.headers):
            raise ParsingError("Transfer-Encoding must be chunked, in HTTP/1.1 and without Content-Length")


class JsonRefusal(ErrorTask):
    """The answer to an invalid request, as JSON like all errors outside of the pages."""

    headers: ClassVar[list[tuple[str, str]]] = browserheaders.without_page(hsts_s=0)  #: `main` adds the configured ones

    def execute(self) -> None:
        error = self.request.error
        sentence, path = f"{error.reason}: {error.body}", getattr(self.request, "path", "")
        is_api = problems.is_api(path)
        refusal = problems.document(problems.of_status(error.code), sentence, path)
        document = refusal if is_api else {"error": sentence}
        body = json.dumps(document).encode()
        self.status = f"{error.code} {error.reason}"
        media_type = problems.MEDIA_TYPE if is_api else "application/json"
        self.response_headers += [("Content-Type", media_type), *self.headers]
        if isinstance(error, TooManyConnections | TooManyWaiting):
            self.response_headers.append(("Retry-After", str(RETRY_S)))
        self.request.headers["CONNECTION"] = "close"  # for HTTP/1.0, waitress would promise to keep the connection
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class OnlyHeaders:
    """The body for HEAD: only its first piece is made, because the headers wait for it."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return islice(self.pieces, 1)

    def close(self) -> None:
        if hasattr(self.pieces, "close"):
            self.pieces.close()


def headers_for_head(application: Any) -> Any:
    """The application, which does no more for HEAD than the headers need."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        pieces: Iterable[bytes] = application(environ, start_response)
        return OnlyHeaders(pieces) if environ["REQUEST_METHOD"] == "HEAD" else pieces

    return answer


class ClientConnection(HTTPChannel):
    """One connection.

    ``address``: of the client. A proxy has connections for all its clients: each belongs to the client whose request is
    under way on it.
    """

    server: "WebServer"
    error_task_class = JsonRefusal
    address: str | None = None
    is_surplus = False  #: beyond the share of its address

    def __init__(
        self, server: "WebServer", sock: socket.socket, addr: tuple[Any, ...], adj: Adjustments, map: dict[int, Any]
    ) -> None:
        super().__init__(server, sock, addr, adj, map=map)
        if not server.is_behind_proxy:
            self.address = network_of(addr[0])
            server.admit(self)

    def parser_class(self, adj: Adjustments) -> Request:
        return Request(adj, self)

    def refusal(self, request: Request) -> Error | None:
        """The refusal of a request whose headers have arrived; None if it is accepted."""
        if self.server.is_behind_proxy:
            self.address = named_by_proxy(request.headers.get("X_FORWARDED_FOR", ""))
            rivals = (connection for connection in self.server.connections_of(self) if connection.busy())
            self.is_surplus = sum(1 for _ in rivals) >= self.server.per_address
        share = f"{self.server.per_address} connections of your address are open: close some, or wait"
        return TooManyConnections(share) if self.is_surplus else None

    def write_soon(self, data: Any) -> int:
        """Send a task's output: first its headers, in one piece, then a body, which HEAD must not get."""
        request: Request = self.requests[0]
        if request.is_head and request.is_answered:
            if isinstance(data, ReadOnlyFileBasedBuffer):
                data.close()
            return 0
        request.is_answered = True
        byte_count: int = super().write_soon(data)
        return byte_count

    def busy(self) -> bool:
        """Return whether a request or an answer is under way."""
        return bool(self.request or self.requests or self.total_outbufs_len)

    def rests(self) -> bool:
        """Return whether nothing is under way, and nothing may be arriving."""
        return not self.busy() and time.time() - self.last_activity > RESTING_S

    def overdue(self, now: float) -> bool:
        """Return whether the client took too long to send its request, or stopped reading a long answer."""
        request = self.request
        if self.is_surplus and not self.requests:
            return bool(now - self.creation_time > SURPLUS_S)
        if request and not self.requests:
            limit_s = self.server.body_s if request.headers_finished else self.server.headers_s
            return bool(now - request.began > limit_s)
        return bool(self.total_outbufs_len > BUFFERED_BYTES and now - self.last_activity > IDLE_S)


def kind_of(request: Request) -> str:
    """Which of the THREADS answer a request."""
    if request.error is not None:
        return "prompt"
    if request.path.startswith(PROMPT):
        return "source" if "/source/" in request.path else "prompt"
    return "page" if request.command in ("GET", "HEAD") and not request.path.startswith("/accounts/") else "other"


class WebServer(TcpWSGIServer):
    channel_class = ClientConnection
    ending = False
    active_channels: dict[int, ClientConnection]

    def __init__(
        self, application: Any, adj: Adjustments, limits: argparse.Namespace, is_behind_proxy: bool = False
    ) -> None:
        super().__init__(headers_for_head(application), adj=adj)
        self.headers_s: float = limits.headers_s
        self.body_s: float = limits.body_s
        self.per_address: int = limits.per_address
        self.is_behind_proxy = is_behind_proxy
        self.dispatchers = {kind: ThreadedTaskDispatcher() for kind in THREADS if kind != "page"}
        self.dispatchers["page"] = self.task_dispatcher  # waitress has made it
        for kind, count in THREADS.items():
            self.dispatchers[kind].set_thread_count(count)

    def add_task(self, task: ClientConnection) -> None:
        """Let a thread answer the first request of a connection; refuse it if too many of its kind wait already."""
        request = task.requests[0]
        kind = kind_of(request)
        if kind != "prompt" and len(self.dispatchers[kind].queue) >= LINE:
            request.refuse(TooManyWaiting(f"{LINE} requests wait already: try again in {RETRY_S} seconds"))
            kind = "prompt"
        self.dispatchers[kind].add_task(task)

    def connections_of(self, connection: ClientConnection) -> Iterator[ClientConnection]:
        """The other open connections of the same address."""
        if connection.address is not None:
            for candidate in self.active_channels.values():
                if candidate.address == connection.address and candidate is not connection and not candidate.will_close:
                    yield candidate

    def admit(self, connection: ClientConnection) -> None:
        """Limit an address to its share: close a resting connection for a new one, otherwise refuse the new one.

        Clients reconnect when a resting connection is closed; no request and no answer is lost.
        """
        rivals = list(self.connections_of(connection))
        if len(rivals) < self.per_address:
            return
        if resting := [rival for rival in rivals if rival.rests()]:
            min(resting, key=lambda rival: rival.last_activity).will_close = True
            return
        connection.is_surplus = True
        if sum(rival.is_surplus for rival in self.active_channels.values()) > SURPLUS * self.adj.connection_limit:
            connection.handle_close()

    def maintenance(self, now: float) -> None:
        super().maintenance(now)
        for channel in self.active_channels.values():
            if channel.overdue(now):
                channel.will_close = True

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then finish the requests under way."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.end)
        while not self.ending:
            self.turn()
        wasyncore.dispatcher.close(self)  # the listening socket only
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline and any(channel.busy() for channel in self.active_channels.values()):
            self.turn()
        for dispatcher in self.dispatchers.values():
            dispatcher.shutdown(timeout=1)

    def turn(self) -> None:
        """Wait for connections that can be read or written, and serve each of them once."""
        wasyncore.loop(timeout=1, use_poll=True, map=self._map, count=1)

    def end(self, number: int, frame: FrameType | None) -> None:
        self.ending = True
        self.pull_trigger()


def adjustments(bind: str, connections: int) -> Adjustments:
    return Adjustments(
        listen=bind,
        threads=THREADS["page"],
        connection_limit=connections,
        backlog=CONNECTIONS,
        channel_timeout=IDLE_S,
        cleanup_interval=1,
        max_request_header_size=HEADER_BYTES,
        max_request_body_size=bodylimits.PAGES + 1,  # waitress refuses a body of this size
        outbuf_high_watermark=BUFFERED_BYTES,
        clear_untrusted_proxy_headers=False,  # BEHIND_TLS_PROXY decides whether they are trusted
        ident=None,
    )


def give_memory_back() -> None:
    """Let freed blocks of LARGE_BLOCK bytes and more return to the system.

    glibc raises this limit to the largest freed block (mallopt(3), M_MMAP_THRESHOLD), and each thread would then keep
    the memory of its largest request for ever.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def load_pages() -> None:
    """Load everything that the first request needs, and exclude it from garbage collections for ever.

    A full collection of all of it would stop every request for 150 ms, about once in ten pages.
    """
    from django.urls import get_resolver

    assert get_resolver().url_patterns
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED, *gc.get_threshold()[1:])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m speedtrack web", description=__doc__)
    parser.add_argument("--bind", default="127.0.0.1:8000", metavar="HOST:PORT")
    parser.add_argument("--headers-s", type=float, default=HEADERS_S, help="for the headers of a request")
    parser.add_argument("--body-s", type=float, default=BODY_S, help="for a whole request")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="at once; more wait")
    parser.add_argument("--per-address", type=int, default=PER_ADDRESS, help="of these connections; more are refused")
    options = parser.parse_args(arguments)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    give_memory_back()
    sys.setswitchinterval(SWITCH_S)
    from django.conf import settings

    from speedtrack.http.wsgi import application  # late: it loads Django

    JsonRefusal.headers = browserheaders.without_page(settings.SECURE_HSTS_SECONDS)
    try:
        limits = adjustments(options.bind, options.connections)
        server = WebServer(application, limits, options, is_behind_proxy=settings.BEHIND_TLS_PROXY)
    except OSError as e:
        sys.exit(f"error: {options.bind} cannot be served here ({e.strerror}): name another address with --bind")
    load_pages()
    server.run()


if __name__ == "__main__":
    main(sys.argv[1:])
