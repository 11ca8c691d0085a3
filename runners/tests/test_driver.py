"""The driver's end and its document: real processes that are killed, hang and lie."""

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners import driver as driver_module
from runners.control import Control
from runners.documents import Benchmark, parse_job
from runners.driver import Driver, arguments, check, deadline_s
from runners.errors import BenchmarkFailed, Permanent, RunnerError, Transient
from runners.processes import Processes
from runners.server import Address
from runners.tests.conftest import DRIVER, golden, make_benchmark, make_job, marked

ADDRESS = Address("unix", 7000, Path("/run/s"))


def benchmark(**workload: Any) -> Benchmark:
    return parse_job(make_job(benchmarks=[make_benchmark(**({"keyspace": 20_000} | workload))])).benchmarks[0]


def document() -> dict[str, Any]:
    produced: dict[str, Any] = golden("result.v1.json")["trials"][0]["driver"]
    return produced


def run(processes: Processes, home: Path, script: str) -> None:
    """Runs a shell script in the place of the driver."""
    program = home / "speedbench"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    driver = Driver(program, processes, frozenset(os.sched_getaffinity(0)))
    driver.run(benchmark(), ADDRESS, os.getpid(), 1, home, Control())


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        (
            "echo speedbench: the server went away >&2; exit 1",
            BenchmarkFailed,
            "cannot measure: speedbench: the server",
        ),
        ("echo speedbench: no option -Q >&2; exit 2", Permanent, "refuses its call: speedbench: no option -Q"),
        ("echo thread main panicked >&2; exit 101", Transient, "crashed with exit status 101: thread main panicked"),
        ("kill -9 $$", Transient, "killed by signal 9; it said nothing"),
        ("echo hello", Permanent, "no JSON on the driver's stdout"),
        ("echo '[]'", Permanent, "the document is not an object"),
    ],
)
def test_an_end_without_a_result(
    processes: Processes, home: Path, script: str, kind: type[RunnerError], message: str
) -> None:
    with pytest.raises(RunnerError, match=message) as raised:
        run(processes, home, script)
    assert type(raised.value) is kind and marked(home) == []


def test_a_hanging_driver_is_ended(processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "GRACE_S", -4.0)
    with pytest.raises(Transient, match=r"did not end within 0.25 s"):
        run(processes, home, "trap '' TERM; while :; do sleep 1; done")
    assert marked(home) == []


def test_a_real_driver_that_is_killed_is_transient(
    processes: Processes, home: Path, speedbench: Path, tiny: Path
) -> None:
    directory = home / "server"
    directory.mkdir()
    address = Address("unix", 0, directory / "s")
    with (home / "output").open("wb") as output:
        server = processes.start(
            [str(tiny), "--port", "0", "--unixsocket", str(address.socket_path)], {}, directory, output
        )
    server.wait(Control(), 0.3)
    threading.Timer(1.0, lambda: kill_the_driver(processes, server.pid)).start()
    with pytest.raises(Transient, match="killed by signal 9"):
        Driver(speedbench, processes, frozenset(os.sched_getaffinity(0))).run(
            benchmark(duration_s=20.0), address, server.pid, 1, home, Control()
        )
    assert server.exited() is None
    server.end()


def kill_the_driver(processes: Processes, server_pid: int) -> None:
    for record in processes.directory.glob("*.json"):
        if record.stem != str(server_pid):
            os.kill(int(record.stem), signal.SIGKILL)


def test_the_metrics_of_the_golden_document() -> None:
    outcome, test = check(document(), benchmark()), document()["tests"][0]
    assert outcome.flags == []
    assert outcome.metrics == {
        "server_cpu_ns_per_request": test["server_cpu"]["ns_per_request"],
        "throughput_rps": test["throughput_rps"],
        "latency_us_p50": test["latency_us"]["p50"],
        "latency_us_p99": test["latency_us"]["p99"],
    }


def test_the_golden_document_of_the_driver_is_accepted() -> None:
    whole = json.loads((DRIVER / "tests" / "golden" / "speedbench.v1.json").read_text())
    for test in whole["tests"]:
        asked = benchmark(test=test["name"], keyspace=test["workload"]["keyspace"])
        assert check(whole | {"tests": [test]}, asked).metrics["throughput_rps"] == test["throughput_rps"]


def change(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def apply(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = to

    return apply


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        (
            change("schema", to="speedbench.v2"),
            Permanent,
            "schema is 'speedbench.v2', this runner wants 'speedbench.v1'",
        ),
        (change("tests", to=[]), Permanent, "0 tests, one was asked for"),
        (change("tests", 0, "throughput_rps", to="fast"), Permanent, r"tests\[0\].throughput_rps must be a number"),
        (change("tests", 0, "server_cpu", to=None), Permanent, r"tests\[0\].server_cpu must be an object"),
        (change("tests", 0, "latency_us", to={}), Permanent, r"tests\[0\].latency_us.p50 is missing"),
        (change("tests", 0, "flags", to=["haunted"]), Permanent, "the flag 'haunted' is not known"),
        (
            change("tests", 0, "errors", to={"count": 2, "first": "-ERR no"}),
            BenchmarkFailed,
            "2 error replies, the first: -ERR no",
        ),
        (change("tests", 0, "misses", to=1), BenchmarkFailed, "hit rate 0.99"),
        (change("tests", 0, "requests", to=0), BenchmarkFailed, "answered no request"),
        (change("prefill", "keys_in_server", to=19_999), BenchmarkFailed, "19999 keys after the prefill of 20000"),
        (change("prefill", to=None), Permanent, "prefill must be an object"),
    ],
)
def test_a_document_is_checked(
    changed: Callable[[dict[str, Any]], None], kind: type[RunnerError], message: str
) -> None:
    produced = document()
    changed(produced)
    with pytest.raises(RunnerError, match=message) as raised:
        check(produced, benchmark())
    assert type(raised.value) is kind


def test_the_command_line() -> None:
    words = arguments(
        benchmark(transport="tcp").workload, Address("tcp", 7000, Path("/run/s")), 42, 5, frozenset([2, 3])
    )
    assert " ".join(words) == (
        "run -h 127.0.0.1 -p 7000 -t get -c 20 -P 1 -r 20000 -d 32 --warmup 0.05 --duration 0.2 "
        "--seed 5 --cpus 2,3 --threads 2 --server-pid 42 --json --prefill"
    )
    assert arguments(benchmark(prefill=False).workload, ADDRESS, 42, 5, frozenset([2]))[1:3] == ["-s", "/run/s"]
    assert deadline_s(benchmark().workload) == pytest.approx(30 + 4 + 0.25)
