"""Other load generators: command lines, reports, and whole runs with a program that prints as redis-benchmark does."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from runners.documents import Benchmark, parse_job
from runners.errors import BenchmarkFailed, Permanent
from runners.loads.command import command_line, read_command_report
from runners.loads.external import ExternalLoads
from runners.loads.memtier import memtier_arguments, memtier_fill, memtier_ratio, read_memtier
from runners.loads.redis_benchmark import read_redis_benchmark, redis_benchmark_arguments
from runners.loads.target import Target
from runners.servers.address import Address
from runners.tests.api import Api
from runners.tests.conftest import HERE, make_benchmark, make_job
from runners.work.agent import Agent

GOLDEN = HERE / "golden" / "external"
UNIX = Target("resp", Address("unix", 7000, Path("/run/s")), 42, Path("/d"))
TCP = dataclasses.replace(UNIX, protocol="memcached", address=Address("tcp", 7000, Path("/run/s")))
LENGTH = {"requests": 20_000, "warmup_s": 0.0, "duration_s": None, "expect": {}}


def of(driver: str, name: str = "get-p1", **workload: Any) -> dict[str, Any]:
    return make_benchmark(name, **(LENGTH | workload)) | {"driver": driver}


def own(command: str, timeout_s: float = 120) -> dict[str, Any]:
    return make_benchmark("own") | {
        "driver": "command",
        "workload": {},
        "command": command,
        "timeout_s": timeout_s,
    }


def workload(**changes: Any) -> Any:
    return parse_job(make_job(benchmarks=[of("memtier", **changes)])).benchmarks[0].workload


@pytest.mark.parametrize(
    ("file", "rate", "p50_us", "p99_us"),
    [
        ("redis-benchmark-7.0.15.csv", 555555.56, 215, 7087),
        ("redis-benchmark-7.0.15-command.csv", 78125.00, 263, 6111),
        ("valkey-benchmark.csv", 625000.00, 935, 3975),
    ],
)
def test_the_csv_of_redis_benchmark(file: str, rate: float, p50_us: float, p99_us: float) -> None:
    report = read_redis_benchmark((GOLDEN / file).read_text(), workload())
    assert report.requests == 20_000
    assert report.metrics == pytest.approx({"throughput_rps": rate, "latency_us_p50": p50_us, "latency_us_p99": p99_us})


HEADER = (GOLDEN / "valkey-benchmark.csv").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not the CSV of redis-benchmark"),
        ('"test","rps"\n"GET","100000.00"\n', "not the CSV of redis-benchmark 6.2 or later"),
        (HEADER + "\n", "not the CSV"),
        (HEADER + '\n"GET","inf","0.0","0.0","0.0","0.0","0.0","0.0"\n', "too short to be measured: raise requests"),
        (HEADER + '\n"GET","fast","0.1","0.1","0.1","0.1","0.1","0.1"\n', "cannot be read"),
    ],
)
def test_another_csv_is_refused(text: str, message: str) -> None:
    with pytest.raises(BenchmarkFailed, match=message):
        read_redis_benchmark(text, workload())


def test_the_json_of_memtier() -> None:
    report = read_memtier((GOLDEN / "memtier-2.json").read_text(), workload(prefill=False))
    assert report.requests == 20_000
    assert report.metrics == pytest.approx({"throughput_rps": 350723.37, "latency_us_p50": 55, "latency_us_p99": 119})


def test_misses_after_its_own_prefill_are_a_wrong_answer() -> None:
    with pytest.raises(BenchmarkFailed, match="missed keys"):
        read_memtier((GOLDEN / "memtier-2.json").read_text(), workload(prefill=True))


@pytest.mark.parametrize(("text", "message"), [("no", "is no JSON"), ("{}", "ALL STATS is missing")])
def test_another_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(Permanent, match=message):
        read_memtier(text, workload())


def test_the_command_line_of_redis_benchmark() -> None:
    assert " ".join(redis_benchmark_arguments(workload(), UNIX)) == (
        "-s /run/s -c 20 -P 1 -n 20000 -r 500 -d 32 --csv -t get"
    )
    custom = workload(test=None, threads=2, commands=[{"request": "SET 'a b' __rand_int__", "weight": 1}])
    words = redis_benchmark_arguments(custom, TCP)
    assert " ".join(words[:-3]) == "-h 127.0.0.1 -p 7000 -c 20 -P 1 -n 20000 --threads 2 -r 500 -d 32 --csv"
    assert words[-3:] == ["SET", "a b", "__rand_int__"]


def test_the_command_line_of_memtier() -> None:
    asked = workload(test="get:9+set:1", threads=2, keys={"count": 500, "distribution": "zipf", "exponent": 0.9})
    assert " ".join(memtier_arguments(asked, UNIX)) == (
        "--unix-socket=/run/s --protocol=redis --hide-histogram --distinct-client-seed --threads=2"
        " --clients=10 --requests=1000 --pipeline=1 --ratio=1:9 --key-pattern=Z:Z --json-out-file=memtier.json"
        " --key-zipf-exp=0.9 --key-minimum=1"
        " --key-maximum=500 --data-size=32"
    )
    sized = workload(values={"weighted": [[32, 9], [1024, 1]]}, ttl_s=60)
    assert " ".join(memtier_fill(sized, TCP)) == (
        "--server=127.0.0.1 --port=7000 --protocol=memcache_text --threads=1 --clients=1 --requests=allkeys"
        " --pipeline=16 --ratio=1:0 --key-pattern=P:P --key-minimum=1 --key-maximum=500"
        " --data-size-list=32:9,1024:1 --expiry-range=60-60"
    )


@pytest.mark.parametrize(
    ("test", "ratio"), [("get", "0:1"), ("set", "1:0"), ("get:9+set:1", "1:9"), ("get+set", "1:1")]
)
def test_a_mix_is_a_ratio(test: str, ratio: str) -> None:
    assert memtier_ratio(test) == ratio


def test_a_command_is_split_before_its_placeholders_are_filled() -> None:
    spaced = dataclasses.replace(UNIX, directory=Path("/a b"))
    assert command_line("load -s {socket} 'two words' --to={host}:{port} -o {output}", Path("/bin/load"), spaced) == [
        "/bin/load",
        "-s",
        "/run/s",
        "two words",
        "--to=127.0.0.1:7000",
        "-o",
        "/a b/metrics.json",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must be an object"),
        ('{"throughput_rps": 5}', "requests is missing"),
        ('{"requests": 0}', "requests must be greater than or equal to 1"),
        ('{"requests": 5, "rps": 5}', "reports 'rps': a command may report requests, throughput_rps"),
        ('{"requests": 5, "throughput_rps": "fast"}', "throughput_rps must be a valid number"),
        ('{"requests": 5, "throughput_rps": 0}', "throughput_rps must be greater than 0"),
        ('{"requests": 5, "latency_us_p50": NaN}', "latency_us_p50 must be a finite number"),
    ],
)
def test_the_report_of_a_command_is_checked(text: str, message: str) -> None:
    with pytest.raises(Permanent, match=message):
        read_command_report(text)


@pytest.fixture
def with_redis_benchmark(agent: Agent, speedbench: Path, tmp_path: Path) -> Agent:
    """The native driver under the name of redis-benchmark: its own tests check it against that program's output."""
    link = tmp_path / "redis-benchmark"
    link.symlink_to(speedbench)
    tools = agent.tools
    agent.tools = dataclasses.replace(
        tools, external=ExternalLoads(tools.driver, {"SPEEDTRACK_REDIS_BENCHMARK": str(link)})
    )
    return agent


# At the ends of the window, which only our own driver knows.
READ_BY_OUR_DRIVER = {
    "bytes_per_key",
    "context_switches_per_request",
    "server_system_ns_per_request",
    "server_user_ns_per_request",
}


def test_redis_benchmark_measures_beside_the_native_driver(api: Api, with_redis_benchmark: Agent) -> None:
    api.jobs = [make_job(benchmarks=[make_benchmark("native"), of("redis-benchmark", "theirs", pipeline=4)])]
    with_redis_benchmark.work()
    assert not api.of("/fail"), api.bodies("/fail")
    found = {body["benchmark"]["name"]: body for body in api.bodies("/measurement")}
    native, theirs = (found[name]["environment"]["series"] for name in ("native", "theirs"))
    assert theirs["driver"] == "redis-benchmark" and "driver" not in native
    assert theirs["driver_version"].startswith("redis-benchmark ")
    for trial in found["theirs"]["trials"]:
        assert set(trial["metrics"]) == set(found["native"]["trials"][0]["metrics"]) - READ_BY_OUR_DRIVER
        document = trial["driver"]
        assert document["schema"] == "speedtrack.external/1" and document["requests"] == 20_000
        per_request = trial["metrics"]["server_cpu_ns_per_request"]
        assert per_request == document["server_cpu_ns"] / 20_000
        assert 0 < document["server_cpu_ns"] < document["seconds"] * 1e9


def test_a_missing_tool_fails_its_benchmark_alone_with_the_remedy(
    api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    api.jobs = [make_job(benchmarks=[make_benchmark(), of("memtier", "theirs")])]
    agent.work()
    assert [body["benchmark"]["name"] for body in api.bodies("/measurement")] == ["get-p1"]
    assert api.bodies("/fail")[0]["error"] == (
        "1 of 2 benchmarks failed: theirs: memtier_benchmark is not a program on this machine: install it on the "
        "runner's PATH, or set SPEEDTRACK_MEMTIER to its path"
    )


def script(tmp_path: Path, lines: str) -> Path:
    path = tmp_path / "load"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def test_a_command_measures(api: Api, agent: Agent, speedbench: Path, tmp_path: Path) -> None:
    """It loads the server with whatever it likes: here with the native driver."""
    load = script(
        tmp_path,
        f'{speedbench} run -s "$1" -t set -n 20000 -c 5 >/dev/null || exit 4\n'
        'echo \'{"requests": 20000, "latency_us_p50": 12.5}\' > "$2"',
    )
    api.jobs = [make_job(benchmarks=[own(f"{load} {{socket}} {{output}}")])]
    agent.work()
    assert not api.of("/fail"), api.bodies("/fail")
    [body] = api.bodies("/measurement")
    assert body["environment"]["series"]["driver"] == "load"
    for trial in body["trials"]:
        assert set(trial["metrics"]) == {"server_cpu_ns_per_request", "latency_us_p50", "peak_rss_bytes"}
        assert trial["metrics"]["latency_us_p50"] == 12.5


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("echo cannot connect >&2; exit 7", "load ended with exit status 7: cannot connect"),
        ("exit 0", "the tool wrote no metrics.json"),
        ("echo fast > $2", "the command's output is no JSON"),
    ],
)
def test_a_command_that_fails_reports_its_exit_status(
    api: Api, agent: Agent, tmp_path: Path, lines: str, message: str
) -> None:
    api.jobs = [make_job(benchmarks=[own(f"{script(tmp_path, lines)} {{socket}} {{output}}")])]
    agent.work()
    failure = api.bodies("/fail")[0]
    assert failure["kind"] == "permanent" and message in failure["error"]


def test_a_command_that_hangs_is_ended_and_tried_again(api: Api, agent: Agent, tmp_path: Path) -> None:
    hangs = own(f"{script(tmp_path, 'sleep 60')} {{socket}} {{output}}", timeout_s=0.5)
    api.jobs = [make_job(benchmarks=[hangs])]
    agent.work()
    failure = api.bodies("/fail")[0]
    assert failure["kind"] == "transient" and "load did not end within 0.5 s" in failure["error"]


def test_a_benchmark_knows_its_driver() -> None:
    [benchmark] = parse_job(make_job(benchmarks=[own("load {socket} {output}")])).benchmarks
    assert isinstance(benchmark, Benchmark) and (benchmark.driver, benchmark.workload) == ("command", {})
