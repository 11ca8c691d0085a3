"""The driver's exit and its document: real processes that are killed, hang, or print something else."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners.documents import Benchmark, parse_job
from runners.errors import BenchmarkFailed, Permanent, RunnerError, Transient
from runners.loads import speedbench as driver_module
from runners.loads.driver_document import check_tests, read_duel, read_outcome, server_metrics, server_object
from runners.loads.speedbench import Driver, deadline_s, driver_arguments, duel_arguments, phases
from runners.loads.target import Target
from runners.processes.children import ChildCommand, Processes
from runners.processes.control import Control
from runners.servers.server import READY, Address, greet
from runners.tests.conftest import DRIVER, golden, make_benchmark, make_job, marked

ADDRESS = Address("unix", 7000, Path("/run/s"))


def benchmark(**workload: Any) -> Benchmark:
    return parse_job(make_job(benchmarks=[make_benchmark(**({"keys": {"count": 20_000}} | workload))])).benchmarks[0]


def document() -> dict[str, Any]:
    produced: dict[str, Any] = golden("result.v1.json")["trials"][0]["driver"]
    return produced


def target(home: Path, address: Address = ADDRESS, pid: int = 0) -> Target:
    return Target("resp", address, pid or os.getpid(), home)


def run(processes: Processes, home: Path, script: str, pid: int = 0) -> None:
    """Runs a shell script in the place of the driver, beside a server with this pid."""
    program = home / "speedbench"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    driver = Driver(program, processes, frozenset(os.sched_getaffinity(0)))
    driver.run(benchmark(), target(home, pid=pid), 1, Control())


def test_a_document_that_is_cut_short_is_no_measurement() -> None:
    cut_short = {"cause": "the server closed connection 3", "test": "get", "after_s": 1.5}
    half = document() | {"cut_short": cut_short}
    with pytest.raises(Transient, match=r"cut short, .*the server closed connection 3"):
        read_outcome(half, benchmark(), 1)
    with pytest.raises(Transient, match="cut short"):
        check_tests(half, benchmark(), checked="count")
    whole = document() | {"cut_short": None}
    assert read_outcome(whole, benchmark(), 1).metrics == read_outcome(document(), benchmark(), 1).metrics


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        (
            "echo speedbench: the server went away >&2; exit 1",
            BenchmarkFailed,
            "cannot measure: speedbench: the server",
        ),
        (
            "echo speedbench: no key x >&2; exit 2",
            BenchmarkFailed,
            "refuses its workload: speedbench: no key x: correct",
        ),
        ("echo thread main panicked >&2; exit 101", Transient, "crashed with exit status 101: thread main panicked"),
        ("kill -9 $$", Transient, "killed by signal 9; it printed no message"),
        ("echo hello", Permanent, "no JSON on the driver's stdout"),
        ("echo '[]'", Permanent, "the document must be an object"),
    ],
)
def test_a_driver_that_ends_without_a_result(
    processes: Processes, home: Path, script: str, kind: type[RunnerError], message: str
) -> None:
    with pytest.raises(RunnerError, match=message) as raised:
        run(processes, home, script)
    assert type(raised.value) is kind and marked(home) == []


def test_a_server_without_cpu_time_is_a_wrapper_and_one_without_it_in_the_window_is_transient(
    processes: Processes, home: Path
) -> None:
    starved = document()
    change("tests", 0, "server_cpu", "ns_per_request", to=0.0)(starved)
    (home / "starved.json").write_text(json.dumps(starved))
    script = f"cat {home}/starved.json"
    with pytest.raises(Transient, match="no CPU in the window"):
        run(processes, home, script)  # this very process, which works meanwhile
    with subprocess.Popen(["sleep", "60"]) as wrapper:
        try:
            wrapper.send_signal(signal.SIGSTOP)  # so it certainly uses no CPU, like a wrapper that waits
            os.waitpid(wrapper.pid, os.WUNTRACED)
            with pytest.raises(BenchmarkFailed, match="must be the server itself"):
                run(processes, home, script, wrapper.pid)
        finally:
            wrapper.kill()


def test_a_hanging_driver_is_ended(processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "GRACE_S", -4.0)
    with pytest.raises(Transient, match=r"did not end within 0.49 s"):
        run(processes, home, "trap '' TERM; while :; do sleep 1; done")
    assert marked(home) == []


def test_a_real_driver_that_is_killed_is_transient(
    processes: Processes, home: Path, speedbench: Path, tiny: Path
) -> None:
    directory = home / "server"
    directory.mkdir()
    address = Address("unix", 0, directory / "s")
    with (home / "output").open("wb") as output:
        argv = [str(tiny), "--port", "0", "--unixsocket", str(address.socket_path)]
        server = processes.start(ChildCommand(argv, {}, directory), output)
    while greet(address, "resp") != READY:
        assert server.wait(Control(), 0.02) is None
    threading.Thread(target=lambda: kill_the_driver(processes, server.pid)).start()
    with pytest.raises(Transient, match="killed by signal 9"):
        Driver(speedbench, processes, frozenset(os.sched_getaffinity(0))).run(
            benchmark(duration_s=20.0), target(home, address, server.pid), 1, Control()
        )
    assert server.exited() is None
    server.end()


def kill_the_driver(processes: Processes, server_pid: int) -> None:
    """As soon as it has been started."""
    while not (started := {int(record.stem) for record in processes.directory.glob("*.json")} - {server_pid}):
        time.sleep(0.01)
    for pid in started:
        os.kill(pid, signal.SIGKILL)


def test_the_metrics_of_the_golden_document() -> None:
    outcome, test = read_outcome(document(), benchmark(), 1), document()["tests"][0]
    assert outcome.flags == []
    assert outcome.window[1] - outcome.window[0] == pytest.approx(test["window_s"])
    assert outcome.metrics == server_metrics(document()) | {
        "server_cpu_ns_per_request": test["server_cpu"]["ns_per_request"],
        "throughput_rps": test["throughput_rps"],
        "latency_us_p50": test["latency_us"]["p50"],
        "latency_us_p99": test["latency_us"]["p99"],
    }


def test_the_golden_document_of_the_driver_is_accepted() -> None:
    whole = json.loads((DRIVER / "tests" / "golden" / "speedbench.v1.json").read_text())
    for test in whole["tests"]:
        asked = benchmark(test=test["name"], keys=test["workload"]["keys"])
        assert read_outcome(whole | {"tests": [test]}, asked, 1).metrics["latency_us_p99"] == test["latency_us"]["p99"]


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
        (change("tests", to=[]), Permanent, "0 tests for 1 phases"),
        (
            change("tests", 0, "throughput_rps", to="fast"),
            Permanent,
            r"throughput_rps must be a valid number",
        ),
        (change("tests", 0, "server_cpu", to=None), Permanent, r"tests\[0\].server_cpu must be an object"),
        (change("tests", 0, "latency_us", to={}), Permanent, r"tests\[0\].latency_us.p50 is missing"),
        (change("tests", 0, "flags", to=["haunted"]), Permanent, "the flag 'haunted' is not known"),
        (
            change("tests", 0, "errors", to={"count": 2, "first": "-ERR no"}),
            BenchmarkFailed,
            "2 error replies, the first: -ERR no",
        ),
        (
            change("tests", 0, "flags", to=["hit_rate"]),
            BenchmarkFailed,
            "wrong answer: hit_rate not as expected",
        ),
        (change("tests", 0, "requests", to=0), Transient, "answered no request"),
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
        read_outcome(produced, benchmark(), 1)
    assert type(raised.value) is kind


WINDOW_NS = 20_000_000


def duel() -> dict[str, Any]:
    """The document of a duel of three pairs; the ratios are of fewer slices than the sides."""
    one = document()
    slices = [
        {"side": {"b": "base", "h": "head"}[letter], "began_ns": at * WINDOW_NS, "ns": WINDOW_NS + at}
        for at, letter in enumerate("bhhbhb")
    ]
    side = one["tests"][0] | {"prefill": one["prefill"]}
    test = {
        "slice_ms": 20,
        "slices": slices,
        "base": side,
        "head": side,
        "resting_cpu_share": {"base": 0.01, "head": 0.02},
        "ratios": [
            {"metric": "server_cpu_ns_per_request", "base": 1000.0, "head": 1100.0, "ratio": 1.1},
            {"metric": "throughput_rps", "base": 50_000.0, "head": 48_000.0, "ratio": 0.96},
            {"metric": "latency_us_p99", "base": 1e9, "head": 1e9, "ratio": 1.0},
        ],
    }
    servers = {"base": {"address": "unix:/a", "pid": 1}, "head": {"address": "unix:/b", "pid": 2}}
    return one | {"schema": "speedbench.duel.v1", "tests": [test]} | servers


def test_a_duel_is_an_outcome_of_each_side() -> None:
    base, head = read_duel(duel(), benchmark())
    alone = read_outcome(document(), benchmark(), 1).metrics
    for outcome, cpu_ns, rate in ((base, 1000.0, 50_000.0), (head, 1100.0, 48_000.0)):
        trimmed = {"server_cpu_ns_per_request": cpu_ns, "throughput_rps": rate}
        assert outcome.metrics == alone | trimmed
    assert base.document["target"]["address"] == "unix:/a" and head.document["target"]["address"] == "unix:/b"
    assert head.pairing == {
        "slice_ms": 20,
        "order": "bhhbhb",
        "slice_ns": [WINDOW_NS + at for at in (1, 2, 4)],
        "resting_cpu_share": 0.02,
    }
    assert head.window == (0.0, pytest.approx(0.12))


def test_a_duel_without_cpu_time_is_no_measurement() -> None:
    starved = duel()
    del starved["tests"][0]["ratios"][0]
    with pytest.raises(Transient, match="no pair of slices has CPU time"):
        read_duel(starved, benchmark())


def test_a_duel_with_wrong_answers_is_no_measurement() -> None:
    wrong = duel()
    wrong["tests"][0]["head"] = wrong["tests"][0]["head"] | {"flags": ["hit_rate"]}
    with pytest.raises(BenchmarkFailed, match="hit_rate not as expected"):
        read_duel(wrong, benchmark())


def test_the_command_line_of_a_duel() -> None:
    base = Target("resp", Address("tcp", 7000, Path("/run/s")), 42, Path("/d"))
    head = Target("resp", Address("unix", 7001, Path("/run/t")), 43, Path("/e"))
    assert " ".join(duel_arguments(benchmark(), base, head, 5, frozenset([2]))) == (
        "duel --workload workload.json --base 127.0.0.1:7000 --head /run/t --base-pid 42 --head-pid 43 "
        "--server-events instructions,cycles --seed 5 --cpus 2 --json"
    )


def test_the_command_line() -> None:
    at = Target("resp", Address("tcp", 7000, Path("/run/s")), 42, Path("/d"))
    assert " ".join(driver_arguments(benchmark(), at, 5, frozenset([2, 3]))) == (
        "run --workload workload.json -h 127.0.0.1 -p 7000 --seed 5 --cpus 2,3 --server-pid 42 "
        "--server-events instructions,cycles --json"
    )
    assert target(Path("/d")).options == ["-s", "/run/s"]


def test_thousands_of_connections_over_tcp_come_from_several_addresses() -> None:
    tcp = Target("resp", Address("tcp", 7000, Path("/run/s")), 42, Path("/d"))
    words = driver_arguments(benchmark(clients=60_000), tcp, 5, frozenset([2]))
    assert words[words.index("--source") + 1] == "127.0.0.1-127.0.0.8"
    assert "--source" not in driver_arguments(benchmark(clients=8_000), tcp, 5, frozenset([2]))
    assert "--source" not in driver_arguments(benchmark(clients=60_000), target(Path("/d")), 5, frozenset([2]))


def test_the_phases_of_the_workload_document() -> None:
    measured = benchmark(prefill=None, setup={"request": "RPUSH l __data__", "times": 9}).workload
    setup, phase = phases(measured, 2)
    assert phase == {k: v for k, v in measured.items() if k != "setup"} | {"threads": 2}
    assert setup == {
        "name": "setup",
        "clients": 1,
        "commands": [{"request": "RPUSH l __data__"}],
        "requests": 9,
        "keys": {"count": 20_000},
        "values": {"bytes": 32},
    }
    assert phases(benchmark(clients=1).workload, 2)[0]["threads"] == 1
    assert phases(benchmark(threads=3).workload, 2)[0]["threads"] == 3


@pytest.mark.parametrize(
    ("workload", "seconds"),
    [
        ({}, 30 + 4 + 0.45),
        ({"prefill": False}, 30.45),
        ({"warmup_most_s": 9.0}, 30 + 4 + 0.4 + 9.0),
        ({"requests": 5000, "duration_s": None}, 30 + 4 + 0.05 + 5),
        ({"clients": 60_000}, 30 + 120 + 4 + 0.45),
    ],
)
def test_a_driver_has_the_time_its_workload_takes(workload: dict[str, Any], seconds: float) -> None:
    connecting_s = 0 if "clients" in workload else 20 / 500
    assert deadline_s(benchmark(**workload).workload) == pytest.approx(seconds + connecting_s)


def test_the_rate_of_an_open_loop_is_no_throughput() -> None:
    produced = document()
    produced["tests"][0]["mode"] = "open"
    closed = read_outcome(document(), benchmark(), 1).metrics
    assert set(closed) - set(read_outcome(produced, benchmark(), 1).metrics) == {"throughput_rps"}


TABLE = golden("workloads.json")


def ask(speedbench: Path, workload: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Shows a workload to the driver; its server is not there, so one that is right ends with exit code 1."""
    phase = {key: value for key, value in workload.items() if key != "protocol"}
    document = {"protocol": workload.get("protocol", "resp"), "phase": [phase]}
    return subprocess.run(
        [speedbench, "run", "--workload", "-", "-s", "/nonexistent"],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("workload", TABLE["good"], ids=json.dumps)
def test_the_driver_takes_what_suites_may_ask(speedbench: Path, workload: dict[str, Any]) -> None:
    done = ask(speedbench, workload)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr


@pytest.mark.parametrize(("place", "workload"), TABLE["bad"], ids=json.dumps)
def test_the_driver_refuses_what_suites_may_not(speedbench: Path, place: str, workload: dict[str, Any]) -> None:
    done = ask(speedbench, workload)
    assert (done.returncode, done.stdout) == (2, "") and place in done.stderr


def test_a_trial_has_what_the_driver_read() -> None:
    document = json.loads((DRIVER / "tests" / "golden" / "speedbench.v1.json").read_text())
    document["tests"] = document["tests"][:1]
    (test,), prefill = document["tests"], document["prefill"]
    values = server_object(document, {"evicted_keys": 0.0})
    assert values["cpu_user_ns"] + values["cpu_system_ns"] == test["server_cpu"]["ns"]
    assert values["keys"] == 100_000 and values["stats"] == {"evicted_keys": 0.0}
    assert values["rss_after_prefill_bytes"] - values["rss_before_prefill_bytes"] == pytest.approx(
        prefill["server_memory"]["bytes_per_key"] * 100_000, abs=1000
    )
    found = server_metrics(document)
    both = found["server_user_ns_per_request"] + found["server_system_ns_per_request"]
    assert both == pytest.approx(test["server_cpu"]["ns_per_request"], abs=0.01)
    switches = test["server"]["voluntary_switches"] + test["server"]["involuntary_switches"]
    assert found["context_switches_per_request"] == switches / test["requests"]


def test_values_that_the_driver_did_not_read_are_left_out() -> None:
    document = golden("result.v1.json")["trials"][0]["driver"]
    document["tests"][-1]["server"] = {"user_ns": None, "system_ns": None, "voluntary_switches": 7}
    document["prefill"] = None
    assert list(server_metrics(document)) == ["context_switches_per_request"]
    assert server_object(document, {}) == {"voluntary_switches": 7, "stats": {}}
    assert server_object({"schema": "speedtrack.external/1"}, {}) == {"stats": {}}
