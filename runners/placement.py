"""Which cores the server, the driver and everything else get: disjoint physical cores of one cache where possible."""

import os
from dataclasses import dataclass
from pathlib import Path

from runners.errors import Permanent

SYSFS = Path("/sys")
ALLOW_SHARED = "SPEEDTRACK_ALLOW_SHARED_CORES"
TWO_DRIVER_CORES_FROM = 6  # a driver with two cores is client-bound later; smaller nodes keep cores for housekeeping


@dataclass(frozen=True)
class Core:
    """One physical core: its usable hardware threads, its NUMA node and last-level cache."""

    cpus: tuple[int, ...]
    node: str
    cache: str


@dataclass(frozen=True)
class Placement:
    """The plan, with the reasons for people and the override (None: the plan is whole) for the record."""

    server: frozenset[int]
    driver: frozenset[int]
    housekeeping: frozenset[int]
    override: str | None
    reasons: tuple[str, ...]


def cpu_list(cpus: frozenset[int]) -> str:
    """`0,2,3`: the notation of taskset and of the driver's --cpus."""
    return ",".join(str(cpu) for cpu in sorted(cpus))


def parse_cpu_list(text: str) -> frozenset[int]:
    """The CPUs of the kernel's list notation, `0-3,8`."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def allowed_cpus() -> frozenset[int]:
    """The CPUs this process may use: affinity mask and cpuset together."""
    return frozenset(os.sched_getaffinity(0))


def read_cores(sysfs: Path, allowed: frozenset[int]) -> list[Core]:
    """The physical cores that have an allowed hardware thread, lowest CPU first."""
    cores: dict[frozenset[int], Core] = {}
    for cpu in sorted(allowed):
        directory = sysfs / "devices/system/cpu" / f"cpu{cpu}"
        siblings = _siblings(directory, cpu)
        if siblings not in cores:
            cores[siblings] = Core(tuple(sorted(siblings & allowed)), _node(directory), _last_cache(directory))
    return list(cores.values())


def plan(cores: list[Core], allow_shared: bool) -> Placement:
    """Chooses the cores. Raises Permanent when there is one core and sharing it was not allowed."""
    if len(cores) >= 3:
        return _whole(cores)
    if len(cores) == 2:
        return _two(cores)
    return _one(cores, allow_shared)


def place(sysfs: Path = SYSFS, allowed: frozenset[int] | None = None) -> Placement:
    """The placement of this machine."""
    return plan(read_cores(sysfs, allowed or allowed_cpus()), os.environ.get(ALLOW_SHARED) == "1")


def _whole(cores: list[Core]) -> Placement:
    near = _largest_group(cores)
    # The lowest core takes the kernel's own work and most interrupts: the last one to measure on.
    choice = sorted(near, key=lambda core: (core == cores[0], core.cpus))
    if len(choice) < 2:
        choice += [core for core in cores[::-1] if core not in choice]
    count = 2 if len(near) >= TWO_DRIVER_CORES_FROM else 1
    server, drivers = choice[0], choice[1 : 1 + count]
    rest = [core for core in cores if core is not server and core not in drivers]
    shared = server.cache == drivers[0].cache
    return Placement(
        server=frozenset(server.cpus[:1]),
        driver=frozenset(core.cpus[0] for core in drivers),
        housekeeping=frozenset(cpu for core in rest for cpu in core.cpus),
        override=None if shared else "server and driver have no cache in common",
        reasons=(
            f"server on CPU {server.cpus[0]}: a physical core of its own" + _idle_siblings(server),
            f"driver on {len(drivers)} core(s) that share "
            + (f"last-level cache {server.cache} with the server" if shared else "no cache with the server"),
            f"housekeeping (runner, kernel work) on the other {len(rest)} core(s)",
        ),
    )


def _two(cores: list[Core]) -> Placement:
    low, high = cores
    override = "housekeeping shares the driver's core"
    return Placement(
        server=frozenset(high.cpus[:1]),
        driver=frozenset(low.cpus[:1]),
        housekeeping=frozenset(low.cpus[:1]),
        override=override,
        reasons=(
            f"server on CPU {high.cpus[0]}: a physical core of its own" + _idle_siblings(high),
            f"driver on CPU {low.cpus[0]}",
            f"only two physical cores: {override} (recorded with every result)",
        ),
    )


def _one(cores: list[Core], allow_shared: bool) -> Placement:
    if not allow_shared:
        raise Permanent(
            "server and driver need a physical core each and this process may use only one: give it a "
            f"second core (cpuset, taskset, docker --cpuset-cpus), or set {ALLOW_SHARED}=1 to measure "
            "anyway with that recorded"
        )
    cpus = frozenset(cores[0].cpus)
    override = "server, driver and housekeeping share one core"
    return Placement(cpus, cpus, cpus, override, (f"only one physical core: {override} ({ALLOW_SHARED}=1)",))


def _largest_group(cores: list[Core]) -> list[Core]:
    groups: dict[tuple[str, str], list[Core]] = {}
    for core in cores:
        groups.setdefault((core.node, core.cache), []).append(core)
    # Of equal groups the one without the lowest core: its cache sees less of the kernel's own work.
    return max(groups.values(), key=lambda group: (len(group), cores[0] not in group))


def _idle_siblings(core: Core) -> str:
    return f", its siblings {list(core.cpus[1:])} left idle" if core.cpus[1:] else ""


def _siblings(directory: Path, cpu: int) -> frozenset[int]:
    text = _read(directory / "topology/thread_siblings_list")
    return parse_cpu_list(text) | {cpu}


def _node(directory: Path) -> str:
    return min((entry.name for entry in directory.glob("node[0-9]*")), default="node0")


def _last_cache(directory: Path) -> str:
    """Names the last-level cache by the CPUs that share it; without one (some virtual machines) by the package."""
    levels = {
        int(_read(index / "level") or 0): _read(index / "shared_cpu_list")
        for index in directory.glob("cache/index*")
        if _read(index / "type") != "Instruction"
    }
    if levels and max(levels) >= 3:
        return f"L{max(levels)} of CPUs {levels[max(levels)]}"
    return f"of package {_read(directory / 'topology/physical_package_id') or '0'}"


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
