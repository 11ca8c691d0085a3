"""Instructions per request, counted by callgrind: slow, but possible on every machine, however busy it is.

A server runs in valgrind with N requests and again with 2N, with the same keys and seed. The difference of their
instructions, divided by N, is the cost of a request, without start, prefill, connections and end of the server. Kernel
instructions are not counted.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from runners.documents import Benchmark
from runners.errors import BenchmarkFailed, Transient
from runners.foreign import UnusableFile, read_lines
from runners.loads.target import Target
from runners.measuring.trials import MEASURE, TrialRunner
from runners.servers.capacity import recipe_for
from runners.servers.server import ServerProcess, ServerSpec

METRIC = "callgrind_instructions_per_request"
REQUESTS = 10_000
SEED = 1  # of all runs: two commits get the same keys and the same stack layout
SLOWDOWN = 10  # of a server's start in valgrind, at least
END_TIMEOUT_S = 60.0
REPORT = "callgrind.out"
REPORT_LIMIT_BYTES = 64 << 20
NO_VALGRIND = "valgrind is not a program on this machine: install it on the runner's PATH"
# Messages of a failing server in valgrind, or of the driver that loads it, and the remedies.
REMEDIES = (
    ("failed to start tool|Exec format error|cannot execute", "install valgrind for this machine's architecture"),
    ("valgrind: not found", "the sandbox hides it: name its directory in SPEEDTRACK_SANDBOX_READABLE"),
    (
        "SIGILL|Illegal opcode",
        "valgrind does not know all instructions of this processor: build it without -march=native",
    ),
)
_TOTAL = re.compile(r"(?:summary|totals): (\d{1,18})")
KEPT_KEYS = (
    *("test", "commands", "sequence", "pipeline", "window", "keys", "values", "ttl_s"),
    *("prefill", "prefill_request", "setup", "expect", "verify", "resp3", "tracking"),
)


@contextmanager
def in_valgrind() -> Iterator[None]:
    """Adds "in valgrind" to a failure in the block, and the remedy if one is known."""
    try:
        yield
    except BenchmarkFailed as error:
        remedy = next((f": {text}" for cause, text in REMEDIES if re.search(cause, str(error))), "")
        raise BenchmarkFailed(f"in valgrind: {error}{remedy}") from error


def load_alive(runner: TrialRunner, benchmark: Benchmark, target: Target, server: ServerProcess) -> None:
    """Loads the server once. If the server has ended, the error has its last output, not the driver's."""
    try:
        runner.tools.driver.run(benchmark, target, SEED, runner.control)
    except (BenchmarkFailed, Transient):
        server.check_alive()
        raise
    server.check_alive()


def count_instructions(runner: TrialRunner, benchmark: Benchmark, side: str) -> dict[str, float]:
    """The metric of counted instructions; empty, with a line in the log, if that fails. Raises what ends the run."""
    try:
        once = executed_instructions(runner, benchmark, side, REQUESTS)
        twice = executed_instructions(runner, benchmark, side, 2 * REQUESTS)
    except (BenchmarkFailed, Transient) as error:
        runner.check()
        runner.log.line(MEASURE, f"{benchmark.name}: {METRIC} is absent: {error}")
        return {}
    per_request = (twice - once) / REQUESTS
    runner.log.line(MEASURE, f"{benchmark.name}: {per_request:.1f} instructions per request by callgrind")
    return {METRIC: per_request}


def executed_instructions(runner: TrialRunner, benchmark: Benchmark, side: str, requests: int) -> int:
    """The instructions of a server from start to end, with so many requests. Raises BenchmarkFailed, Transient."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise BenchmarkFailed(NO_VALGRIND)
    job, tools = runner.job, runner.tools
    command = f"{valgrind} -q --tool=callgrind --callgrind-out-file={{data}}/{REPORT} {job.server.command}"
    recipe = replace(job.server, command=command, ready_timeout_s=SLOWDOWN * job.server.ready_timeout_s)
    programs = {name: artifact.path for name, artifact in runner.builds[side].artifacts.items()}
    spec = ServerSpec(recipe_for(recipe, benchmark), benchmark.transport, programs)
    with in_valgrind(), tools.launcher.running(spec, Random(SEED), runner.control) as server:
        target = Target(recipe.protocol, server.address, server.pid, server.output.parent)
        load_alive(runner, counting_benchmark(benchmark, requests), target, server)
        server.child.terminate()
        if server.child.wait(runner.control, END_TIMEOUT_S) is None:
            raise BenchmarkFailed("the server did not end on SIGTERM")
        return total_instructions(target.directory / "data" / REPORT)


def counting_benchmark(benchmark: Benchmark, requests: int) -> Benchmark:
    """The benchmark with a number of requests from one connection in a closed loop.

    With more connections the number of requests in one turn of the server's event loop would be random, and so would be
    each request's share of the cost of a turn.
    """
    workload = {key: value for key, value in benchmark.workload.items() if key in KEPT_KEYS}
    shape = {"clients": 1, "threads": 1, "requests": requests, "warmup_s": 0.0}
    return replace(benchmark, workload=workload | shape)


def total_instructions(report: Path) -> int:
    """The instructions in callgrind's report. Raises BenchmarkFailed."""
    try:
        lines = read_lines(report, REPORT_LIMIT_BYTES)
        match = next((match for line in lines if (match := _TOTAL.match(line))), None)
    except UnusableFile as error:
        raise BenchmarkFailed(f"callgrind's report cannot be read: {error}") from error
    except OSError:
        match = None
    if match is None:
        raise BenchmarkFailed("callgrind left no report: the server must end by itself on SIGTERM")
    return int(match[1])
