"""The counters that a server keeps itself (`INFO`, `stats`).

They are read before and after a whole load, prefill and warm-up included: they show the server's work, and nothing is
computed from them.
"""

import contextlib
import math
from collections.abc import Mapping

from runners.servers.address import Address
from runners.servers.answers import ServerRequest, ask

REPLY_S, LONGEST_REPLY = 5.0, 1 << 20
LONGEST_HEADER = 64
STAT, STATS_END = b"STAT ", b"\r\nEND\r\n"
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
    is_whole, text_of = (is_whole_bulk, bulk_text) if protocol == "resp" else (is_whole_stats, stats_text)
    reply = b""
    with contextlib.suppress(OSError):
        reply = ask(address, ServerRequest(REQUESTS[protocol], is_whole, REPLY_S, LONGEST_REPLY))
    return _select(text_of(reply), COUNTERS[protocol])


def counter_growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The difference of each counter that is in both, if it is a finite number."""
    growth = {name: round(after[name] - before[name], 6) for name in before if name in after}
    return {name: value for name, value in growth.items() if math.isfinite(value)}


def bulk_length(reply: bytes) -> int | None:
    """Bytes of a RESP bulk string with its header; None while the header is not whole, 0 for any other reply."""
    header, newline, _ = reply[:LONGEST_HEADER].partition(b"\n")
    length = header[1:].strip()
    if not newline and len(reply) < LONGEST_HEADER:
        return None
    return len(header) + 1 + int(length) if newline and header.startswith(b"$") and length.isdigit() else 0


def is_whole_bulk(reply: bytes) -> bool:
    length = bulk_length(reply)
    return length is not None and len(reply) >= length


def bulk_text(reply: bytes) -> str:
    """The text of a RESP bulk string, as far as it was received; empty for an error reply."""
    return reply[: bulk_length(reply) or 0].partition(b"\n")[2].decode(errors="replace")


def is_whole_stats(reply: bytes) -> bool:
    """Whether memcached's `stats` have ended, or it is an error reply."""
    return reply.endswith(STATS_END) or not STAT.startswith(reply[: len(STAT)])


def stats_text(reply: bytes) -> str:
    """The lines of memcached's `stats`, without the word STAT; empty for an error."""
    lines = (line for line in reply.splitlines() if line.startswith(STAT))
    return "\n".join(line.removeprefix(STAT).decode(errors="replace").replace(" ", ":", 1) for line in lines)


def _select(reply: str, names: tuple[str, ...]) -> dict[str, float]:
    pairs = dict(line.split(":", 1) for line in reply.splitlines() if ":" in line)
    numbers = {}
    for name in names:
        with contextlib.suppress(KeyError, ValueError):
            numbers[name] = float(pairs[name])
    return {name: number for name, number in numbers.items() if math.isfinite(number)}
