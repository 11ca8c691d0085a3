"""A network between two programs of one host that may be cut, half-open or slow: a TCP proxy at a port of its own."""

import contextlib
import socket
import threading
import time
from enum import StrEnum

CHUNK = 64 * 1024
POLL_S = 0.05


class Condition(StrEnum):
    """What becomes of bytes and connections."""

    SOUND = "sound"
    CUT = "cut"  #: every connection is reset, and new ones are too
    HALF_OPEN = "half-open"  #: connections stay and are accepted, but nothing arrives on either side
    SLOW = "slow"  #: each piece of up to 64 KB takes ``delay_s`` longer


class Network:
    """Forwards connections at ``url`` to a port of this host, as its condition allows."""

    def __init__(self, to_port: int, delay_s: float = 0.3) -> None:
        self.to_port, self.delay_s = to_port, delay_s
        self.condition = Condition.SOUND
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.open: set[socket.socket] = set()
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set(self, condition: Condition) -> None:
        self.condition = condition
        if condition == Condition.CUT:
            with self.lock:
                for connection in self.open:
                    reset(connection)

    def close(self) -> None:
        self.set(Condition.CUT)
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._connect, args=[client], daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        """Open the other side once the network is sound, and forward in both directions until either side ends."""
        while self.condition == Condition.HALF_OPEN:
            time.sleep(POLL_S)
        try:
            if self.condition == Condition.CUT:
                raise OSError("the network is cut")
            server = socket.create_connection(("127.0.0.1", self.to_port), 5)
        except OSError:
            reset(client)
            return
        server.settimeout(None)
        with self.lock:
            self.open |= {client, server}
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=[source, target], daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(CHUNK):
                while self.condition == Condition.HALF_OPEN:
                    time.sleep(POLL_S)
                if self.condition == Condition.SLOW:
                    time.sleep(self.delay_s)
                target.sendall(piece)
        with self.lock:
            self.open -= {source, target}
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def reset(connection: socket.socket) -> None:
    """Close so that the other end gets an RST, as behind a broken line."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()
