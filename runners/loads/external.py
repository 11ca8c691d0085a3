"""Load generators of others: redis-benchmark (and valkey-benchmark), memtier_benchmark, and a command of one's own.

Their word is taken for throughput and latency. The server's CPU time is read here, over the whole run of the tool, so
its connecting is in it. What a suite may ask of each is checked in speedtrack/benchmarks/external.py.
"""

import json
import math
import os
import re
import resource
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.documents import Benchmark, Fields
from runners.errors import BenchmarkFailed, Permanent, Transient
from runners.loads.speedbench import (
    NO_CPU,
    SLOWEST_REQUESTS_PER_S,
    Driver,
    Outcome,
    Target,
    cpu_ns,
    last_line,
    only_prefill,
)
from runners.machine.environment import file_digest, first_line
from runners.machine.facts import UNKNOWN
from runners.processes.control import Control

SCHEMA = "speedtrack.external/1"
OWN_METRICS = ("throughput_rps", "latency_us_p50", "latency_us_p99")  # that a command may report
LEAST_TIME_S = 60.0
BUSY_LIMIT = 0.85  # of a core: above it the tool is what was measured (as with the native driver)
LONGEST_OUTPUT = 1 << 20  # bytes of a tool's report that are read
_CSV_LINE = re.compile(r'^"(?P<test>.*)"(?P<numbers>(?:,"[^",]*"){7})$')  # custom commands stand in it unquoted
_PLACEHOLDER = re.compile(r"\{(host|port|socket|output)\}")


@dataclass(frozen=True)
class Reading:
    """What a tool reports: requests answered, requests/s, microseconds."""

    requests: int
    metrics: dict[str, float]


Workload = Mapping[str, Any]


@dataclass(frozen=True)
class Tool:
    """A known program: its name on PATH, the setting that names it otherwise, its command lines and its report."""

    program: str
    setting: str
    arguments: Callable[[Workload, Target], list[str]]
    fill: Callable[[Workload, Target], list[str]] | None
    report: str
    read: Callable[[str, Workload], Reading]


@dataclass(frozen=True)
class External:
    """The tools of this machine, on the driver's CPUs. `paths`: settings that name a program."""

    driver: Driver
    paths: Mapping[str, str]

    def run(self, benchmark: Benchmark, target: Target, seed: int, control: Control) -> Outcome:
        """Loads the server once.

        Raises BenchmarkFailed with the tool's last words, Transient if it hung or was killed.
        """
        tool = TOOLS.get(benchmark.driver)
        if tool is None:
            argv, report = command_line(benchmark.command, self.program(benchmark), target), target.directory / OUTPUT
            return self._measured(argv, benchmark, target, control, lambda: read_own(_text(report)))
        program = str(self.program(benchmark))
        if benchmark.workload["prefill"]:
            self._prefill(tool, program, benchmark, target, seed, control)
        argv = [program, *tool.arguments(benchmark.workload, target)]
        report = target.directory / tool.report
        return self._measured(argv, benchmark, target, control, lambda: tool.read(_text(report), benchmark.workload))

    def loads(self, benchmark: Benchmark, target: Target) -> list[list[str] | Benchmark]:
        """What `run` does in turn, for people: command lines by the programs' names; a Benchmark is the driver's."""
        name = Path(self.program(benchmark)).name
        tool = TOOLS.get(benchmark.driver)
        if tool is None:
            return [command_line(benchmark.command, Path(name), target)]
        fill: list[list[str] | Benchmark] = []
        if benchmark.workload["prefill"]:
            fill = [[name, *tool.fill(benchmark.workload, target)] if tool.fill else only_prefill(benchmark)]
        return [*fill, [name, *tool.arguments(benchmark.workload, target)]]

    def program(self, benchmark: Benchmark) -> Path:
        """The path of the program. Raises BenchmarkFailed with the remedy where there is none."""
        tool = TOOLS.get(benchmark.driver)
        asked = self.paths.get(tool.setting) if tool else None
        name = asked or (tool.program if tool else shlex.split(benchmark.command)[0])
        found = shutil.which(name)
        if found is None:
            other = f", or set {tool.setting} to its path" if tool else ""
            raise BenchmarkFailed(f"{name} is not a program on this machine: install it on the runner's PATH{other}")
        return Path(found).absolute()

    def facts(self, benchmark: Benchmark) -> dict[str, str]:
        """What stands in the environment's place of the native driver: results of another program are another line."""
        path = self.program(benchmark)
        known = benchmark.driver in TOOLS
        version = first_line([str(path), "--version"], os.environ.get("PATH", "")) if known else UNKNOWN
        return {"driver": path.name, "driver_version": version, "driver_digest": file_digest(path)}

    def _prefill(
        self, tool: Tool, program: str, benchmark: Benchmark, target: Target, seed: int, control: Control
    ) -> None:
        if tool.fill is None:
            self.driver.prefill(benchmark, target, seed, control)
        else:
            argv = [program, *tool.fill(benchmark.workload, target)]
            self._finish(argv, target, _deadline_s(benchmark.workload["keys"]["count"]), control)

    def _measured(
        self, argv: list[str], benchmark: Benchmark, target: Target, control: Control, read: Callable[[], Reading]
    ) -> Outcome:
        timeout_s = _deadline_s(benchmark.workload["requests"]) if benchmark.workload else benchmark.timeout_s
        begin, server_before, own_before = time.monotonic(), cpu_ns(target.pid), children_s()
        self._finish(argv, target, timeout_s, control)
        server_ns, own_s = cpu_ns(target.pid) - server_before, children_s() - own_before
        wall_s = time.monotonic() - begin
        try:
            reading = read()
        except Permanent as error:  # of this one benchmark: the others of the run can be measured
            raise BenchmarkFailed(str(error)) from error
        if server_ns <= 0:
            raise BenchmarkFailed(NO_CPU)
        threads = benchmark.workload.get("threads", 1)
        document = {
            "schema": SCHEMA,
            "argv": argv,
            "workload": dict(benchmark.workload),
            "requests": reading.requests,
            "server_cpu_ns": server_ns,
            "client_cpu_ns": round(own_s * 1e9),
            "seconds": wall_s,
        }
        metrics = {"server_cpu_ns_per_request": server_ns / reading.requests} | reading.metrics
        return Outcome(metrics, ["client_bound"] if own_s > BUSY_LIMIT * wall_s * threads else [], document)

    def _finish(self, argv: list[str], target: Target, timeout_s: float, control: Control) -> None:
        output, errors = target.directory / STDOUT, target.directory / "tool.err"
        environment = {"LANG": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath)}
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            try:
                child = self.driver.processes.start(
                    argv,
                    environment,
                    target.directory,
                    stdout,
                    stderr,
                    self.driver.cpus,
                    self.driver.nodes,
                    network=target.address.network,
                )
            except OSError as error:
                raise BenchmarkFailed(f"{argv[0]} cannot be started: {error}") from error
        try:
            status = child.wait(control, timeout_s)
        finally:
            child.end()
        name, said = Path(argv[0]).name, last_line(errors) or last_line(output) or "it said nothing"
        if status is None:
            raise Transient(f"{name} did not end within {timeout_s:g} s: {said}")
        if status < 0:
            raise Transient(f"{name} was killed by signal {-status}: {said}")
        if status > 0:
            raise BenchmarkFailed(f"{name} ended with exit status {status}: {said}")


def children_s() -> float:
    """CPU seconds of the children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _deadline_s(requests: int) -> float:
    return LEAST_TIME_S + float(requests) / SLOWEST_REQUESTS_PER_S


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(LONGEST_OUTPUT).decode(errors="replace")
    except OSError as error:
        raise BenchmarkFailed(f"the tool wrote no {file.name}: it must write its report there ({error})") from error


def redis_benchmark_arguments(workload: Workload, target: Target) -> list[str]:
    """As redis-benchmark and valkey-benchmark take them."""
    command = ["-t", workload["test"]] if "test" in workload else _words(workload["commands"][0]["request"])
    options = {"-c": "clients", "-P": "pipeline", "-n": "requests"}
    counts = [word for option, key in options.items() for word in (option, str(workload[key]))]
    threads = ["--threads", str(workload["threads"])] if workload.get("threads", 1) > 1 else []
    sizes = ["-r", str(workload["keys"]["count"]), "-d", str(workload["values"]["bytes"])]
    return [*target.options, *counts, *threads, *sizes, "--csv", *command]


def _words(request: str | list[str]) -> list[str]:
    return shlex.split(request) if isinstance(request, str) else request


def read_redis_benchmark(text: str, workload: Workload) -> Reading:
    """The last line of the CSV of redis-benchmark 6.2 and later, or valkey-benchmark; its times are milliseconds."""
    lines = [match for line in text.splitlines() if (match := _CSV_LINE.match(line))]
    if len(lines) < 2 or lines[0]["test"] != "test":
        raise BenchmarkFailed(f"this is not the CSV of redis-benchmark 6.2 or later: {text.strip()[-200:]!r}")
    names = re.findall(r'"([^"]*)"', lines[0]["numbers"])
    numbers = dict(zip(names, re.findall(r'"([^"]*)"', lines[-1]["numbers"]), strict=True))
    try:
        rate, p50, p99 = (float(numbers[name]) for name in ("rps", "p50_latency_ms", "p99_latency_ms"))
    except (KeyError, ValueError) as error:
        raise BenchmarkFailed(f"redis-benchmark's CSV cannot be read ({error}): {lines[-1][0]}") from error
    if not math.isfinite(rate) or min(rate, p50, p99) <= 0:
        raise BenchmarkFailed(f"too short to be measured: raise requests ({lines[-1][0]})")
    return Reading(workload["requests"], _metrics(rate, 1000 * p50, 1000 * p99))


MEMTIER_PATTERNS = {"uniform": "R", "sequential": "S", "gaussian": "G", "zipf": "Z"}


def memtier_arguments(workload: Workload, target: Target) -> list[str]:
    threads = workload.get("threads", 1)
    connections = workload["clients"] // threads
    keys, pattern = workload["keys"], MEMTIER_PATTERNS[workload["keys"].get("distribution", "uniform")]
    shape = {
        "threads": threads,
        "clients": connections,
        "requests": max(1, workload["requests"] // workload["clients"]),
        "pipeline": workload["pipeline"],
        "ratio": memtier_ratio(workload["test"]),
        "key-pattern": f"{pattern}:{pattern}",
        "json-out-file": MEMTIER_REPORT,
    }
    if "exponent" in keys:
        shape["key-zipf-exp"] = keys["exponent"]
    if "deviation" in keys:
        shape["key-stddev"] = keys["deviation"] * keys["count"]
    return [
        *_memtier_target(target),
        "--hide-histogram",
        "--distinct-client-seed",
        *_long(shape),
        *_memtier_items(workload),
    ]


def memtier_fill(workload: Workload, target: Target) -> list[str]:
    shape = {"threads": 1, "clients": 1, "requests": "allkeys", "pipeline": 16, "ratio": "1:0", "key-pattern": "P:P"}
    return [*_memtier_target(target), *_long(shape), *_memtier_items(workload)]


def _memtier_target(target: Target) -> list[str]:
    address = target.address
    unix = address.transport == "unix"
    where = {"unix-socket": address.socket_path} if unix else {"server": "127.0.0.1", "port": address.port}
    return _long(where | {"protocol": {"resp": "redis", "memcached": "memcache_text"}[target.protocol]})


def _memtier_items(workload: Workload) -> list[str]:
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


def memtier_ratio(test: str) -> str:
    """`get:9+set:1` as memtier's SETs to GETs, `1:9`."""
    weights = {"set": "0", "get": "0"}
    for part in test.split("+"):
        name, _, weight = part.partition(":")
        weights[name] = weight or "1"
    return f"{weights['set']}:{weights['get']}"


def read_memtier(text: str, workload: Workload) -> Reading:
    """The totals of memtier's JSON (format version 2); its times are milliseconds."""
    stats = _fields(text, "memtier's JSON").child("ALL STATS")
    totals = stats.child("Totals")
    if totals.integer("Connection Errors"):
        raise BenchmarkFailed(f"memtier had {totals.integer('Connection Errors')} connection errors")
    if workload["prefill"] and totals.number("Misses/sec"):
        raise BenchmarkFailed("wrong answer: memtier missed keys that its own prefill had set")
    percentiles = totals.child("Percentile Latencies")
    p50, p99 = percentiles.number("p50.00"), percentiles.number("p99.00")
    return Reading(totals.count("Count"), _metrics(totals.number("Ops/sec"), 1000 * p50, 1000 * p99))


def read_own(text: str) -> Reading:
    """The JSON of a command of one's own: `requests`, and metrics by their names."""
    fields = _fields(text, "the command's output")
    unknown = sorted(set(fields.value) - {"requests", *OWN_METRICS})
    if unknown:
        raise BenchmarkFailed(
            f"the command reports {unknown[0]!r}: a command may report requests, {', '.join(OWN_METRICS)}"
        )
    metrics = {name: fields.number(name) for name in OWN_METRICS if name in fields.value}
    wrong = [name for name, number in metrics.items() if not (math.isfinite(number) and number > 0)]
    if wrong:
        raise BenchmarkFailed(f"the command's output: {wrong[0]} must be above 0")
    return Reading(fields.count("requests"), metrics)


def _fields(text: str, document: str) -> Fields:
    try:
        return Fields(json.loads(text), document)
    except ValueError as error:
        raise BenchmarkFailed(f"{document} is no JSON ({error}): {text.strip()[:200]!r}") from error


def _metrics(rate: float, p50_us: float, p99_us: float) -> dict[str, float]:
    return {"throughput_rps": rate, "latency_us_p50": p50_us, "latency_us_p99": p99_us}


def command_line(template: str, program: Path, target: Target) -> list[str]:
    """The words of a command of one's own, places filled. No shell: quotes group, nothing else is special."""
    values = {
        "host": "127.0.0.1",
        "port": str(target.address.port),
        "socket": str(target.address.socket_path),
        "output": str(target.directory / OUTPUT),
    }
    words = shlex.split(template)[1:]
    return [str(program), *(_PLACEHOLDER.sub(lambda match: values[match[1]], word) for word in words)]


STDOUT, MEMTIER_REPORT, OUTPUT = "tool.out", "memtier.json", "metrics.json"
TOOLS = {
    "redis-benchmark": Tool(
        "redis-benchmark", "SPEEDTRACK_REDIS_BENCHMARK", redis_benchmark_arguments, None, STDOUT, read_redis_benchmark
    ),
    "memtier": Tool(
        "memtier_benchmark", "SPEEDTRACK_MEMTIER", memtier_arguments, memtier_fill, MEMTIER_REPORT, read_memtier
    ),
}
