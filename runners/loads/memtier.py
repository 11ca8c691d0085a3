"""memtier_benchmark: command lines and report."""

from collections.abc import Mapping

from runners.errors import BenchmarkFailed
from runners.loads.report import ToolReport, Workload, parse_json, rate_and_latency
from runners.loads.target import Target

REPORT = "memtier.json"
PATTERNS = {"uniform": "R", "sequential": "S", "gaussian": "G", "zipf": "Z"}
PROTOCOLS = {"resp": "redis", "memcached": "memcache_text"}


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
    """`get:9+set:1` as memtier's SETs to GETs, `1:9`."""
    weights = {"set": "0", "get": "0"}
    for part in test.split("+"):
        name, _, weight = part.partition(":")
        weights[name] = weight or "1"
    return f"{weights['set']}:{weights['get']}"


def read_memtier(text: str, workload: Workload) -> ToolReport:
    """The totals of memtier's JSON (format version 2); its times are milliseconds."""
    totals = parse_json(text, "memtier's JSON").child("ALL STATS").child("Totals")
    if totals.integer("Connection Errors"):
        raise BenchmarkFailed(f"memtier had {totals.integer('Connection Errors')} connection errors")
    if workload["prefill"] and totals.number("Misses/sec"):
        raise BenchmarkFailed("wrong answer: memtier missed keys that its own prefill had set")
    percentiles = totals.child("Percentile Latencies")
    p50, p99 = percentiles.number("p50.00"), percentiles.number("p99.00")
    return ToolReport(totals.count("Count"), rate_and_latency(totals.number("Ops/sec"), 1000 * p50, 1000 * p99))


def _address(target: Target) -> list[str]:
    address = target.address
    unix = address.transport == "unix"
    where = {"unix-socket": address.socket_path} if unix else {"server": "127.0.0.1", "port": address.port}
    return _long(where | {"protocol": PROTOCOLS[target.protocol]})


def _items(workload: Workload) -> list[str]:
    """The options that say which keys there are, and what is stored under them."""
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
