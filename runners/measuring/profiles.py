"""A profile run: the server of every side is sampled under the load of every benchmark, and nothing is measured."""

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product

from runners.documents import Benchmark, ProfileRequest, Side
from runners.loads.target import Target
from runners.measuring.perf import Profile, ProfiledProcess
from runners.measuring.trials import MEASURE, TrialRunner
from runners.reporting.lease import RunProgress
from runners.servers.server import ServerProcess

WARMUP_S, WINDOW_S = 0.3, 3.0  # about 3000 samples at 997 Hz: the standard error of a share of 10% is half a point
CPU = "server_cpu_ns_per_request"


def run_profiles(runner: TrialRunner, request: ProfileRequest, show: Callable[[RunProgress], None]) -> None:
    """Sends a profile of each benchmark and side, or why perf could not sample it. Raises as a trial does."""
    pairs = list(product(runner.job.benchmarks, runner.job.sides))
    for done, (benchmark, side) in enumerate(pairs):
        runner.check()
        name = f"{runner.name(benchmark, side.side)}, profile"
        show(RunProgress(done, len(pairs), name))
        profile, cpu_ns = profile_server(runner, benchmark, side, request)
        runner.log.line(MEASURE, f"{name}: {profile.unavailable or f'{profile.samples} samples of {profile.event}'}")
        document = {
            "token": runner.job.token,
            "side": side.side,
            "sha": side.sha,
            "benchmark": {"name": benchmark.name, "digest": benchmark.digest},
            "cpu_ns_per_request": cpu_ns,
        }
        runner.tools.client.profile(runner.job.run, document | asdict(profile))
    show(RunProgress(len(pairs), len(pairs), "done"))


def profile_server(
    runner: TrialRunner, benchmark: Benchmark, side: Side, request: ProfileRequest
) -> tuple[Profile, float | None]:
    """The profile of a fresh server, and its CPU time per request in ns while it was sampled."""
    cpu_ns: list[float] = []
    with runner.fresh_server(benchmark, side.side) as server:
        filled = prefilled_benchmark(runner, benchmark, server)

        def load() -> None:
            cpu_ns.append(runner.run_load(filled, server, runner.job.seed, "profile").metrics[CPU])

        names = {one.path.name: name for name, one in runner.builds[side.side].artifacts.items()}
        process = ProfiledProcess(server.pid, names, server.output.parent)
        profile = runner.tools.profiler.profile(process, request.frequency_hz, load, runner.control)
    return profile, next(iter(cpu_ns), None)


def prefilled_benchmark(runner: TrialRunner, benchmark: Benchmark, server: ServerProcess) -> Benchmark:
    """The benchmark as it is sampled: its keys are set already, and its window is WINDOW_S long."""
    if benchmark.driver != "speedbench":
        return benchmark
    if benchmark.workload.get("prefill"):
        target = Target(runner.job.server.protocol, server.address, server.pid, server.output.parent)
        runner.tools.driver.prefill(benchmark, target, runner.job.seed, runner.control)
    workload = {key: value for key, value in benchmark.workload.items() if key != "requests"}
    return replace(benchmark, workload=workload | {"prefill": False, "warmup_s": WARMUP_S, "duration_s": WINDOW_S})
