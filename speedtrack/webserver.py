"""``python -m speedtrack.webserver --bind HOST:PORT``: the web server, waitress with deadlines.

One thread reads and writes all connections. A request gets one of the THREADS only once it has arrived completely, and
its answer is buffered. So a client that sends or reads slowly occupies a connection and nothing else, until its time is
up.
"""

import argparse
import copy
import ctypes
import gc
import json
import resource
import signal
import sys
import time
from types import FrameType
from typing import Any, ClassVar

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask

from speedtrack import bodylimits, browserheaders, problems

THREADS = 8
CONNECTIONS = 1000
OPEN_FILES = 4 * CONNECTIONS  # sockets, and the files that buffer large bodies
HEADERS_S = 20  # from a request's first byte to the end of its headers
BODY_S = 120  # from a request's first byte to its last
IDLE_S = 60  # without a byte in either direction
DRAIN_S = 5  # for requests under way when the server is told to stop
HEADER_BYTES = 64 * 1024
M_MMAP_THRESHOLD = -3  # malloc.h
LARGE_BLOCK = 1024 * 1024
BUFFERED_BYTES = 64 * 1024 * 1024  # of an answer; for a longer one, the thread waits for the client


class Request(HTTPRequestParser):
    """A request that is arriving. Its path determines the limit of its body."""

    adj: Adjustments

    def __init__(self, adj: Adjustments) -> None:
        super().__init__(adj)
        self.began = time.time()

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if (limit := bodylimits.limit_of(self.path)) != bodylimits.PAGES:
            self.adj = copy.copy(self.adj)
            self.adj.max_request_body_size = limit + 1


class JsonRefusal(ErrorTask):
    """The answer to an invalid request, as JSON like all errors outside of the pages."""

    headers: ClassVar[list[tuple[str, str]]] = browserheaders.without_page(hsts_s=0)  #: `main` adds what is set

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
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class ClientConnection(HTTPChannel):
    """One connection."""

    parser_class = Request
    error_task_class = JsonRefusal

    def busy(self) -> bool:
        """Return whether a request or an answer is under way."""
        return bool(self.request or self.requests or self.total_outbufs_len)

    def overdue(self, now: float) -> bool:
        """Return whether the client took too long to send its request, or stopped reading a long answer."""
        request = self.request
        if request and not self.requests:
            limit_s = self.server.body_s if request.headers_finished else self.server.headers_s
            return bool(now - request.began > limit_s)
        return bool(self.total_outbufs_len > BUFFERED_BYTES and now - self.last_activity > IDLE_S)


class WebServer(TcpWSGIServer):
    channel_class = ClientConnection
    ending = False

    def __init__(self, application: Any, adj: Adjustments, headers_s: float, body_s: float) -> None:
        super().__init__(application, adj=adj)
        self.headers_s = headers_s
        self.body_s = body_s

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
        self.task_dispatcher.shutdown(timeout=1)

    def turn(self) -> None:
        """Wait for connections that can be read or written, and serve each of them once."""
        wasyncore.loop(timeout=1, use_poll=True, map=self._map, count=1)

    def end(self, number: int, frame: FrameType | None) -> None:
        self.ending = True
        self.pull_trigger()


def adjustments(bind: str) -> Adjustments:
    return Adjustments(
        listen=bind,
        threads=THREADS,
        connection_limit=CONNECTIONS,
        backlog=CONNECTIONS,
        channel_timeout=IDLE_S,
        cleanup_interval=1,
        max_request_header_size=HEADER_BYTES,
        max_request_body_size=bodylimits.PAGES + 1,  # waitress refuses a body of this size
        outbuf_high_watermark=BUFFERED_BYTES,
        clear_untrusted_proxy_headers=False,  # BEHIND_TLS_PROXY says whether they are trusted
        ident=None,
    )


def give_memory_back() -> None:
    """Let freed blocks of LARGE_BLOCK bytes and more return to the system.

    glibc raises this limit to the largest block that was freed (mallopt(3), M_MMAP_THRESHOLD), and each thread then
    keeps for ever what its largest request took.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def load_pages() -> None:
    """Load what the first request would load, and leave it out of garbage collections for ever.

    A full collection that looks at all of it stops every request for 150 ms, about once in ten pages.
    """
    from django.urls import get_resolver

    assert get_resolver().url_patterns
    gc.collect()
    gc.freeze()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m speedtrack web", description=__doc__)
    parser.add_argument("--bind", default="127.0.0.1:8000", metavar="HOST:PORT")
    parser.add_argument("--headers-s", type=float, default=HEADERS_S, help="for the headers of a request")
    parser.add_argument("--body-s", type=float, default=BODY_S, help="for a whole request")
    options = parser.parse_args(arguments)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    give_memory_back()
    from django.conf import settings

    from speedtrack.wsgi import application  # late: it loads Django

    JsonRefusal.headers = browserheaders.without_page(settings.SECURE_HSTS_SECONDS)
    try:
        server = WebServer(application, adjustments(options.bind), options.headers_s, options.body_s)
    except OSError as e:
        sys.exit(f"error: {options.bind} cannot be served here ({e.strerror}): name another address with --bind")
    load_pages()
    server.run()


if __name__ == "__main__":
    main(sys.argv[1:])
