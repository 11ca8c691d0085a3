"""A profile run: the server of every side is sampled under the load of every benchmark. Nothing is measured."""

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product

from runners.documents import Benchmark, ProfileWish, Side
from runners.loads.speedbench import Target
from runners.measuring.perf import Process, Profile
from runners.measuring.trials import MEASURE, Rig
from runners.reporting.lease import Progress
from runners.servers.server import Server

WARMUP_S, WINDOW_S = 0.3, 3.0  # about 3000 samples at 997 Hz: a share of 10% is known to half a point
CPU = "server_cpu_ns_per_request"


def sample(rig: Rig, wish: ProfileWish, show: Callable[[Progress], None]) -> None:
    """Sends a profile of each benchmark and side; where perf cannot sample it says why. Raises as a trial does."""
    places = list(product(rig.job.benchmarks, rig.job.sides))
    for done, (benchmark, side) in enumerate(places):
        rig.check()
        name = f"{rig.name(benchmark, side.side)}, profile"
        show(Progress(done, len(places), name))
        profile, cpu_ns = profiled(rig, benchmark, side, wish)
        rig.log.line(MEASURE, f"{name}: {profile.unavailable or f'{profile.samples} samples of {profile.event}'}")
        document = {
            "token": rig.job.token,
            "side": side.side,
            "sha": side.sha,
            "benchmark": {"name": benchmark.name, "digest": benchmark.digest},
            "cpu_ns_per_request": cpu_ns,
        }
        rig.tools.client.profile(rig.job.run, document | asdict(profile))
    show(Progress(len(places), len(places), "done"))


def profiled(rig: Rig, benchmark: Benchmark, side: Side, wish: ProfileWish) -> tuple[Profile, float | None]:
    """The profile of a fresh server, and its CPU time per request in ns while it was sampled."""
    cpu_ns: list[float] = []
    with rig.fresh_server(benchmark, side.side) as server:
        filled = prefilled(rig, benchmark, server)

        def load() -> None:
            cpu_ns.append(rig.load(filled, server, rig.job.seed, "profile").metrics[CPU])

        names = {one.path.name: name for name, one in rig.builds[side.side].artifacts.items()}
        process = Process(server.pid, names, server.output.parent)
        profile = rig.tools.profiler.profile(process, wish.frequency_hz, load, rig.control)
    return profile, next(iter(cpu_ns), None)


def prefilled(rig: Rig, benchmark: Benchmark, server: Server) -> Benchmark:
    """The benchmark as it is sampled: its keys are there already, and the window is long enough."""
    if benchmark.driver != "speedbench":
        return benchmark
    if benchmark.workload.get("prefill"):
        target = Target(rig.job.server.protocol, server.address, server.pid, server.output.parent)
        rig.tools.driver.prefill(benchmark, target, rig.job.seed, rig.control)
    kept = {key: value for key, value in benchmark.workload.items() if key != "requests"}
    return replace(benchmark, workload=kept | {"prefill": False, "warmup_s": WARMUP_S, "duration_s": WINDOW_S})
