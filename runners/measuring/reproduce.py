"""How a trial is repeated by hand: command lines with `{places}` where this machine had paths, ports and numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners.documents import Benchmark, Job
from runners.loads.external import External
from runners.loads.speedbench import Target, arguments, document
from runners.machine.topology import cpu_list
from runners.servers.server import Address, Launcher, Server, command

PORT: Any = "{port}"
PID: Any = "{pid}"

Seeded = tuple[Benchmark, int]


def recipe(job: Job, loads: Sequence[Seeded], server: Server, launcher: Launcher, external: External) -> dict[str, Any]:
    """The server's command and its loads in turn, the last of which was measured.

    Places: `{artifact:NAME}`, `{port}`, `{socket}`, `{data}`, `{pid}` of the server, `{speedbench}`, `{driver_cpus}`,
    `{room}` for what a tool writes. A load's `workload` lies in a file `workload.json`.
    """
    address = Address(server.address.transport, PORT, Path("{socket}"))
    programs = {Path(name).name: Path(f"{{artifact:{Path(name).name}}}") for name in job.build.artifacts}
    target = Target(job.server.protocol, address, PID, Path("{room}"))
    driver = external.driver
    return {
        "server": command(job.server, address, Path("{data}"), programs),
        "loads": [one for benchmark, seed in loads for one in steps(benchmark, seed, target, external)],
        "padding_bytes": server.padding_bytes,
        "server_cpus": cpu_list(launcher.cpus),
        "driver_cpus": cpu_list(driver.cpus),
        "memory_nodes": cpu_list(launcher.nodes),
    }


def steps(benchmark: Benchmark, seed: int, target: Target, external: External) -> list[dict[str, Any]]:
    """The commands of one load, each with its workload if it is the native driver's."""
    cpus = external.driver.cpus
    if benchmark.driver == "speedbench":
        return [native(benchmark, seed, target, cpus)]
    return [
        native(one, seed, target, cpus) if isinstance(one, Benchmark) else {"argv": one, "workload": None}
        for one in external.loads(benchmark, target)
    ]


def native(benchmark: Benchmark, seed: int, target: Target, cpus: frozenset[int]) -> dict[str, Any]:
    words = arguments(target, seed, cpus)
    words[words.index("--cpus") + 1] = "{driver_cpus}"
    return {"argv": ["{speedbench}", *words], "workload": document(benchmark, target, cpus)}
