"""The ASGI application of the streams: addresses, headers, limits, and the end of each connection."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from speedtrack.http.clientaddress import named_by_proxy, network_of
from speedtrack.processes.live.streams import QUEUE, Streams, Subject, wait_for
from speedtrack.runs.tickets import viewer_of

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

RUN = re.compile(r"/live/runs/([1-9][0-9]{0,17})(?:/([\w:-]{1,120}))?")
POSITION = re.compile(r"[1-9][0-9]{0,8}|v[0-9a-f]{12}")
MOST_VIEWERS = 1000
SEND_S = 30.0  # a viewer that reads nothing for so long is disconnected
FIRST_LOOK_S = 10.0
PLAIN = (b"content-type", b"text/plain; charset=utf-8")
STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx passes each event on at once
]
RETRY_LATER = (b"retry-after", b"10")
ALWAYS = [(b"vary", b"Origin")]  # the server adds the headers of browserheaders.py


class StreamRequest(NamedTuple):
    """The request for a stream: the number of the subject, the id of the viewer's last event, and the viewer."""

    number: int
    last: str
    viewer: int | None
    is_head: bool


class StreamRefused(Exception):
    """The refusal of a stream: a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Application:
    """The only one of a process. ``streams`` exists from the start of the server on."""

    streams: Streams

    def __init__(self, make: Callable[[], Streams] = Streams, per_address: int = MOST_VIEWERS) -> None:
        self.make, self.per_address = make, per_address
        self.viewers: Counter[str | None] = Counter()  #: by their addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.live(receive, send)
        elif scope["type"] == "http":
            await self.answer(scope, receive, send)

    async def live(self, receive: Receive, send: Send) -> None:
        """Run the loop of the streams from the start of the server to its end."""
        self.streams = self.make()
        looking = asyncio.create_task(self.streams.run())
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        self.streams.thread.shutdown()
        await send({"type": "lifespan.shutdown.complete"})

    def stop(self) -> None:
        """End all streams."""
        self.streams.stop()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        cors_headers = cross_origin(headers.get("origin", ""))
        try:
            check(scope, headers)
            if scope["path"] == "/live/healthz":
                raise StreamRefused(200, "ok")
            request = asked_of(scope, headers)
            with self.place_of(address_of(scope, headers)):
                await self.stream(request, cors_headers, receive, send)
        except StreamRefused as e:
            body = f"{e.sentence}\n".encode()
            length = (b"content-length", str(len(body)).encode())
            later = [RETRY_LATER] if e.status in (429, 503) else []
            start = {"status": e.status, "headers": [PLAIN, length, *later, *ALWAYS, *cors_headers]}
            await send({"type": "http.response.start"} | start)
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    @contextmanager
    def place_of(self, address: str | None) -> Iterator[None]:
        """Count a viewer during the block. Raises StreamRefused if there are too many, in all or from the address."""
        if self.viewers.total() >= MOST_VIEWERS:
            raise StreamRefused(503, f"There are {MOST_VIEWERS} viewers already.")
        if address and self.viewers[address] >= self.per_address:
            raise StreamRefused(429, f"There are {self.per_address} viewers from your address already.")
        self.viewers[address] += 1
        try:
            yield
        finally:
            self.viewers -= Counter([address])  # drops addresses whose count is zero

    async def stream(
        self, request: StreamRequest, cors_headers: list[tuple[bytes, bytes]], receive: Receive, send: Send
    ) -> None:
        subject = self.streams.enter(request.number)
        try:
            await known(subject, request.viewer)
            await send({"type": "http.response.start", "status": 200, "headers": [*STREAM, *ALWAYS, *cors_headers]})
            if request.is_head:
                await send({"type": "http.response.body", "body": b""})
                return
            pumping = asyncio.create_task(self.pump(subject, request, send))
            leaving = asyncio.create_task(gone(receive))
            _, pending = await asyncio.wait((pumping, leaving), return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.gather(pumping, leaving, return_exceptions=True)
        finally:
            self.streams.leave(request.number)

    async def pump(self, subject: Subject, request: StreamRequest, send: Send) -> None:
        """Send events until there are no more, or the viewer stops reading."""
        async for piece in self.streams.events(subject, request.last, request.viewer):
            async with asyncio.timeout(SEND_S):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def check(scope: Scope, headers: dict[str, str]) -> None:
    """Refuse requests that our pages never make.

    That includes requests by another site whose name leads here (DNS rebinding).
    """
    if scope["method"] not in ("GET", "HEAD"):
        raise StreamRefused(405, "Streams are read with GET.")
    host, _ = split_domain_port(headers.get("host", ""))
    if not host or not validate_host(host, settings.ALLOWED_HOSTS):
        raise StreamRefused(400, "ALLOWED_HOSTS does not have this name.")


def address_of(scope: Scope, headers: dict[str, str]) -> str | None:
    """The address of a viewer; None if it is unknown, as behind a proxy that does not send it."""
    if settings.BEHIND_TLS_PROXY:
        return named_by_proxy(headers.get("x-forwarded-for", ""))
    return network_of(scope["client"][0]) if scope.get("client") else None


def cross_origin(origin: str) -> list[tuple[bytes, bytes]]:
    """The header that allows pages of the web server, under each of its names, to read the stream.

    Other sites may not read it: public projects may be on a private network.
    """
    with suppress(ValueError):
        own, asking = urlsplit(settings.URL), urlsplit(origin)
        same = (own.scheme, own.port) == (asking.scheme, asking.port)
        host, _ = split_domain_port(asking.netloc)  # as in ALLOWED_HOSTS: IPv6 in brackets
        if same and host and validate_host(host, settings.ALLOWED_HOSTS):
            return [(b"access-control-allow-origin", origin.encode("latin-1"))]
    return []


def asked_of(scope: Scope, headers: dict[str, str]) -> StreamRequest:
    """The request in an address. A page that connects again gives the id of its last event in ``at``."""
    query = parse_qs(scope["query_string"].decode("latin-1")[:200])
    last = headers.get("last-event-id") or query.get("at", [""])[0]
    last = last if POSITION.fullmatch(last) else ""
    is_head = scope["method"] == "HEAD"
    if scope["path"] == "/live/queue":
        return StreamRequest(QUEUE, last, None, is_head)
    if run := RUN.fullmatch(scope["path"]):
        return StreamRequest(int(run[1]), last, viewer_of(run[2], int(run[1])) if run[2] else None, is_head)
    raise StreamRefused(404, "There is no such stream.")


async def known(subject: Subject, viewer: int | None) -> None:
    """Wait until a subject was read. Raises StreamRefused if it does not exist, or if the database does not answer.

    For viewers who may not see it, it does not exist.
    """
    if subject.is_known is None:
        await wait_for(subject.changed, FIRST_LOOK_S)
    if subject.is_known is None:
        raise StreamRefused(503, "The database does not answer.")
    if subject.state is None or not subject.state.may_be_seen_by(viewer):
        raise StreamRefused(404, "There is no such run.")


async def gone(receive: Receive) -> None:
    """Wait until the viewer has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
