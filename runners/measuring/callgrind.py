"""Instructions per request, counted by callgrind: slow, on every machine, whatever else runs there.

A server is run in valgrind with N requests and again with 2N, same keys, same seed: what the second executed more, over
N, is what a request costs, without start, prefill, connections and end. The kernel's instructions are not in it.
"""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

from runners.documents import Benchmark
from runners.errors import BenchmarkFailed, Transient
from runners.loads.speedbench import Target
from runners.measuring.trials import MEASURE, Rig

METRIC = "callgrind_instructions_per_request"
REQUESTS = 10_000
SEED = 1  # of all runs: two commits are asked for the same keys, from the same stack
SLOWNESS = 10  # of a server's start in valgrind, at least
END_TIMEOUT_S = 60.0
REPORT = "callgrind.out"
NO_VALGRIND = "valgrind is not a program on this machine: install it on the runner's PATH"
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
_KEPT = {"test", "commands", "sequence", "pipeline", "window", "keys", "values", "ttl_s", "prefill", "setup", "expect",
         "verify", "resp3", "tracking"}  # fmt: skip


def count(rig: Rig, benchmark: Benchmark, side: str) -> dict[str, float]:
    """The metric; nothing, and a line in the log that says why, where it cannot be had. Raises what ends the run."""
    try:
        fewer, more = (executed(rig, benchmark, side, requests) for requests in (REQUESTS, 2 * REQUESTS))
    except (BenchmarkFailed, Transient) as error:
        rig.check()
        rig.log.line(MEASURE, f"{benchmark.name}: {METRIC} is absent: {error}")
        return {}
    found = (more - fewer) / REQUESTS
    rig.log.line(MEASURE, f"{benchmark.name}: {found:.1f} instructions per request by callgrind")
    return {METRIC: found}


def executed(rig: Rig, benchmark: Benchmark, side: str, requests: int) -> int:
    """What a server executed from its start to its end, with so many requests. Raises BenchmarkFailed, Transient."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise BenchmarkFailed(NO_VALGRIND)
    job, tools = rig.job, rig.tools
    command = f"{valgrind} -q --tool=callgrind --callgrind-out-file={{data}}/{REPORT} {job.server.command}"
    recipe = replace(job.server, command=command, ready_timeout_s=SLOWNESS * job.server.ready_timeout_s)
    programs = {name: one.path for name, one in rig.builds[side].artifacts.items()}
    with tools.launcher.running(recipe, benchmark.transport, programs, Random(SEED), rig.control) as server:
        target = Target(recipe.protocol, server.address, server.pid, server.output.parent)
        tools.driver.run(counted(benchmark, requests), target, SEED, rig.control)
        server.check_alive()
        server.child.terminate()
        if server.child.wait(rig.control, END_TIMEOUT_S) is None:
            raise BenchmarkFailed("the server did not end in valgrind when it was told to")
        return total(target.directory / "data" / REPORT)


def counted(benchmark: Benchmark, requests: int) -> Benchmark:
    """The benchmark with a number of requests from one connection, as fast as they are answered.

    With more of them chance decides how many are answered in one turn of the server's loop, and what each pays of it.
    """
    kept = {key: value for key, value in benchmark.workload.items() if key in _KEPT}
    one = {"clients": 1, "threads": 1, "requests": requests, "warmup_s": 0.0}
    return replace(benchmark, workload=kept | one)


def total(report: Path) -> int:
    """The instructions in callgrind's report. Raises BenchmarkFailed."""
    text = report.read_text(errors="replace") if report.exists() else ""
    found = _TOTAL.search(text)
    if found is None:
        raise BenchmarkFailed("callgrind left no report: the server must end by itself on SIGTERM")
    return int(found[1])
