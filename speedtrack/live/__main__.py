"""``python -m speedtrack.live --bind HOST:PORT``: the streams of what changes, for all viewers."""

import argparse
import os
import resource
import socket
import sys
from collections.abc import Callable

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from speedtrack import browserheaders

CONNECTIONS = 1200  # beyond them, uvicorn answers 503 by itself
OPEN_FILES = 2 * CONNECTIONS
END_S = 3


class Protocol(H11Protocol):
    """Refuses what is no HTTP with the headers that all other answers have."""

    def send_400_response(self, msg: str) -> None:
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        headers += self.server_state.default_headers
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=msg.encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """Ends the streams when it is told to stop: viewers would stay for ever, and they come back by themselves."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None]) -> None:
        super().__init__(config)
        self.stop = stop

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.stop()
        await super().shutdown(sockets)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m speedtrack live", description=__doc__)
    parser.add_argument("--bind", default="127.0.0.1:8001", metavar="HOST:PORT")
    options = parser.parse_args(arguments)
    host, _, port = options.bind.rpartition(":")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")
    import django

    django.setup()
    from django.conf import settings

    from speedtrack.live.app import Application  # late: it loads Django's models

    try:
        listening = socket.create_server((host.strip("[]"), int(port)), backlog=CONNECTIONS)
    except (OSError, ValueError, OverflowError) as e:
        sys.exit(f"error: {options.bind} cannot be served here ({e}): name another address with --bind")
    application = Application()
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
    Server(config, application.stop).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1:])
