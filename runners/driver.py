"""The native driver `speedbench`: call it, check its one JSON document, read the metrics off it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.control import Control
from runners.documents import Benchmark, Fields, Workload
from runners.errors import BenchmarkFailed, Permanent, Transient
from runners.placement import cpu_list
from runners.processes import Processes
from runners.server import Address

SCHEMA = "speedbench.v1"
DOCUMENT = "driver document"
FLAGS = (
    "client_bound",
    "client_delayed",
    "slipped",
    "unsteady",
    "errors",
    "hit_rate",
    "key_count",
    "clock",
)
GRACE_S = 30.0  # connecting, draining and writing the document, on a slow machine
PREFILL_KEYS_PER_S = 5_000.0  # far below any server worth measuring
HIT_RATE_TOLERANCE = 1e-3  # an expected rate below 1 is met by chance within this; 1.0 is met exactly


@dataclass(frozen=True)
class Outcome:
    """One accepted driver run: metrics by name (units in docs/result-format.md), flags, the whole document."""

    metrics: dict[str, float]
    flags: list[str]
    document: dict[str, Any]


@dataclass(frozen=True)
class Driver:
    """The driver program on its CPUs."""

    binary: Path
    processes: Processes
    cpus: frozenset[int]

    def run(
        self, benchmark: Benchmark, address: Address, server_pid: int, seed: int, directory: Path, control: Control
    ) -> Outcome:
        """Loads the server once.

        Raises BenchmarkFailed if the answers are wrong or the driver says why it cannot measure, Transient if it was
        killed, crashed or hung, Permanent if its call or its document does not fit this runner.
        """
        argv = [str(self.binary), *arguments(benchmark.workload, address, server_pid, seed, self.cpus)]
        output, errors = directory / "driver.json", directory / "driver.err"
        timeout_s = deadline_s(benchmark.workload)
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            try:
                child = self.processes.start(argv, {"LANG": "C.UTF-8"}, directory, stdout, stderr, self.cpus)
            except OSError as error:
                raise Permanent(f"the driver cannot be started: {error}: build it or set SPEEDTRACK_DRIVER") from error
        try:
            status = child.wait(control, timeout_s)
        finally:
            child.end()
        check_status(status, timeout_s, _last_line(errors))
        return check(_document(output), benchmark)


def arguments(workload: Workload, address: Address, server_pid: int, seed: int, cpus: frozenset[int]) -> list[str]:
    """The driver's command line for one workload."""
    target = (
        ["-s", str(address.socket_path)]
        if address.transport == "unix"
        else ["-h", "127.0.0.1", "-p", str(address.port)]
    )
    options = [
        "-t",
        workload.test,
        "-c",
        str(workload.clients),
        "-P",
        str(workload.pipeline),
        "-r",
        str(workload.keyspace),
        "-d",
        str(workload.value_bytes),
        "--warmup",
        f"{workload.warmup_s:g}",
        "--duration",
        f"{workload.duration_s:g}",
        "--seed",
        str(seed),
        "--cpus",
        cpu_list(cpus),
        "--threads",
        str(len(cpus)),
        "--server-pid",
        str(server_pid),
        "--json",
    ]
    return ["run", *target, *options, *(["--prefill"] if workload.prefill else [])]


def deadline_s(workload: Workload) -> float:
    """When a driver that has not ended is hung, in seconds after its start."""
    prefill_s = workload.keyspace / PREFILL_KEYS_PER_S if workload.prefill else 0.0
    return GRACE_S + prefill_s + workload.warmup_s + workload.duration_s


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
            raise Permanent(f"the driver refuses its call{said}: install driver and runner of one version")
        case negative if negative < 0:
            raise Transient(f"the driver was killed by signal {-negative}{said}")
        case code:
            raise Transient(f"the driver crashed with exit status {code}{said}")


def check(document: Any, benchmark: Benchmark) -> Outcome:
    """The metrics of a driver document whose answers are right.

    Raises Permanent naming a field that is missing or of the wrong type, BenchmarkFailed for wrong answers.
    """
    fields = Fields(document, DOCUMENT)
    schema = fields.text("schema")
    if schema != SCHEMA:
        raise Permanent(
            f"{DOCUMENT}: schema is {schema!r}, this runner wants {SCHEMA!r}: install driver and runner of one version"
        )
    tests = list(fields.children("tests"))
    if len(tests) != 1:
        raise Permanent(f"{DOCUMENT}: {len(tests)} tests, one was asked for")
    test = tests[0]
    _check_answers(fields, test, benchmark)
    latency, server = test.child("latency_us"), test.child("server_cpu")
    if server.number("ns_per_request") <= 0:
        raise BenchmarkFailed(
            "the process that server.command started used no CPU: it must be the server itself, without a wrapper "
            "(use exec) and not as a daemon"
        )
    metrics = {
        "server_cpu_ns_per_request": server.number("ns_per_request"),
        "throughput_rps": test.number("throughput_rps"),
        "latency_us_p50": latency.number("p50"),
        "latency_us_p99": latency.number("p99"),
    }
    return Outcome(metrics, _flags(test), dict(fields.value))


def _check_answers(document: Fields, test: Fields, benchmark: Benchmark) -> None:
    if test.integer("requests") < 1:
        raise BenchmarkFailed("the server answered no request within the window")
    errors = test.child("errors")
    if errors.integer("count"):
        raise BenchmarkFailed(
            f"wrong answer: {errors.integer('count')} error replies, the first: {errors.value.get('first')}"
        )
    if benchmark.workload.prefill:
        _check_prefill(document, benchmark.workload.keyspace)
    if "hit_rate" in benchmark.expect:
        _check_hit_rate(test.integer("hits"), test.integer("misses"), benchmark.expect["hit_rate"])


def _check_prefill(document: Fields, keyspace: int) -> None:
    keys = document.child("prefill").integer("keys_in_server")
    if keys != keyspace:
        raise BenchmarkFailed(f"wrong answer: {keys} keys after the prefill of {keyspace}")


def _check_hit_rate(hits: int, misses: int, expected: float) -> None:
    asked = hits + misses
    rate = hits / asked if asked else 0.0
    tolerance = 0.0 if expected == 1.0 else HIT_RATE_TOLERANCE
    if abs(rate - expected) > tolerance:
        raise BenchmarkFailed(f"wrong answer: hit rate {rate:g} of {asked} reads, {expected:g} was expected")


def _flags(test: Fields) -> list[str]:
    unknown = sorted(set(test.texts("flags")) - set(FLAGS))
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


def _last_line(file: Path) -> str:
    lines = file.read_text(errors="replace").strip().splitlines()
    return lines[-1][:500] if lines else ""
