"""The counters that a server keeps itself (`INFO`, `stats`).

They are read before and after a whole load, prefill and warm-up included: they show what was asked of the server, and
nothing is computed from them.
"""

import contextlib
import math
from collections.abc import Mapping

from runners.servers.answers import receive
from runners.servers.server import Address

LONGEST_REPLY = 1 << 20
LONGEST_LINE = 4096
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
    reply = b""
    with contextlib.suppress(OSError), address.connect() as connection:
        connection.sendall(REQUESTS[protocol])
        reply = receive(connection, is_bulk if protocol == "resp" else is_listing, LONGEST_REPLY)
    return _select(reply.decode(errors="replace"), COUNTERS[protocol])


def counter_growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By counter that is in both: the difference."""
    return {name: round(after[name] - before[name], 6) for name in before if name in after}


def is_bulk(reply: bytes) -> bool:
    """Return whether this is a whole RESP bulk string, or something else."""
    header, ended, rest = reply.partition(b"\r\n")
    if not ended:
        return len(reply) > LONGEST_LINE
    length = header[1:]
    return not (header.startswith(b"$") and length.isdigit() and len(length) < 10) or len(rest) >= int(length) + 2


def is_listing(reply: bytes) -> bool:
    """Return whether this is all of memcached's `stats`, or something else."""
    return reply.endswith(b"END\r\n") or (len(reply) >= 5 and not reply.startswith(b"STAT "))


def _select(reply: str, names: tuple[str, ...]) -> dict[str, float]:
    """The finite numbers of these names, in lines such as `name:1` or `STAT name 1`."""
    lines = (line.removeprefix("STAT ").strip().replace(" ", ":", 1) for line in reply.splitlines())
    pairs = dict(line.split(":", 1) for line in lines if ":" in line)
    numbers = {}
    for name in names:
        with contextlib.suppress(KeyError, ValueError):
            numbers[name] = float(pairs[name])
    return {name: number for name, number in numbers.items() if math.isfinite(number)}
