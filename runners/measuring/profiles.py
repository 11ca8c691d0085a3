"""A profile run: the server of every side is sampled under the load of every benchmark, and nothing is measured.

If perf has no hardware counters, the instructions of counted benchmarks are profiled as well.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product

from runners.documents import Benchmark, ProfileRequest, Side
from runners.loads.target import Target
from runners.measuring.counted_stacks import FOLDED_REQUESTS, INSTRUCTIONS, count_stacks
from runners.measuring.perf import Profile, ProfiledProcess
from runners.measuring.trials import MEASURE, TrialRunner
from runners.reporting.lease import END_S, RunProgress
from runners.servers.server import ServerProcess

WARMUP_S, WINDOW_S = 0.3, 3.0  # about 3000 samples at 997 Hz: the standard error of a share of 10% is half a point
CPU = "server_cpu_ns_per_request"


def run_profiles(runner: TrialRunner, request: ProfileRequest, show: Callable[[RunProgress], None]) -> None:
    """Sends the profiles of each benchmark and side, or the reason why there is none. Raises as a trial does."""
    pairs = list(product(runner.job.benchmarks, runner.job.sides))
    for count, (benchmark, side) in enumerate(pairs):
        runner.check()
        phase = f"{benchmark.name}, profile"
        limit_s = benchmark.timeout_s + runner.job.server.ready_timeout_s
        show(RunProgress(count, len(pairs), f"{runner.name(benchmark, side.side)}, profile", phase, limit_s))
        profile, cpu_ns = profile_server(runner, benchmark, side, request)
        send_profile(runner, benchmark, side, profile, cpu_ns)
        if benchmark.inside and not profile.hardware:
            send_profile(runner, benchmark, side, count_stacks(runner, benchmark, side.side))
    show(RunProgress(len(pairs), len(pairs), "done", "done", END_S))


def send_profile(
    runner: TrialRunner, benchmark: Benchmark, side: Side, profile: Profile, cpu_ns: float | None = None
) -> None:
    """Stores a profile, sends it and names it in the log. Raises as a trial does."""
    description = profile.unavailable or f"{profile.samples} samples of {profile.event}"
    if profile.kind == INSTRUCTIONS and profile.folded:
        description = f"{profile.samples / FOLDED_REQUESTS:.2f} instructions per request by stack"
    runner.log.line(MEASURE, f"{runner.name(benchmark, side.side)}, profile: {description}")
    document = {
        "token": runner.job.token,
        "side": side.side,
        "sha": side.sha,
        "benchmark": {"name": benchmark.name, "digest": benchmark.digest},
        "cpu_ns_per_request": cpu_ns,
    }
    runner.tools.client.profile(runner.job.run, document | asdict(profile))


def profile_server(
    runner: TrialRunner, benchmark: Benchmark, side: Side, request: ProfileRequest
) -> tuple[Profile, float | None]:
    """The profile of a fresh server, and its CPU time per request in ns while it was sampled."""
    cpu_ns: list[float] = []
    with runner.fresh_server(benchmark, side.side) as server:
        filled = prefilled_benchmark(runner, benchmark, server)

        def load() -> None:
            cpu_ns.append(runner.run_load(filled, server, runner.job.seed, "profile").metrics[CPU])

        names = {artifact.path.name: name for name, artifact in runner.builds[side.side].artifacts.items()}
        programs = tuple(artifact.path for artifact in runner.builds[side.side].artifacts.values())
        process = ProfiledProcess(server.pid, names, server.output.parent, programs)
        profile = runner.tools.profiler.profile(process, request.frequency_hz, load, runner.control)
    return profile, next(iter(cpu_ns), None)


def prefilled_benchmark(runner: TrialRunner, benchmark: Benchmark, server: ServerProcess) -> Benchmark:
    """The benchmark for sampling: its keys are set already, and its window is WINDOW_S long."""
    if benchmark.driver != "speedbench":
        return benchmark
    if benchmark.workload.get("prefill"):
        target = Target(runner.job.server.protocol, server.address, server.pid, server.output.parent)
        runner.tools.driver.prefill(benchmark, target, runner.job.seed, runner.control)
    workload = {key: value for key, value in benchmark.workload.items() if key not in ("requests", "prefill_request")}
    warmup_s = 0.0 if "replay" in workload else WARMUP_S
    return replace(benchmark, workload=workload | {"prefill": False, "warmup_s": warmup_s, "duration_s": WINDOW_S})
