"""The part of the machine that this process may use: cores, caches, memory nodes, and the limits of its control groups.

Everything is read below a root directory, so that tests can read trees that were recorded on other machines.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runners.machine.kernel_files import CPUS, ROOT, parse_cpu_list, text


@dataclass(frozen=True)
class Core:
    """One physical core.

    Its hardware threads that this process may use, those that it may not (`foreign`), its memory node and its
    last-level cache.
    """

    cpus: tuple[int, ...]
    node: int = 0
    cache: str = "package 0"
    isolated: bool = False
    tickless: bool = False
    foreign: tuple[int, ...] = ()


@dataclass(frozen=True)
class GroupLimits:
    """The limits of this process's control groups; None: no limit. `quota_cpus`: CPU time, in CPUs."""

    cpus: frozenset[int] | None = None
    quota_cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Topology:
    """The usable part of the machine. `is_known`: sysfs shows which hardware threads share a core."""

    cores: tuple[Core, ...]
    nodes: frozenset[int]
    packages: int
    isolated: frozenset[int]
    nohz_full: frozenset[int]
    offline: frozenset[int]
    limits: GroupLimits
    is_known: bool

    @property
    def cpus(self) -> frozenset[int]:
        """The hardware threads this process may use."""
        return frozenset(cpu for core in self.cores for cpu in core.cpus)


def allowed_cpus() -> frozenset[int]:
    """The affinity mask of the calling thread."""
    return frozenset(os.sched_getaffinity(0))


def read_topology(root: Path = ROOT, affinity: frozenset[int] | None = None) -> Topology:
    """The topology below `root` for a process with this affinity mask (default: its own)."""
    limits = read_limits(root)
    lists = {name: parse_cpu_list(text(root / CPUS / name)) for name in ("online", "offline", "isolated", "nohz_full")}
    usable = _usable(lists["online"], lists["isolated"], limits.cpus, affinity or allowed_cpus())
    topologies = [root / CPUS / f"cpu{cpu}" / "topology" for cpu in usable]
    return Topology(
        cores=tuple(_cores(root, usable, lists["isolated"], lists["nohz_full"])),
        nodes=parse_cpu_list(text(root / "sys/devices/system/node/has_memory")) or frozenset([0]),
        packages=len({text(directory / "physical_package_id") for directory in topologies}),
        isolated=lists["isolated"] & usable,
        nohz_full=lists["nohz_full"] & usable,
        offline=lists["offline"],
        limits=limits,
        is_known=all((directory / "thread_siblings_list").exists() for directory in topologies),
    )


def _usable(
    online: frozenset[int], isolated: frozenset[int], group_cpus: frozenset[int] | None, affinity: frozenset[int]
) -> frozenset[int]:
    """The CPUs of the mask; also the isolated ones if it was never set, as the kernel leaves them out by default."""
    permitted = (online or affinity) if group_cpus is None else group_cpus & (online or group_cpus)
    untouched = affinity == permitted - isolated
    return permitted if untouched else (affinity & permitted or affinity)


def _cores(root: Path, usable: frozenset[int], isolated: frozenset[int], tickless: frozenset[int]) -> Iterator[Core]:
    """The physical cores that have a usable hardware thread, lowest CPU first."""
    visited: set[int] = set()
    for cpu in sorted(usable):
        if cpu in visited:
            continue
        directory = root / CPUS / f"cpu{cpu}"
        siblings = parse_cpu_list(text(directory / "topology/thread_siblings_list")) | {cpu}
        visited |= siblings
        own = siblings & usable
        yield Core(
            tuple(sorted(own)),
            _node(directory),
            _shared_cache(directory, siblings),
            own <= isolated,
            own <= tickless,
            tuple(sorted(siblings - usable)),
        )


def _node(directory: Path) -> int:
    return min((int(entry.name[4:]) for entry in directory.glob("node[0-9]*")), default=0)


def _shared_cache(directory: Path, siblings: frozenset[int]) -> str:
    """The last-level cache, named by the CPUs that share it; without one, as in some virtual machines, the package."""
    levels = {
        int(text(index / "level") or 0): text(index / "shared_cpu_list")
        for index in directory.glob("cache/index*")
        if text(index / "type") != "Instruction"
    }
    last = max(levels, default=0)
    if last >= 3 or (last and parse_cpu_list(levels[last]) - siblings):
        return f"L{last} of CPUs {levels[last]}"
    return f"package {text(directory / 'topology/physical_package_id') or '0'}"


def read_limits(root: Path) -> GroupLimits:
    """The narrowest limits of all control groups of this process, versions 1 and 2."""
    groups = list(_groups(root))
    cpus = [_cpuset(directory) for directory in groups]
    cpu_sets = [cpu_set for cpu_set in cpus if cpu_set]
    return GroupLimits(
        frozenset.intersection(*cpu_sets) if cpu_sets else None,
        min((quota for group in groups if (quota := _quota_cpus(group)) is not None), default=None),
        min((limit for group in groups if (limit := _memory_bytes(group)) is not None), default=None),
    )


def _groups(root: Path) -> Iterator[Path]:
    """The directories of this process's control groups and of their parents, as far as they are mounted."""
    paths = {
        frozenset(controllers.split(",")): path
        for _, controllers, path in (line.split(":", 2) for line in text(root / "proc/self/cgroup").splitlines())
    }
    for line in text(root / "proc/self/mountinfo").splitlines():
        fields, _, kind = line.partition(" - ")
        inner, point = fields.split()[3:5]
        file_system, options = kind.split()[0], kind.split()[-1].split(",")
        for controllers, path in paths.items():
            unified = file_system == "cgroup2" and controllers == {""}
            if unified or (file_system == "cgroup" and controllers <= set(options)):
                yield from _upwards(root / point.lstrip("/"), _inside(path, inner))


def _inside(path: str, mounted: str) -> str:
    """A group's path below the mount point; in a container the mount may begin below the root group."""
    return "/" if "/.." in path else "/" + path.removeprefix(mounted).lstrip("/")


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    directory = mount / path.strip("/")
    while directory != mount:
        yield directory
        directory = directory.parent
    yield mount


def _cpuset(group: Path) -> frozenset[int]:
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    return next((cpus for name in names if (cpus := parse_cpu_list(text(group / name)))), frozenset())


def _quota_cpus(group: Path) -> float | None:
    quota, _, period = text(group / "cpu.max").partition(" ")
    if not quota:
        quota, period = text(group / "cpu.cfs_quota_us"), text(group / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _memory_bytes(group: Path) -> int | None:
    """The memory limit of a group; None without one.

    Version 1 writes "no limit" as the largest multiple of a page.
    """
    limit = text(group / "memory.max") or text(group / "memory.limit_in_bytes")
    return int(limit) if limit.isdigit() and int(limit) < 2**62 else None
