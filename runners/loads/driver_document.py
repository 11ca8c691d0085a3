"""The JSON document of the native driver: checked, and the metrics that are read from it.

User and system time split the exact CPU time by the clock ticks of each (the driver's README has the accuracy).
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from runners.documents import STRICT, Benchmark, check_schema, parse
from runners.errors import BenchmarkFailed, Permanent, Transient
from runners.foreign import UnusableFile, read_whole
from runners.loads.target import LoadOutcome

SCHEMA, DUEL_SCHEMA = "speedbench.v1", "speedbench.duel.v1"
DOCUMENT = "driver document"
LONGEST_DOCUMENT = 16 << 20
FLAGS = ("client_bound", "client_delayed", "slipped", "unsteady", "no_steady_state", "clock")
WRONG_ANSWERS = ("hit_rate", "key_count")  # flags that make a load no measurement
ERRORS = "errors"  # the flag of error replies, which are judged by their number
STARVED = "%s in the window: the machine is too busy to measure on, or the window is too short"
EVENTS = {"instructions": "instructions_per_request", "cycles": "cycles_per_request"}  # metric by event of the kernel
# By metric: the fields of the driver's `server` object that are divided by the requests of the window.
_PER_REQUEST = {
    "server_user_ns_per_request": ("user_ns",),
    "server_system_ns_per_request": ("system_ns",),
    "context_switches_per_request": ("voluntary_switches", "involuntary_switches"),
}
_TRIMMED = frozenset({"server_cpu_ns_per_request", "throughput_rps"})  # of a duel
_COUNTS = ("voluntary_switches", "involuntary_switches", "minor_faults", "major_faults")


def read_document(file: Path) -> Mapping[str, Any]:
    """The JSON on the driver's standard output. Raises Permanent."""
    try:
        document: Mapping[str, Any] = json.loads(read_whole(file, LONGEST_DOCUMENT))
    except (ValueError, UnusableFile) as error:
        raise Permanent(
            f"{DOCUMENT}: no JSON on the driver's stdout ({error}): is SPEEDTRACK_DRIVER speedbench?"
        ) from error
    return document


@dataclass(frozen=True, config=STRICT)
class _Errors:
    count: int
    first: str | None = None


@dataclass(frozen=True, config=STRICT)
class _Answers:
    """The server's answers in the window."""

    requests: int
    hits: int
    misses: int
    errors: _Errors
    flags: tuple[str, ...]


@dataclass(frozen=True, config=STRICT)
class _Latency:
    p50: float
    p99: float


@dataclass(frozen=True, config=STRICT)
class _ServerCpu:
    ns_per_request: float


@dataclass(frozen=True, config=STRICT)
class _Figures:
    """The figures of a window with answers."""

    mode: str
    throughput_rps: float
    latency_us: _Latency
    server_cpu: _ServerCpu
    window_began_ns: float
    window_s: float


@dataclass(frozen=True, config=STRICT)
class _Prefill:
    keys_in_server: int


@dataclass(frozen=True, config=STRICT)
class _Tests:
    tests: tuple[dict[str, Any], ...]


def read_outcome(document: Any, benchmark: Benchmark, phases: int) -> LoadOutcome:
    """The metrics of a document of so many phases whose answers are right.

    Raises Permanent naming a field that is missing or of the wrong type, BenchmarkFailed for wrong answers, Transient
    if the server did not run in the window or the run was cut short.
    """
    _check_whole(document, SCHEMA)
    tests = parse(_Tests, document, DOCUMENT).tests
    if len(tests) != phases:
        raise Permanent(f"{DOCUMENT}: {len(tests)} tests for {phases} phases")
    path = f"tests[{phases - 1}]"
    answers = parse(_Answers, tests[-1], DOCUMENT, path)
    _check_answers(answers, benchmark)
    replay = benchmark.workload.get("replay")
    if benchmark.workload.get("prefill"):
        _check_prefill(document.get("prefill"), benchmark.workload["keys"]["count"])
    figures = parse(_Figures, tests[-1], DOCUMENT, path)
    if figures.server_cpu.ns_per_request <= 0:
        raise Transient(STARVED % "the server was given no CPU")
    metrics = {
        "server_cpu_ns_per_request": figures.server_cpu.ns_per_request,
        "latency_us_p50": figures.latency_us.p50,
        "latency_us_p99": figures.latency_us.p99,
    }
    metrics |= server_metrics(document)
    # In an open loop, or at a recording's pace, the rate is given, so the throughput is no property of the server.
    if figures.mode == "closed" or (replay and replay["speed"] == "fast"):
        metrics["throughput_rps"] = figures.throughput_rps
    begin_s = figures.window_began_ns / 1e9
    return LoadOutcome(metrics, _flags(answers), dict(document), (begin_s, begin_s + figures.window_s))


def check_tests(document: Any, benchmark: Benchmark, checked: str) -> None:
    """Checks the answers of the tests whose name begins with `checked`. Raises as `read_outcome`."""
    _check_whole(document, SCHEMA)
    for number, test in enumerate(parse(_Tests, document, DOCUMENT).tests):
        if str(test.get("name")).startswith(checked):
            _check_answers(parse(_Answers, test, DOCUMENT, f"tests[{number}]"), benchmark)


@dataclass(frozen=True, config=STRICT)
class _Slice:
    """One slice of a duel."""

    side: Literal["base", "head"]
    began_ns: int
    ns: Annotated[int, Field(gt=0)]


@dataclass(frozen=True, config=STRICT)
class _Ratio:
    """A metric of both servers."""

    metric: str
    base: float
    head: float


@dataclass(frozen=True, config=STRICT)
class _Duel:
    """The figures of both servers."""

    slice_ms: int
    slices: tuple[_Slice, ...]
    ratios: tuple[_Ratio, ...]
    resting_cpu_share: dict[str, float | None]


def read_duel(document: Any, benchmark: Benchmark) -> list[LoadOutcome]:
    """The outcomes of base and head, as `read_outcome` reads one, from a document of a duel.

    CPU time and throughput are those of the pairs of slices that the driver keeps (trimmed mean, docs/driver.md).
    """
    _check_whole(document, DUEL_SCHEMA)
    test = parse(_Tests, document, DOCUMENT).tests[-1]
    duel = parse(_Duel, test, DOCUMENT, "tests[0]")
    ratios = {ratio.metric: ratio for ratio in duel.ratios if ratio.metric in _TRIMMED}
    window = duel.slices[0].began_ns / 1e9, (duel.slices[-1].began_ns + duel.slices[-1].ns) / 1e9
    outcomes = []
    for side in ("base", "head"):
        outcome = read_outcome(_document_of_side(document, test, side), benchmark, 1)
        trimmed = {metric: getattr(ratio, side) for metric, ratio in ratios.items() if metric in outcome.metrics}
        pairing = {
            "slice_ms": duel.slice_ms,
            "resting_cpu_share": duel.resting_cpu_share[side],
            "order": "".join(piece.side[0] for piece in duel.slices),
            "slice_ns": [piece.ns for piece in duel.slices if piece.side == side],
        }
        outcomes.append(replace(outcome, metrics=outcome.metrics | trimmed, window=window, pairing=pairing))
    if "server_cpu_ns_per_request" not in ratios:
        raise Transient(STARVED % "no pair of slices has CPU time of both servers")
    return outcomes


def _document_of_side(document: Any, test: Any, side: str) -> dict[str, Any]:
    """The document of one server, as if it had been measured alone."""
    shared = {name: document[name] for name in ("driver", "protocol", "started_at", "environment") if name in document}
    own = {"schema": SCHEMA, "target": document.get(side), "prefill": test[side].get("prefill"), "tests": [test[side]]}
    return shared | own


def _check_whole(document: Any, schema: str) -> None:
    """Raises Permanent for another schema, Transient for a document of a run that ended before its time."""
    check_schema(document, schema, DOCUMENT, "install driver and runner of one version")
    cut_short = document.get("cut_short")
    if cut_short is not None:
        raise Transient(f"{DOCUMENT}: the run was cut short, so it is no measurement: {json.dumps(cut_short)}")


def _check_answers(answers: _Answers, benchmark: Benchmark) -> None:
    if answers.requests < 1:
        raise Transient(STARVED % "the server answered no request")
    if answers.errors.count > answers.requests * benchmark.workload.get("expect", {}).get("errors", 0.0):
        remedy = (
            ": if the recording has them, allow their share by expect.errors" if "replay" in benchmark.workload else ""
        )
        raise BenchmarkFailed(
            f"wrong answer: {answers.errors.count} error replies, the first: {answers.errors.first}{remedy}"
        )
    wrong = [flag for flag in WRONG_ANSWERS if flag in answers.flags]
    if wrong:
        raise BenchmarkFailed(
            f"wrong answer: {', '.join(wrong)} not as expected: {answers.hits} hits, {answers.misses} misses, expected "
            f"was {json.dumps(benchmark.workload['expect'])}"
        )


def _check_prefill(prefill: Any, key_count: int) -> None:
    keys = parse(_Prefill, prefill, DOCUMENT, "prefill").keys_in_server
    if keys != key_count:
        raise BenchmarkFailed(f"wrong answer: {keys} keys after the prefill of {key_count}")


def _flags(answers: _Answers) -> list[str]:
    unknown = sorted(set(answers.flags) - {*FLAGS, *WRONG_ANSWERS, ERRORS})
    if unknown:
        raise Permanent(f"{DOCUMENT}: the flag {unknown[0]!r} is not known: install driver and runner of one version")
    return [flag for flag in FLAGS if flag in answers.flags]


def server_metrics(document: Mapping[str, Any]) -> dict[str, float]:
    """The driver's readings of the server's process, per request, and bytes per key; values of 0 are left out.

    A short window may have no clock tick of a kind, and a small key space may need no new memory.
    """
    test = document["tests"][-1]
    usage, prefill = test.get("server") or {}, document.get("prefill") or {}
    metrics = {
        name: sum(usage.get(field) or 0 for field in fields) / test["requests"] for name, fields in _PER_REQUEST.items()
    }
    counts = (test.get("server_events") or {}).get("counts", {})
    metrics |= {metric: counts.get(event, 0) / test["requests"] for event, metric in EVENTS.items()}
    metrics["bytes_per_key"] = (prefill.get("server_memory") or {}).get("bytes_per_key", 0.0)
    return {name: value for name, value in metrics.items() if value > 0}


def server_object(document: Mapping[str, Any], stats: Mapping[str, float]) -> dict[str, Any]:
    """The `server` object of a trial: the server's process as the driver read it, and its own counters."""
    test = document["tests"][-1] if "tests" in document else {}
    usage = test.get("server") or {}
    prefill = document.get("prefill") or {}
    memory = prefill.get("server_memory") or {}
    values = {
        "cpu_user_ns": usage.get("user_ns"),
        "cpu_system_ns": usage.get("system_ns"),
        **{name: usage.get(name) for name in _COUNTS},
        "rss_before_prefill_bytes": memory.get("before_bytes"),
        "rss_after_prefill_bytes": memory.get("after_bytes"),
        "keys": prefill.get("keys_in_server"),
    }
    return {name: value for name, value in values.items() if value is not None} | {"stats": dict(stats)}
