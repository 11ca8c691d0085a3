"""What the server did: what the driver read of its process in the window, and what the server itself has counted.

User and system time are a split of the exact CPU time by the clock ticks that met them (how well: the driver's README).
The server's own counters (`INFO`, `stats`) are read before and after the whole load, prefill and warm-up included: they
tell what was asked of the server, and are divided by nothing.
"""

import contextlib
import socket
from collections.abc import Mapping
from typing import Any

from runners.servers.server import Address

LONGEST_ANSWER = 1 << 20
# By protocol: the question, and what is kept of the answer.
_QUESTIONS = {
    "resp": (
        b"*1\r\n$4\r\nINFO\r\n",
        (
            "total_commands_processed", "keyspace_hits", "keyspace_misses", "evicted_keys", "expired_keys",
            "total_net_input_bytes", "total_net_output_bytes", "used_cpu_user", "used_cpu_sys",
        ),
    ),
    "memcached": (
        b"stats\r\n",
        (
            "cmd_get", "cmd_set", "cmd_touch", "cmd_meta", "get_hits", "get_misses", "evictions", "reclaimed",
            "bytes_read", "bytes_written", "rusage_user", "rusage_system",
        ),
    ),
}  # fmt: skip
EVENTS = {"instructions": "instructions_per_request", "cycles": "cycles_per_request"}  # of the kernel, by metric
# By metric: the fields of the driver's `server` object that are divided by the requests of the window.
_PER_REQUEST = {
    "server_user_ns_per_request": ("user_ns",),
    "server_system_ns_per_request": ("system_ns",),
    "context_switches_per_request": ("voluntary_switches", "involuntary_switches"),
}


def own_counters(address: Address, protocol: str) -> dict[str, float]:
    """What the server says it has done since it started, in its own words; nothing where it does not tell."""
    question, names = _QUESTIONS[protocol]
    answer = ""
    with contextlib.suppress(OSError), address.connect() as connection:
        connection.sendall(question)
        answer = (_bulk if protocol == "resp" else _until_end)(connection)
    return _kept(answer, names)


def growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was counted between two readings; only what is in both."""
    return {name: round(after[name] - before[name], 6) for name in before if name in after}


def of_trial(document: Mapping[str, Any], stats: Mapping[str, float]) -> dict[str, Any]:
    """The `server` object of a trial: what a driver's document tells of the server, and the growth of its counters."""
    test = document["tests"][-1] if "tests" in document else {}
    used = test.get("server") or {}
    prefill = document.get("prefill") or {}
    memory = prefill.get("server_memory") or {}
    told = {
        "cpu_user_ns": used.get("user_ns"),
        "cpu_system_ns": used.get("system_ns"),
        **{name: used.get(name) for name in _COUNTS},
        "rss_before_prefill_bytes": memory.get("before_bytes"),
        "rss_after_prefill_bytes": memory.get("after_bytes"),
        "keys": prefill.get("keys_in_server"),
    }
    return {name: value for name, value in told.items() if value is not None} | {"stats": dict(stats)}


_COUNTS = ("voluntary_switches", "involuntary_switches", "minor_faults", "major_faults")


def metrics(document: Mapping[str, Any]) -> dict[str, float]:
    """The metrics in it, those above 0: a clock tick may have met nothing, a small key space may need no new memory."""
    test = document["tests"][-1]
    used, prefill = test.get("server") or {}, document.get("prefill") or {}
    found = {
        name: sum(used.get(field) or 0 for field in fields) / test["requests"] for name, fields in _PER_REQUEST.items()
    }
    counts = (test.get("server_events") or {}).get("counts", {})
    found |= {metric: counts.get(event, 0) / test["requests"] for event, metric in EVENTS.items()}
    found["bytes_per_key"] = (prefill.get("server_memory") or {}).get("bytes_per_key", 0.0)
    return {name: value for name, value in found.items() if value > 0}


def _bulk(connection: socket.socket) -> str:
    """A RESP bulk string; nothing for an error reply."""
    with connection.makefile("rb") as stream:
        header = stream.readline(64)
        length = header[1:].strip()
        if not header.startswith(b"$") or not length.isdigit():
            return ""
        return stream.read(min(int(length), LONGEST_ANSWER)).decode(errors="replace")


def _until_end(connection: socket.socket) -> str:
    """The lines of memcached's `stats` before END, without the word STAT; nothing for an error."""
    lines: list[str] = []
    with connection.makefile("rb") as stream:
        while (line := stream.readline(4096)).startswith(b"STAT ") and len(lines) < LONGEST_ANSWER // 4096:
            lines.append(line.decode(errors="replace").removeprefix("STAT ").strip().replace(" ", ":", 1))
    return "\n".join(lines)


def _kept(answer: str, names: tuple[str, ...]) -> dict[str, float]:
    pairs = dict(line.split(":", 1) for line in answer.splitlines() if ":" in line)
    found = {}
    for name in names:
        with contextlib.suppress(KeyError, ValueError):
            found[name] = float(pairs[name])
    return found
