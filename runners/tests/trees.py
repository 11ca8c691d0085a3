"""Trees of /sys, /proc and /dev as real machines show them, written from a few of their lists."""

from dataclasses import dataclass, field
from pathlib import Path

from runners.machine.kernel_files import parse_cpu_list
from runners.machine.topology import Topology, read_topology


@dataclass(frozen=True)
class Shape:
    """A machine by the kernel's lists. `cores`: thread siblings; `caches`: shared_cpu_list of the last cache."""

    cores: tuple[str, ...]
    caches: tuple[str, ...]
    nodes: tuple[str, ...] = ("0-1023",)
    packages: tuple[str, ...] = ("0-1023",)
    level: int = 3
    isolated: str = ""
    nohz_full: str = "(null)"
    offline: str = ""
    files: dict[str, str] = field(default_factory=dict)


def siblings(cores: int, offset: int) -> tuple[str, ...]:
    """`0,8`, `1,9` ...: how most firmware numbers the hardware threads of each core."""
    return tuple(f"{core},{core + offset}" for core in range(cores))


def alone(cores: int) -> tuple[str, ...]:
    return tuple(str(core) for core in range(cores))


MACHINES = {
    # Intel Core i5-9600K: six cores, no SMT
    "one socket": Shape(alone(6), ("0-5",)),
    # Intel Core i7-8700K: six cores of two threads
    "desktop": Shape(siblings(6, 6), ("0-11",)),
    # AMD Ryzen 9 3900X: four core complexes of three cores of two threads
    "complexes": Shape(siblings(12, 12), ("0-2,12-14", "3-5,15-17", "6-8,18-20", "9-11,21-23")),
    # two Intel Xeon Gold 6130: 16 cores of two threads and one node each
    "two sockets": Shape(
        siblings(32, 32), ("0-15,32-47", "16-31,48-63"), ("0-15,32-47", "16-31,48-63"), ("0-15,32-47", "16-31,48-63")
    ),
    # AWS m5.large: the two hardware threads of one core
    "guest of one core": Shape(("0-1",), ("0-1",)),
    # a Firecracker guest on AMD EPYC: two cores
    "guest of two cores": Shape(alone(2), ("0-1",)),
    # Raspberry Pi 4: no third level, one second level for all
    "arm": Shape(alone(4), ("0-3",), level=2),
    # the desktop booted with isolcpus=2-5,8-11 nohz_full=2-5,8-11
    "isolated": Shape(siblings(6, 6), ("0-11",), isolated="2-5,8-11", nohz_full="2-5,8-11"),
    # the desktop with SMT switched off: the siblings are offline
    "offline": Shape(alone(6), ("0-5",), offline="6-11"),
}


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content + "\n")


def build(root: Path, shape: Shape) -> Path:
    """Writes the machine's tree below `root`."""
    online = sorted(cpu for core in shape.cores for cpu in parse_cpu_list(core))
    lists = {"online": ",".join(map(str, online)), "offline": shape.offline}
    lists |= {"isolated": shape.isolated, "nohz_full": shape.nohz_full}
    write(root, {f"sys/devices/system/cpu/{name}": content for name, content in lists.items()})
    write(root, {"sys/devices/system/node/has_memory": f"0-{len(shape.nodes) - 1}"} | shape.files)
    for cpu in online:
        directory = f"sys/devices/system/cpu/cpu{cpu}"
        (root / directory / f"node{_place(shape.nodes, cpu)}").mkdir(parents=True)
        own = shape.cores[_place(shape.cores, cpu)]
        caches = {
            1: ("Data", own),
            0: ("Instruction", own),
            shape.level: ("Unified", shape.caches[_place(shape.caches, cpu)]),
        }
        write(
            root,
            {
                f"{directory}/topology/thread_siblings_list": own,
                f"{directory}/topology/physical_package_id": str(_place(shape.packages, cpu)),
            }
            | {
                f"{directory}/cache/index{level}/{name}": content
                for level, (kind, shared) in caches.items()
                for name, content in (("level", str(max(level, 1))), ("type", kind), ("shared_cpu_list", shared))
            },
        )
    return root


def _place(lists: tuple[str, ...], cpu: int) -> int:
    return next(place for place, text in enumerate(lists) if cpu in parse_cpu_list(text))


def topology_of(root: Path, name: str, affinity: str = "", **files: str) -> Topology:
    """The topology of a machine of the table for a process with this affinity: by default the kernel's own."""
    shape = MACHINES[name]
    build(root, shape)
    write(root, files)
    online = frozenset(cpu for core in shape.cores for cpu in parse_cpu_list(core))
    return read_topology(root, parse_cpu_list(affinity) or online - parse_cpu_list(shape.isolated))


# What `cat /proc/self/cgroup` and `/proc/self/mountinfo` say in a container, per version of control groups.
CONTAINER_V1 = {
    "proc/self/cgroup": "5:cpuset:/docker/3f\n4:cpu,cpuacct:/docker/3f\n3:memory:/docker/3f\n1:name=systemd:/docker/3f",
    "proc/self/mountinfo": "\n".join(
        f"{40 + place} 39 0:{place} /docker/3f /sys/fs/cgroup/{name} ro,nosuid - cgroup cgroup rw,{name}"
        for place, name in enumerate(("cpuset", "cpu,cpuacct", "memory"))
    ),
}
CONTAINER_V2 = {
    "proc/self/cgroup": "0::/",
    "proc/self/mountinfo": "611 610 0:27 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate",
}
# A service of systemd: the groups around it carry limits, too.
SERVICE_V2 = {
    "proc/self/cgroup": "0::/system.slice/runner.service",
    "proc/self/mountinfo": "33 24 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw",
}
