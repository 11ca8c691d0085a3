"""``python -m speedtrack.processes.live --bind HOST:PORT``: the streams of changes, for all viewers."""

import argparse
import asyncio
import os
import resource
import socket
import sys
from collections.abc import Callable

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from speedtrack.http import browserheaders
from speedtrack.http.clientaddress import network_of

CONNECTIONS = 1200  # beyond them, uvicorn answers 503 by itself
PER_ADDRESS = 250  # viewers from one address
MORE_CONNECTIONS = 50  # of an address, so that a viewer beyond its share gets an answer
OPEN_FILES = 2 * CONNECTIONS
HEADERS_S = 10  # from the begin of a connection, or the end of an answer, to the end of a request's headers
END_S = 3
END_LOOK_S = 1.0  # between two looks whether to end, each of which also sets the header Date


class Protocol(H11Protocol):
    """Refuses invalid HTTP and connections beyond an address's share, and ends connections without a request."""

    per_address: int | None = PER_ADDRESS + MORE_CONNECTIONS  #: None behind a proxy, which connects for all its clients
    address: str | None = None
    arriving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.wait_for_request()
        if self.per_address is None or not self.client:
            return
        self.address = network_of(self.client[0])
        same = sum(
            connection.address == self.address for connection in self.connections if isinstance(connection, Protocol)
        )
        if self.address and same > self.per_address:
            self.refuse(429, [(b"retry-after", b"10")])

    def wait_for_request(self) -> None:
        if self.arriving:
            self.arriving.cancel()
        self.arriving = self.loop.call_later(HEADERS_S, self.end_without_request)

    def end_without_request(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.arriving:
            self.arriving.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.wait_for_request()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, [])

    def refuse(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer without a body, because the request may have been HEAD, and end the connection."""
        headers += [(b"content-length", b"0"), (b"connection", b"close"), *self.server_state.default_headers]
        for event in (h11.Response(status_code=status, headers=headers), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class StreamServer(uvicorn.Server):
    """Ends the streams when it is stopped: viewers would stay for ever, and their pages connect again."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None]) -> None:
        super().__init__(config)
        self.stop = stop

    async def main_loop(self) -> None:
        """Look once a second whether to end, not ten times as uvicorn does: mostly nobody watches."""
        while not await self.on_tick(0):
            await asyncio.sleep(END_LOOK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.stop()
        await super().shutdown(sockets)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m speedtrack live", description=__doc__)
    parser.add_argument("--bind", default="127.0.0.1:8001", metavar="HOST:PORT")
    parser.add_argument("--per-address", type=int, default=PER_ADDRESS, help="viewers at once; more are refused")
    options = parser.parse_args(arguments)
    host, _, port = options.bind.rpartition(":")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")
    import django

    django.setup()
    from django.conf import settings

    from speedtrack.processes.live.app import Application  # late: it loads Django's models

    try:
        listening = socket.create_server((host.strip("[]"), int(port)), backlog=CONNECTIONS)
    except (OSError, ValueError, OverflowError) as e:
        sys.exit(f"error: {options.bind} cannot be served here ({e}): name another address with --bind")
    application = Application(per_address=options.per_address)
    Protocol.per_address = None if settings.BEHIND_TLS_PROXY else options.per_address + MORE_CONNECTIONS
    config = uvicorn.Config(
        application,
        loop="asyncio",
        http=Protocol,
        headers=browserheaders.without_page(settings.SECURE_HSTS_SECONDS),
        ws="none",
        lifespan="on",
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        log_level="warning",
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=END_S,
        h11_max_incomplete_event_size=16 * 1024,
    )
    StreamServer(config, application.stop).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1:])
