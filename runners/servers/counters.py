"""The counters that a server keeps itself (`INFO`, `stats`).

They are read before and after a whole load, prefill and warm-up included: they show what was asked of the server, and
nothing is computed from them.
"""

import contextlib
import socket
from collections.abc import Mapping

from runners.servers.server import Address

LONGEST_REPLY = 1 << 20
LONGEST_LINE = 4096
MOST_LINES = LONGEST_REPLY // LONGEST_LINE
REQUESTS = {"resp": b"*1\r\n$4\r\nINFO\r\n", "memcached": b"stats\r\n"}
# The counters that are kept of the reply.
COUNTERS = {
    "resp": (
        "total_commands_processed",
        "keyspace_hits",
        "keyspace_misses",
        "evicted_keys",
        "expired_keys",
        "total_net_input_bytes",
        "total_net_output_bytes",
        "used_cpu_user",
        "used_cpu_sys",
    ),
    "memcached": (
        "cmd_get",
        "cmd_set",
        "cmd_touch",
        "cmd_meta",
        "get_hits",
        "get_misses",
        "evictions",
        "reclaimed",
        "bytes_read",
        "bytes_written",
        "rusage_user",
        "rusage_system",
    ),
}


def own_counters(address: Address, protocol: str) -> dict[str, float]:
    """The counters since the start of the server, by the server's own names; empty if it does not report them."""
    reply = ""
    with contextlib.suppress(OSError), address.connect() as connection:
        connection.sendall(REQUESTS[protocol])
        reply = (_bulk if protocol == "resp" else _until_end)(connection)
    return _select(reply, COUNTERS[protocol])


def counter_growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By counter that is in both: the difference."""
    return {name: round(after[name] - before[name], 6) for name in before if name in after}


def _bulk(connection: socket.socket) -> str:
    """A RESP bulk string; empty for an error reply."""
    with connection.makefile("rb") as stream:
        header = stream.readline(64)
        length = header[1:].strip()
        if not header.startswith(b"$") or not length.isdigit():
            return ""
        return stream.read(min(int(length), LONGEST_REPLY)).decode(errors="replace")


def _until_end(connection: socket.socket) -> str:
    """The lines of memcached's `stats` before END, without the word STAT; empty for an error."""
    lines: list[str] = []
    with connection.makefile("rb") as stream:
        while (line := stream.readline(LONGEST_LINE)).startswith(b"STAT ") and len(lines) < MOST_LINES:
            lines.append(line.decode(errors="replace").removeprefix("STAT ").strip().replace(" ", ":", 1))
    return "\n".join(lines)


def _select(reply: str, names: tuple[str, ...]) -> dict[str, float]:
    pairs = dict(line.split(":", 1) for line in reply.splitlines() if ":" in line)
    numbers = {}
    for name in names:
        with contextlib.suppress(KeyError, ValueError):
            numbers[name] = float(pairs[name])
    return numbers
