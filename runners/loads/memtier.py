"""memtier_benchmark: command lines and report."""

from collections.abc import Mapping

from pydantic import Field
from pydantic.dataclasses import dataclass

from runners.documents import STRICT, Count, parse
from runners.errors import BenchmarkFailed
from runners.loads.report import ToolReport, Workload, load_json, rate_and_latency
from runners.loads.target import Target

REPORT = "memtier.json"
PATTERNS = {"uniform": "R", "sequential": "S", "gaussian": "G", "zipf": "Z"}
PROTOCOLS = {"resp": "redis", "memcached": "memcache_text"}


@dataclass(frozen=True, config=STRICT)
class _Latencies:
    p50_ms: float = Field(alias="p50.00")
    p99_ms: float = Field(alias="p99.00")


@dataclass(frozen=True, config=STRICT)
class _Totals:
    requests: Count = Field(alias="Count")
    rate: float = Field(alias="Ops/sec")
    misses: float = Field(alias="Misses/sec")
    connection_errors: int = Field(alias="Connection Errors")
    latencies: _Latencies = Field(alias="Percentile Latencies")


@dataclass(frozen=True, config=STRICT)
class _Runtime:
    interrupted: str = Field(alias="Interrupted", default="false")


@dataclass(frozen=True, config=STRICT)
class _Stats:
    totals: _Totals = Field(alias="Totals")
    runtime: _Runtime = Field(alias="Runtime", default=_Runtime())


@dataclass(frozen=True, config=STRICT)
class _MemtierReport:
    """The part of memtier's JSON (format version 2) that is read; its times are milliseconds."""

    stats: _Stats = Field(alias="ALL STATS")


def memtier_arguments(workload: Workload, target: Target) -> list[str]:
    threads = workload.get("threads", 1)
    keys, pattern = workload["keys"], PATTERNS[workload["keys"].get("distribution", "uniform")]
    shape = {
        "threads": threads,
        "clients": workload["clients"] // threads,
        "requests": max(1, workload["requests"] // workload["clients"]),
        "pipeline": workload["pipeline"],
        "ratio": memtier_ratio(workload["test"]),
        "key-pattern": f"{pattern}:{pattern}",
        "json-out-file": REPORT,
    }
    if "exponent" in keys:
        shape["key-zipf-exp"] = keys["exponent"]
    if "deviation" in keys:
        shape["key-stddev"] = keys["deviation"] * keys["count"]
    return [*_address(target), "--hide-histogram", "--distinct-client-seed", *_long(shape), *_items(workload)]


def memtier_fill(workload: Workload, target: Target) -> list[str]:
    """The command line that sets every key once."""
    shape = {"threads": 1, "clients": 1, "requests": "allkeys", "pipeline": 16, "ratio": "1:0", "key-pattern": "P:P"}
    return [*_address(target), *_long(shape), *_items(workload)]


def memtier_ratio(test: str) -> str:
    """The ratio of memtier's SETs to GETs for a test: `1:9` for `get:9+set:1`."""
    weights = {"set": "0", "get": "0"}
    for term in test.split("+"):
        name, _, weight = term.partition(":")
        weights[name] = weight or "1"
    return f"{weights['set']}:{weights['get']}"


def read_memtier(text: str, workload: Workload) -> ToolReport:
    """The totals of memtier's JSON. Raises BenchmarkFailed, Permanent."""
    document = "memtier's JSON"
    stats = parse(_MemtierReport, load_json(text, document), document).stats
    totals = stats.totals
    if stats.runtime.interrupted != "false":
        raise BenchmarkFailed("memtier's run was cut short, so it is no measurement")
    if totals.connection_errors:
        raise BenchmarkFailed(f"memtier had {totals.connection_errors} connection errors")
    if workload["prefill"] and totals.misses:
        raise BenchmarkFailed("wrong answer: memtier missed keys that its own prefill had set")
    p50_us, p99_us = 1000 * totals.latencies.p50_ms, 1000 * totals.latencies.p99_ms
    return ToolReport(totals.requests, rate_and_latency(totals.rate, p50_us, p99_us))


def _address(target: Target) -> list[str]:
    address = target.address
    unix = address.transport == "unix"
    where = {"unix-socket": address.socket_path} if unix else {"server": "127.0.0.1", "port": address.port}
    return _long(where | {"protocol": PROTOCOLS[target.protocol]})


def _items(workload: Workload) -> list[str]:
    """The options for the keys and for the values stored under them."""
    sizes, ttl = workload["values"], workload.get("ttl_s")
    items: dict[str, object] = {"key-minimum": 1, "key-maximum": workload["keys"]["count"]}
    if "bytes" in sizes:
        items["data-size"] = sizes["bytes"]
    elif "range" in sizes:
        items["data-size-range"] = "-".join(map(str, sizes["range"]))
    else:
        items["data-size-list"] = ",".join(f"{size}:{weight}" for size, weight in sizes["weighted"])
    if ttl:
        items["expiry-range"] = "-".join(map(str, ttl if isinstance(ttl, list) else [ttl, ttl]))
    return _long(items)


def _long(options: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]
