"""The native driver `speedbench`: call it, check its one JSON document, read the metrics off it."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from runners.documents import Benchmark, Fields
from runners.errors import BenchmarkFailed, Permanent, Transient
from runners.machine.topology import cpu_list
from runners.processes.children import Processes
from runners.processes.control import Control
from runners.servers import counters
from runners.servers.server import Address

SCHEMA = "speedbench.v1"
WORKLOAD = "workload.json"
DOCUMENT = "driver document"
FLAGS = ("client_bound", "client_delayed", "slipped", "unsteady", "no_steady_state", "clock")
WRONG_ANSWERS = ("hit_rate", "key_count")  # flags that say: this is no measurement
GRACE_S = 30.0  # connecting, draining and writing the document, on a slow machine
PREFILL_KEYS_PER_S = 5_000.0  # far below any server worth measuring
SLOWEST_REQUESTS_PER_S = 1_000.0
NO_CPU = (
    "the process that server.command started used no CPU: it must be the server itself, without a wrapper (use exec) "
    "and not as a daemon"
)
STARVED = "%s in the window: the machine is too busy to measure on, or the window is too short"


@dataclass(frozen=True)
class Outcome:
    """One accepted driver run: metrics by name (units in docs/result-format.md), flags, the whole document, the window.

    The window is in seconds of the monotonic clock; where a tool does not tell, it is all the time there is.
    """

    metrics: dict[str, float]
    flags: list[str]
    document: dict[str, Any]
    window: tuple[float, float] = (float("-inf"), float("inf"))


@dataclass(frozen=True)
class Target:
    """The server to load: how to reach it, its process, and where what a driver writes may lie."""

    protocol: str
    address: Address
    pid: int
    directory: Path

    @property
    def options(self) -> list[str]:
        """As redis-benchmark and speedbench take an address."""
        if self.address.transport == "unix":
            return ["-s", str(self.address.socket_path)]
        return ["-h", "127.0.0.1", "-p", str(self.address.port)]


@dataclass(frozen=True)
class Driver:
    """The driver program on its CPUs."""

    binary: Path
    processes: Processes
    cpus: frozenset[int]
    nodes: frozenset[int] = frozenset()

    def run(self, benchmark: Benchmark, target: Target, seed: int, control: Control) -> Outcome:
        """Loads the server once.

        Raises BenchmarkFailed if the answers are wrong, or the driver refuses its workload or cannot measure,
        Transient if it was killed, crashed or hung or the server had no turn in the window, Permanent if its document
        does not fit this runner.
        """
        (target.directory / WORKLOAD).write_text(json.dumps(document(benchmark, target, self.cpus)))
        argv = [str(self.binary), *arguments(target, seed, self.cpus)]
        output, server_before = target.directory / "driver.json", cpu_ns(target.pid)
        with output.open("wb") as stdout:
            self._finish(argv, target, stdout, deadline_s(benchmark.workload), control)
        if cpu_ns(target.pid) == server_before:
            raise BenchmarkFailed(NO_CPU)
        return check(_document(output), benchmark)

    def prefill(self, benchmark: Benchmark, target: Target, seed: int, control: Control) -> None:
        """Sets every key of a workload once, and no more than that. Raises as `run`."""
        self.run(only_prefill(benchmark), target, seed, control)

    def _finish(self, argv: list[str], target: Target, output: IO[bytes], timeout_s: float, control: Control) -> None:
        directory, network = target.directory, target.address.network
        errors = directory / "driver.err"
        with errors.open("wb") as stderr:
            try:
                child = self.processes.start(
                    argv, {"LANG": "C.UTF-8"}, directory, output, stderr, self.cpus, self.nodes, network=network
                )
            except OSError as error:
                raise Permanent(f"the driver cannot be started: {error}: build it or set SPEEDTRACK_DRIVER") from error
        try:
            status = child.wait(control, timeout_s)
        finally:
            child.end()
        check_status(status, timeout_s, last_line(errors))


def only_prefill(benchmark: Benchmark) -> Benchmark:
    """The benchmark that sets every key of another one's workload once."""
    kept = {key: benchmark.workload[key] for key in ("keys", "values")}
    workload = {"test": "get", "prefill": True, "clients": 1, "requests": 1, "warmup_s": 0.0} | kept
    return replace(benchmark, workload=workload)


def cpu_ns(pid: int) -> int:
    """CPU time of a process so far, all threads. Raises BenchmarkFailed if it is gone."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)  # the kernel's name of its CPUCLOCK_SCHED
    except OSError as error:
        raise BenchmarkFailed("the server ended during the trial") from error


def document(benchmark: Benchmark, target: Target, cpus: frozenset[int]) -> dict[str, Any]:
    """The workload document of a benchmark."""
    return {"protocol": target.protocol, "phase": phases(benchmark.workload, len(cpus))}


def phases(workload: Mapping[str, Any], cpus: int) -> list[dict[str, Any]]:
    """The phases of the driver's workload document: what sets up the server, and what is measured."""
    measured = {"threads": min(cpus, workload["clients"])} | dict(workload)
    setup = measured.pop("setup", None)
    if setup is None:
        return [measured]
    command = {"commands": [{"request": setup["request"]}], "requests": setup["times"]}
    return [
        {"name": "setup", "clients": 1, **command, "keys": workload["keys"], "values": workload["values"]},
        measured,
    ]


def arguments(target: Target, seed: int, cpus: frozenset[int]) -> list[str]:
    """The driver's command line; the workload itself is in a file beside it."""
    server = ["--server-pid", str(target.pid), "--server-events", ",".join(counters.EVENTS)]
    options = ["--seed", str(seed), "--cpus", cpu_list(cpus), *server, "--json"]
    return ["run", "--workload", WORKLOAD, *target.options, *options]


def deadline_s(workload: Mapping[str, Any]) -> float:
    """When a driver that has not ended is hung, in seconds after its start."""
    prefill_s = workload["keys"]["count"] / PREFILL_KEYS_PER_S if workload.get("prefill") else 0.0
    counted_s = workload.get("requests", 0) / SLOWEST_REQUESTS_PER_S
    warmup_s = workload.get("warmup_most_s", workload["warmup_s"])
    return float(GRACE_S + prefill_s + warmup_s + workload.get("duration_s", 0.0) + counted_s)


def check_status(status: int | None, timeout_s: float, line: str) -> None:
    """Raises what the end of the driver process means; None is a timeout."""
    said = f": {line}" if line else "; it said nothing"
    match status:
        case 0:
            return
        case None:
            raise Transient(f"the driver did not end within {timeout_s:g} s{said}")
        case 1:
            raise BenchmarkFailed(f"the driver cannot measure{said}")
        case 2:
            raise BenchmarkFailed(f"the driver refuses its workload{said}: correct the suite")
        case negative if negative < 0:
            raise Transient(f"the driver was killed by signal {-negative}{said}")
        case code:
            raise Transient(f"the driver crashed with exit status {code}{said}")


def check(document: Any, benchmark: Benchmark) -> Outcome:
    """The metrics of a driver document whose answers are right.

    Raises Permanent naming a field that is missing or of the wrong type, BenchmarkFailed for wrong answers, Transient
    if the server had no turn in the window.
    """
    fields = Fields(document, DOCUMENT)
    schema = fields.text("schema")
    if schema != SCHEMA:
        raise Permanent(
            f"{DOCUMENT}: schema is {schema!r}, this runner wants {SCHEMA!r}: install driver and runner of one version"
        )
    tests = list(fields.children("tests"))
    wanted = len(phases(benchmark.workload, 1))
    if len(tests) != wanted:
        raise Permanent(f"{DOCUMENT}: {len(tests)} tests, {wanted} asked for")
    test = tests[-1]
    _check_answers(fields, test, benchmark)
    latency, server = test.child("latency_us"), test.child("server_cpu")
    if server.number("ns_per_request") <= 0:
        raise Transient(STARVED % "the server was given no CPU")
    metrics = {
        "server_cpu_ns_per_request": server.number("ns_per_request"),
        "latency_us_p50": latency.number("p50"),
        "latency_us_p99": latency.number("p99"),
    }
    metrics |= counters.metrics(fields.value)
    # At a rate that was asked for the throughput is that rate: it says nothing about the server.
    if test.text("mode") == "closed":
        metrics["throughput_rps"] = test.number("throughput_rps")
    begin_s = test.number("window_began_ns") / 1e9
    return Outcome(metrics, _flags(test), dict(fields.value), (begin_s, begin_s + test.number("window_s")))


def _check_answers(document: Fields, test: Fields, benchmark: Benchmark) -> None:
    if test.integer("requests") < 1:
        raise Transient(STARVED % "the server answered no request")
    errors = test.child("errors")
    if errors.integer("count"):
        raise BenchmarkFailed(
            f"wrong answer: {errors.integer('count')} error replies, the first: {errors.value.get('first')}"
        )
    if benchmark.workload.get("prefill"):
        _check_prefill(document, benchmark.workload["keys"]["count"])
    wrong = [flag for flag in WRONG_ANSWERS if flag in test.texts("flags")]
    if wrong:
        raise BenchmarkFailed(
            f"wrong answer: {', '.join(wrong)} not as expected: {test.integer('hits')} hits, "
            f"{test.integer('misses')} misses, expected was {json.dumps(benchmark.workload['expect'])}"
        )


def _check_prefill(document: Fields, keyspace: int) -> None:
    keys = document.child("prefill").integer("keys_in_server")
    if keys != keyspace:
        raise BenchmarkFailed(f"wrong answer: {keys} keys after the prefill of {keyspace}")


def _flags(test: Fields) -> list[str]:
    unknown = sorted(set(test.texts("flags")) - {*FLAGS, *WRONG_ANSWERS})
    if unknown:
        raise Permanent(f"{DOCUMENT}: the flag {unknown[0]!r} is not known: install driver and runner of one version")
    return [flag for flag in FLAGS if flag in test.texts("flags")]


def _document(file: Path) -> Mapping[str, Any]:
    try:
        document: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Permanent(
            f"{DOCUMENT}: no JSON on the driver's stdout ({error}): is SPEEDTRACK_DRIVER speedbench?"
        ) from error
    return document


def last_line(file: Path) -> str:
    lines = file.read_text(errors="replace").strip().splitlines()
    return lines[-1][:500] if lines else ""
