"""Ports for servers that are told where to listen: free until they do, though other tests run beside."""

import contextlib
import random
import socket
from pathlib import Path

LOWEST, HIGHEST = 10_000, 65_536
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(count: int = 1) -> int:
    """Return the first of this many free TCP ports, outside of the range from which the kernel assigns ports.

    One of the kernel's own range may be another's before the server listens: of a listener on port 0, or of a client.
    """
    first = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32_768
    ports = range(LOWEST, first if first > LOWEST else HIGHEST)
    while True:
        port = random.choice(ports)
        with contextlib.suppress(OSError), contextlib.ExitStack() as listening:
            for following in range(count):
                listening.enter_context(socket.create_server(("", port + following)))
            return port
