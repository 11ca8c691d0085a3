"""The JSON document of the native driver: checked, and the metrics that are read from it.

User and system time are a split of the exact CPU time by the clock ticks of each (its accuracy: the driver's README).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runners.documents import Benchmark, Fields
from runners.errors import BenchmarkFailed, Permanent, Transient
from runners.loads.target import Outcome

SCHEMA = "speedbench.v1"
DOCUMENT = "driver document"
FLAGS = ("client_bound", "client_delayed", "slipped", "unsteady", "no_steady_state", "clock")
WRONG_ANSWERS = ("hit_rate", "key_count")  # flags of a load that is no measurement
STARVED = "%s in the window: the machine is too busy to measure on, or the window is too short"
EVENTS = {"instructions": "instructions_per_request", "cycles": "cycles_per_request"}  # metric by event of the kernel
# By metric: the fields of the driver's `server` object that are divided by the requests of the window.
_PER_REQUEST = {
    "server_user_ns_per_request": ("user_ns",),
    "server_system_ns_per_request": ("system_ns",),
    "context_switches_per_request": ("voluntary_switches", "involuntary_switches"),
}
_COUNTS = ("voluntary_switches", "involuntary_switches", "minor_faults", "major_faults")


def read_document(file: Path) -> Mapping[str, Any]:
    """The JSON on the driver's standard output. Raises Permanent."""
    try:
        document: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Permanent(
            f"{DOCUMENT}: no JSON on the driver's stdout ({error}): is SPEEDTRACK_DRIVER speedbench?"
        ) from error
    return document


def read_outcome(document: Any, benchmark: Benchmark, phases: int) -> Outcome:
    """The metrics of a document of so many phases whose answers are right.

    Raises Permanent naming a field that is missing or of the wrong type, BenchmarkFailed for wrong answers, Transient
    if the server did not run in the window.
    """
    fields = Fields(document, DOCUMENT)
    test = _measured_test(fields, phases)
    _check_answers(fields, test, benchmark)
    latency, server = test.child("latency_us"), test.child("server_cpu")
    if server.number("ns_per_request") <= 0:
        raise Transient(STARVED % "the server was given no CPU")
    metrics = {
        "server_cpu_ns_per_request": server.number("ns_per_request"),
        "latency_us_p50": latency.number("p50"),
        "latency_us_p99": latency.number("p99"),
    }
    metrics |= server_metrics(fields.value)
    # In an open loop the throughput is the rate that the suite asks for: it says nothing about the server.
    if test.text("mode") == "closed":
        metrics["throughput_rps"] = test.number("throughput_rps")
    begin_s = test.number("window_began_ns") / 1e9
    return Outcome(metrics, _flags(test), dict(fields.value), (begin_s, begin_s + test.number("window_s")))


def _measured_test(fields: Fields, phases: int) -> Fields:
    """The last test of the document."""
    schema = fields.text("schema")
    if schema != SCHEMA:
        raise Permanent(
            f"{DOCUMENT}: schema is {schema!r}, this runner wants {SCHEMA!r}: install driver and runner of one version"
        )
    tests = list(fields.children("tests"))
    if len(tests) != phases:
        raise Permanent(f"{DOCUMENT}: {len(tests)} tests for {phases} phases")
    return tests[-1]


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


def _check_prefill(document: Fields, key_count: int) -> None:
    keys = document.child("prefill").integer("keys_in_server")
    if keys != key_count:
        raise BenchmarkFailed(f"wrong answer: {keys} keys after the prefill of {key_count}")


def _flags(test: Fields) -> list[str]:
    unknown = sorted(set(test.texts("flags")) - {*FLAGS, *WRONG_ANSWERS})
    if unknown:
        raise Permanent(f"{DOCUMENT}: the flag {unknown[0]!r} is not known: install driver and runner of one version")
    return [flag for flag in FLAGS if flag in test.texts("flags")]


def server_metrics(document: Mapping[str, Any]) -> dict[str, float]:
    """What the driver read of the server's process, per request, and bytes per key; without those that are 0.

    A short window may have no clock tick of a kind, and a small key space may need no new memory.
    """
    test = document["tests"][-1]
    used, prefill = test.get("server") or {}, document.get("prefill") or {}
    metrics = {
        name: sum(used.get(field) or 0 for field in fields) / test["requests"] for name, fields in _PER_REQUEST.items()
    }
    counts = (test.get("server_events") or {}).get("counts", {})
    metrics |= {metric: counts.get(event, 0) / test["requests"] for event, metric in EVENTS.items()}
    metrics["bytes_per_key"] = (prefill.get("server_memory") or {}).get("bytes_per_key", 0.0)
    return {name: value for name, value in metrics.items() if value > 0}


def server_object(document: Mapping[str, Any], stats: Mapping[str, float]) -> dict[str, Any]:
    """The `server` object of a trial: the server's process as the driver read it, and its own counters."""
    test = document["tests"][-1] if "tests" in document else {}
    used = test.get("server") or {}
    prefill = document.get("prefill") or {}
    memory = prefill.get("server_memory") or {}
    values = {
        "cpu_user_ns": used.get("user_ns"),
        "cpu_system_ns": used.get("system_ns"),
        **{name: used.get(name) for name in _COUNTS},
        "rss_before_prefill_bytes": memory.get("before_bytes"),
        "rss_after_prefill_bytes": memory.get("after_bytes"),
        "keys": prefill.get("keys_in_server"),
    }
    return {name: value for name, value in values.items() if value is not None} | {"stats": dict(stats)}
