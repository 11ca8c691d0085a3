"""The cores of the server, the driver and everything else: disjoint physical cores that share a cache if possible."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from runners.errors import Permanent
from runners.machine import memory, topology
from runners.machine.kernel_files import cpu_list
from runners.machine.topology import Core, Topology

ALLOW_SHARED = "SPEEDTRACK_ALLOW_SHARED_CORES"
# What neighbouring cores share, nearest first: a cache, a memory node, the machine.
NEARNESS: tuple[Callable[[Core], object], ...] = (
    lambda core: (core.node, core.cache),
    lambda core: core.node,
    lambda _: None,
)


@dataclass(frozen=True)
class Placement:
    """The CPUs of each role, with reasons for people.

    `override`: the rules that are broken; None if none is. `nodes`: the memory nodes that server and driver are bound
    to; empty if not bound. `memory` is the same in words.
    """

    server: frozenset[int]
    driver: frozenset[int]
    housekeeping: frozenset[int]
    override: str | None
    reasons: tuple[tuple[str, str], ...]
    nodes: frozenset[int] = frozenset()
    memory: str = memory.ONE_NODE

    def document(self) -> dict[str, Any]:
        """The CPU sets in the kernel's list notation, for programs."""
        return {
            name: cpu_list(value) if isinstance(value, frozenset) else value for name, value in asdict(self).items()
        }


@dataclass(frozen=True)
class Planner:
    """Makes the placements of one machine.

    `bind` tries to bind memory to nodes; it returns why that fails, or None.
    """

    machine: Topology
    allow_shared: bool
    bind: Callable[[frozenset[int]], str | None] = memory.bind_refusal

    def plan(self, servers: int = 1) -> Placement:
        """The placement for a server of so many cores. Raises Permanent if there are too few to share."""
        cores = self.machine.cores
        if len(cores) <= servers:
            self._refuse_unless_allowed(servers)
            return self._placement(_Choice(cores, cores, cores))
        home = min(cores, key=lambda core: (core.isolated, core.tickless, core.cpus))
        return self._placement(_choose(cores, home, servers))

    def _refuse_unless_allowed(self, servers: int) -> None:
        if self.allow_shared:
            return
        have = self.machine.cores
        cpus = f"{len(have)} (CPUs {cpu_list(self.machine.cpus)})"
        fewer = ", ask for fewer ([server] cores in the suite)" if servers > 1 else ""
        raise Permanent(
            f"a server of {_count(servers, 'core')} and the driver need {servers + 1} physical cores, and this process "
            f"may use {cpus}: give it more (cpuset, taskset, docker --cpuset-cpus){fewer}, or set {ALLOW_SHARED}=1 to "
            "measure anyway with that recorded"
        )

    def _placement(self, choice: "_Choice") -> Placement:
        nodes = frozenset(core.node for core in choice.server)
        bound, description = self._memory(nodes)
        overrides = tuple(_overrides(choice, self.machine))
        return Placement(
            server=choice.server_cpus,
            driver=choice.driver_cpus,
            housekeeping=frozenset(cpu for core in choice.housekeeping for cpu in core.cpus),
            override="; ".join(overrides) or None,
            reasons=(
                *_reasons(choice, self.machine),
                ("memory", description),
                *(("override", f"{override} (recorded with every result)") for override in overrides),
            ),
            nodes=bound,
            memory=description,
        )

    def _memory(self, nodes: frozenset[int]) -> tuple[frozenset[int], str]:
        if len(self.machine.nodes) < 2:
            return frozenset(), memory.ONE_NODE
        name = f"memory node {cpu_list(nodes)}"
        refusal = self.bind(nodes)
        if refusal:
            return frozenset(), f"memory is not bound to {name}: {refusal}"
        return nodes, f"memory of server and driver bound to {name}"


@dataclass(frozen=True)
class _Choice:
    server: Sequence[Core]
    driver: Sequence[Core]
    housekeeping: Sequence[Core]

    @property
    def shared(self) -> bool:
        """Returns whether server and driver share cores, because there are too few."""
        return self.server == self.driver

    @property
    def server_cpus(self) -> frozenset[int]:
        return self._cpus(self.server)

    @property
    def driver_cpus(self) -> frozenset[int]:
        return self._cpus(self.driver)

    def _cpus(self, cores: Sequence[Core]) -> frozenset[int]:
        """One hardware thread of each core, its siblings stay idle; all threads if server and driver share cores."""
        return frozenset(cpu for core in cores for cpu in (core.cpus if self.shared else core.cpus[:1]))


def place(servers: int = 1) -> Placement:
    """The placement on this machine for a server of so many cores."""
    return planner().plan(servers)


def planner() -> Planner:
    """The planner of this machine, with the settings of the environment variables."""
    return Planner(topology.read_topology(), os.environ.get(ALLOW_SHARED) == "1")


def _choose(cores: Sequence[Core], home: Core, servers: int) -> _Choice:
    """The best group of cores for server and driver: with one cache, else on one node, else on the machine.

    `home` does the kernel's own work and gets most interrupts: groups without it are tried first.
    """
    away = [core for core in cores if core is not home]
    groups = (_best_group(pool, kind, home, servers) for kind in NEARNESS for pool in (away, cores))
    server, driver = _seats(next(group for group in groups if group), home, servers)
    remaining = [core for core in cores if core not in server and core not in driver]
    return _Choice(server, driver, [core for core in remaining if not core.isolated] or remaining or driver)


def _best_group(pool: Sequence[Core], kind: Callable[[Core], object], home: Core, servers: int) -> list[Core]:
    """The group with the most calm cores, then the largest, among those with more cores than the server needs.

    Empty if there is no such group.
    """
    groups: dict[object, list[Core]] = {}
    for core in pool:
        groups.setdefault(kind(core), []).append(core)
    fitting = [group for group in groups.values() if len(group) > servers]
    # Of equal groups the one without the home core: the kernel's own work uses less of its cache.
    return max(
        fitting, key=lambda group: (sum(map(_calm, group)), len(group), kind(group[0]) != kind(home)), default=[]
    )


def _calm(core: Core) -> int:
    """A sort key: how much of the kernel's own work, such as other tasks and the timer tick, avoids a core."""
    return core.isolated + core.tickless


def _seats(group: list[Core], home: Core, servers: int) -> tuple[list[Core], list[Core]]:
    """The cores of server and driver, isolated ones first; for a server of several cores, last.

    The kernel does not spread threads over isolated cores.
    """
    members = {cache: [core for core in group if core.cache == cache] for cache in (core.cache for core in group)}

    def for_server(core: Core) -> tuple[bool, int, int, tuple[int, ...], tuple[int, ...]]:
        mates = members[core.cache]
        preference = -_calm(core) if servers == 1 else int(core.isolated)
        return core is home, preference, -len(mates), mates[0].cpus, core.cpus  # cores of one cache stay together

    order = sorted(group, key=for_server)
    server = order[:servers]
    near = {core.cache for core in server}
    remaining = sorted(
        order[servers:], key=lambda core: (core is home, -_calm(core), core.cache not in near, core.cpus)
    )
    # With more cores the driver is less often client-bound, but the rest of the machine needs some as well.
    return server, remaining[: max(1, min(servers + 1, len(remaining) // 2))]


def _overrides(choice: _Choice, machine: Topology) -> Iterator[str]:
    """The rules that this machine breaks."""
    cores = [*choice.server, *choice.driver]
    caches = {core.cache for core in choice.server}
    several = len(choice.server) > 1 and not choice.shared
    quota = machine.limits.quota_cpus or math.inf
    facts = {
        f"server, driver and housekeeping share {_count(len(choice.server), 'core')}": choice.shared,
        "housekeeping shares the driver's core": not choice.shared and choice.housekeeping == choice.driver,
        "the server's cores have no cache in common": several and len(caches) > 1,
        "server and driver have no cache in common": not any(core.cache in caches for core in choice.driver),
        "server and driver are on different memory nodes": len({core.node for core in cores}) > 1,
        "the kernel spreads no threads over isolated cores": several and any(core.isolated for core in choice.server),
        f"a quota of {quota:g} CPUs slows what is measured": quota < len(choice.server_cpus | choice.driver_cpus),
        "hardware threads of the measured cores belong to others": any(core.foreign for core in cores),
        "which CPUs share a core cannot be read: each is taken for one": not machine.is_known,
    }
    return (sentence for sentence, is_true in facts.items() if is_true)


def _reasons(choice: _Choice, machine: Topology) -> Iterator[tuple[str, str]]:
    if choice.shared:
        yield "server", f"fewer physical cores than needed ({ALLOW_SHARED}=1)"
    else:
        yield "server", _seat(choice.server)
        yield "driver", _seat(choice.driver)
        yield "housekeeping", "the runner, the kernel's own work, interrupts"
    if machine.limits.quota_cpus:
        yield "quota", f"the control group may use {machine.limits.quota_cpus:g} CPUs of time"
    if machine.offline:
        yield "offline", f"CPU {cpu_list(machine.offline)}"


def _seat(cores: Sequence[Core]) -> str:
    """Some cores in words, such as `a physical core of its own, isolated, L3 of CPUs 0-7, memory node 0`."""
    idle = cpu_list(cpu for core in cores for cpu in core.cpus[1:])
    phrases = [
        "a physical core of its own" if len(cores) == 1 else f"{len(cores)} physical cores of its own",
        "isolated" if all(core.isolated for core in cores) else "",
        f"sibling CPU {idle} left idle" if idle else "",
        " and ".join(sorted({f"cache {core.cache}" for core in cores})),
        "memory node " + cpu_list({core.node for core in cores}),
    ]
    return ", ".join(phrase for phrase in phrases if phrase)


def _count(number: int, noun: str) -> str:
    return f"one {noun}" if number == 1 else f"{number} {noun}s"
