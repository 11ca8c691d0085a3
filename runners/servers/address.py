"""The address of a measured server, and a name of its socket that only the runner can change."""

import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from runners.foreign import UnusableFile
from runners.sandbox.running import RunningSandbox

CONNECT_S = 1.0


@dataclass(frozen=True)
class Address:
    """The address of the server; the transport decides whether port or socket is used.

    `network`: the sandbox in whose network the port is, if not in the host's. A unix socket needs none.
    """

    transport: str
    port: int
    socket_path: Path
    network: RunningSandbox | None = None

    def connect(self, within_s: float = CONNECT_S) -> socket.socket:
        """A connected socket. Raises OSError."""
        peer: tuple[str, int] | str = str(self.socket_path)
        if self.transport == "tcp":
            connection, peer = self.network.socket() if self.network else socket.socket(), ("127.0.0.1", self.port)
        else:
            connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(within_s)
        try:
            connection.connect(peer)
        except OSError:
            connection.close()
            raise
        return connection


def take_socket(bound: Path, target: Path) -> None:
    """Gives a server's socket a second name, `target`, in a directory where the server cannot write.

    The server may replace `bound` at any time by a link to a socket that it cannot reach itself. The driver, which runs
    outside of the sandbox, could reach it. Raises UnusableFile if it is no socket, OSError if it cannot be taken.
    """
    handle = os.open(bound, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(handle).st_mode):
            raise UnusableFile(f"{bound} is not a socket")
        target.unlink(missing_ok=True)
        directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # With a directory's descriptor, linkat(2) follows this path to the opened file; link(2) would not.
            os.link(f"/proc/self/fd/{handle}", target.name, dst_dir_fd=directory)
        finally:
            os.close(directory)
    finally:
        os.close(handle)
