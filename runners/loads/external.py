"""Load generators other than the native driver: redis-benchmark, memtier_benchmark, and a command that a suite names.

They report throughput and latency. The server's CPU time is read here, over the whole run of the tool, so it includes
the tool's work before and after its load. The SpeedTrack server checks the suite's settings for each tool
(speedtrack/benchmarks/external.py).
"""

import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.documents import Benchmark
from runners.errors import BenchmarkFailed, Permanent, Transient
from runners.foreign import read_start
from runners.loads import command, memtier
from runners.loads.command import command_line, read_command_report
from runners.loads.memtier import memtier_arguments, memtier_fill, read_memtier
from runners.loads.redis_benchmark import read_redis_benchmark, redis_benchmark_arguments
from runners.loads.report import ToolReport, Workload
from runners.loads.speedbench import SLOWEST_REQUESTS_PER_S, Driver, only_prefill
from runners.loads.target import NO_CPU, LoadOutcome, Target, last_line
from runners.machine.environment import file_digest, version_line
from runners.machine.facts import UNKNOWN
from runners.processes.children import ChildCommand
from runners.processes.control import Control
from runners.processes.cpu_time import ended_children_s

SCHEMA = "speedtrack.external/1"
LEAST_TIME_S = 60.0
BUSY_LIMIT = 0.85  # of a core: above it the tool is the limit, not the server (as with the native driver)
LONGEST_OUTPUT = 1 << 20  # bytes of a tool's report that are read
STDOUT = "tool.out"


@dataclass(frozen=True)
class LoadGenerator:
    """A known program: its name on PATH, the setting with another path, its command lines and its report.

    `fill`: the command line that sets every key once; None: the native driver does that.
    """

    program: str
    setting: str
    arguments: Callable[[Workload, Target], list[str]]
    fill: Callable[[Workload, Target], list[str]] | None
    report: str
    read_report: Callable[[str, Workload], ToolReport]


LOAD_GENERATORS = {
    "redis-benchmark": LoadGenerator(
        "redis-benchmark", "SPEEDTRACK_REDIS_BENCHMARK", redis_benchmark_arguments, None, STDOUT, read_redis_benchmark
    ),
    "memtier": LoadGenerator(
        "memtier_benchmark", "SPEEDTRACK_MEMTIER", memtier_arguments, memtier_fill, memtier.REPORT, read_memtier
    ),
}


@dataclass(frozen=True)
class ExternalLoads:
    """The load generators of this machine, on the driver's CPUs. `paths`: programs by the setting that names them."""

    driver: Driver
    paths: Mapping[str, str]

    def run(self, benchmark: Benchmark, target: Target, seed: int, control: Control) -> LoadOutcome:
        """Loads the server once.

        Raises BenchmarkFailed with the last line that the tool printed, Transient if it hung or was killed.
        """
        program, workload = self.program(benchmark), benchmark.workload
        tool = LOAD_GENERATORS.get(benchmark.driver)
        if tool is None:
            argv, report = command_line(benchmark.command, program, target), target.directory / command.REPORT
            return self._measure(argv, benchmark, target, control, lambda: read_command_report(_text(report)))
        if workload["prefill"]:
            self._prefill(tool, program, benchmark, target, seed, control)
        argv, report = [str(program), *tool.arguments(workload, target)], target.directory / tool.report
        return self._measure(argv, benchmark, target, control, lambda: tool.read_report(_text(report), workload))

    def steps(self, benchmark: Benchmark, target: Target) -> list[list[str] | Benchmark]:
        """The steps of `run`, as words of a command line; a Benchmark stands for a load of the native driver."""
        name = Path(self.program(benchmark)).name
        tool = LOAD_GENERATORS.get(benchmark.driver)
        if tool is None:
            return [command_line(benchmark.command, Path(name), target)]
        fill: list[list[str] | Benchmark] = []
        if benchmark.workload["prefill"]:
            fill = [[name, *tool.fill(benchmark.workload, target)] if tool.fill else only_prefill(benchmark)]
        return [*fill, [name, *tool.arguments(benchmark.workload, target)]]

    def program(self, benchmark: Benchmark) -> Path:
        """The path of the program. Raises BenchmarkFailed with the remedy if it is missing."""
        tool = LOAD_GENERATORS.get(benchmark.driver)
        path = self.paths.get(tool.setting) if tool else None
        name = path or (tool.program if tool else shlex.split(benchmark.command)[0])
        program = shutil.which(name)
        if program is None:
            hint = f", or set {tool.setting} to its path" if tool else ""
            raise BenchmarkFailed(f"{name} is not a program on this machine: install it on the runner's PATH{hint}")
        return Path(program).absolute()

    def facts(self, benchmark: Benchmark) -> dict[str, str]:
        """Facts that replace those of the native driver, since results of another program belong to another series."""
        path = self.program(benchmark)
        is_known = benchmark.driver in LOAD_GENERATORS
        version = version_line([str(path), "--version"], os.environ.get("PATH", "")) if is_known else UNKNOWN
        return {"driver": path.name, "driver_version": version, "driver_digest": file_digest(path)}

    def _prefill(
        self, tool: LoadGenerator, program: Path, benchmark: Benchmark, target: Target, seed: int, control: Control
    ) -> None:
        if tool.fill is None:
            self.driver.prefill(benchmark, target, seed, control)
        else:
            argv = [str(program), *tool.fill(benchmark.workload, target)]
            self._run(argv, target, _deadline_s(benchmark.workload["keys"]["count"]), control)

    def _measure(
        self,
        argv: list[str],
        benchmark: Benchmark,
        target: Target,
        control: Control,
        read_report: Callable[[], ToolReport],
    ) -> LoadOutcome:
        timeout_s = _deadline_s(benchmark.workload["requests"]) if benchmark.workload else benchmark.timeout_s
        begin, server_before, tool_before = time.monotonic(), target.cpu_ns(), ended_children_s()
        self._run(argv, target, timeout_s, control)
        server_ns, tool_s = target.cpu_ns() - server_before, ended_children_s() - tool_before
        wall_s = time.monotonic() - begin
        try:
            report = read_report()
        except Permanent as error:  # only this benchmark fails: the others of the run can be measured
            raise BenchmarkFailed(str(error)) from error
        if server_ns <= 0:
            raise BenchmarkFailed(NO_CPU)
        document = {
            "schema": SCHEMA,
            "argv": argv,
            "workload": dict(benchmark.workload),
            "requests": report.requests,
            "server_cpu_ns": server_ns,
            "client_cpu_ns": round(tool_s * 1e9),
            "seconds": wall_s,
        }
        metrics = {"server_cpu_ns_per_request": server_ns / report.requests} | report.metrics
        is_bound = tool_s > BUSY_LIMIT * wall_s * benchmark.workload.get("threads", 1)
        return LoadOutcome(metrics, ["client_bound"] if is_bound else [], document)

    def _run(self, argv: list[str], target: Target, timeout_s: float, control: Control) -> None:
        output, errors = target.directory / STDOUT, target.directory / "tool.err"
        environment = {"LANG": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath)}
        cpus, nodes, network = self.driver.cpus, self.driver.nodes, target.address.network
        tool = ChildCommand(argv, environment, target.directory, cpus, nodes, network=network)
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            try:
                status = self.driver.processes.run(tool, control, timeout_s, stdout, stderr)
            except OSError as error:
                raise BenchmarkFailed(f"{argv[0]} cannot be started: {error}") from error
        message = last_line(errors) or last_line(output) or "it printed no message"
        if status is None:
            raise Transient(f"{Path(argv[0]).name} did not end within {timeout_s:g} s: {message}")
        check_status(Path(argv[0]).name, status, message)


def _deadline_s(requests: int) -> float:
    return LEAST_TIME_S + float(requests) / SLOWEST_REQUESTS_PER_S


def _text(file: Path) -> str:
    try:
        return read_start(file, LONGEST_OUTPUT).decode(errors="replace")
    except OSError as error:
        raise BenchmarkFailed(f"the tool wrote no {file.name}: it must write its report there ({error})") from error


def check_status(name: str, status: int, message: str) -> None:
    """Raises Transient if a signal killed the program, BenchmarkFailed if it ended with an error."""
    if status < 0:
        raise Transient(f"{name} was killed by signal {-status}: {message}")
    if status > 0:
        raise BenchmarkFailed(f"{name} ended with exit status {status}: {message}")
