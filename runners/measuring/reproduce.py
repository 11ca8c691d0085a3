"""Command lines that repeat a trial by hand, with placeholders for paths, ports and numbers of this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners.documents import Benchmark, Job
from runners.loads.external import ExternalLoads
from runners.loads.recordings import recording_options
from runners.loads.speedbench import driver_arguments, workload_document
from runners.loads.target import Target
from runners.machine.kernel_files import cpu_list
from runners.servers.address import Address
from runners.servers.capacity import recipe_for
from runners.servers.options import with_known_options
from runners.servers.server import Launcher, ServerProcess, server_argv

PORT: Any = "{port}"
PID: Any = "{pid}"

SeededBenchmark = tuple[Benchmark, int]


def recipe(
    job: Job, loads: Sequence[SeededBenchmark], server: ServerProcess, launcher: Launcher, external: ExternalLoads
) -> dict[str, Any]:
    """The server's command and its loads in order; the last load was measured.

    Placeholders: `{artifact:NAME}`, `{port}`, `{socket}`, `{data}`, `{pid}` of the server, `{speedbench}`,
    `{driver_cpus}`, `{recordings}`, `{room}` for the files of a tool. The `workload` of a load is to be in a file
    `workload.json`.
    """
    address = Address(server.address.transport, PORT, Path("{socket}"))
    programs = {Path(name).name: Path(f"{{artifact:{Path(name).name}}}") for name in job.build.artifacts}
    target = Target(job.server.protocol, address, PID, Path("{room}"))
    driver = external.driver
    server_recipe = with_known_options(recipe_for(job.server, loads[-1][0]), server.artifacts)
    return {
        "server": server_argv(server_recipe, address, Path("{data}"), programs),
        "loads": [step for benchmark, seed in loads for step in steps(benchmark, seed, target, external)],
        "padding_bytes": server.padding_bytes,
        "server_cpus": cpu_list(launcher.cpus),
        "driver_cpus": cpu_list(driver.cpus),
        "memory_nodes": cpu_list(launcher.nodes),
    }


def steps(benchmark: Benchmark, seed: int, target: Target, external: ExternalLoads) -> list[dict[str, Any]]:
    """The commands of one load; those of the native driver with their workload."""
    cpus = external.driver.cpus
    if benchmark.driver == "speedbench":
        return [native(benchmark, seed, target, cpus)]
    return [
        native(step, seed, target, cpus) if isinstance(step, Benchmark) else {"argv": step, "workload": None}
        for step in external.steps(benchmark, target)
    ]


def native(benchmark: Benchmark, seed: int, target: Target, cpus: frozenset[int]) -> dict[str, Any]:
    arguments = driver_arguments(benchmark, target, seed, cpus)
    arguments[arguments.index("--cpus") + 1] = "{driver_cpus}"
    arguments += recording_options(benchmark.workload, "{recordings}")
    return {"argv": ["{speedbench}", *arguments], "workload": workload_document(benchmark, target, cpus)}
