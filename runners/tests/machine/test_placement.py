"""Placement on trees as sysfs shows them on real machines, and on this one."""

from pathlib import Path

import pytest

from runners.errors import Permanent
from runners.machine.kernel_files import parse_cpu_list
from runners.machine.placement import Placement, Planner
from runners.machine.topology import Topology, read_topology
from runners.tests import trees


def plan(machine: Topology, servers: int = 1, allow_shared: bool = False, refusal: str | None = None) -> Placement:
    return Planner(machine, allow_shared, lambda nodes: refusal).plan(servers)


def cpus(text: str) -> frozenset[int]:
    return parse_cpu_list(text)


@pytest.mark.parametrize(
    ("machine", "servers", "server", "driver", "housekeeping"),
    [
        ("one socket", 1, "1", "2-3", "0,4-5"),
        ("one socket", 4, "1-4", "5", "0"),
        ("desktop", 1, "1", "2-3", "0,4-6,10-11"),
        ("desktop", 3, "1-3", "4", "0,5-6,11"),
        ("complexes", 1, "3", "4", "0-2,5-14,17-23"),  # away from the complex of CPU 0
        ("complexes", 2, "3-4", "5", "0-2,6-14,18-23"),  # a complex has just enough
        ("two sockets", 1, "16", "17-18", "0-15,19-47,51-63"),
        ("two sockets", 8, "16-23", "24-27", "0-15,28-47,60-63"),
        ("guest of two cores", 1, "1", "0", "0"),
        ("arm", 1, "1", "2", "0,3"),
        ("isolated", 1, "2", "3-4", "0-1,6-7"),
        ("offline", 1, "1", "2-3", "0,4-5"),
    ],
)
def test_machines(tmp_path: Path, machine: str, servers: int, server: str, driver: str, housekeeping: str) -> None:
    found = plan(trees.topology_of(tmp_path, machine), servers)
    assert (found.server, found.driver, found.housekeeping) == (cpus(server), cpus(driver), cpus(housekeeping))
    shared = "housekeeping shares the driver's core" if machine == "guest of two cores" else None
    assert found.override == shared


def test_siblings_of_measured_cores_are_left_idle(tmp_path: Path) -> None:
    found = plan(trees.topology_of(tmp_path, "desktop"))
    assert not (found.server | found.driver | found.housekeeping) & cpus("7-9")
    assert "sibling CPU 7 left idle" in dict(found.reasons)["server"]


def test_a_complex_too_small_for_the_server_is_left_for_the_node(tmp_path: Path) -> None:
    found = plan(trees.topology_of(tmp_path, "complexes"), 3)
    assert found.server == cpus("3-5") and found.override == "server and driver have no cache in common"
    wide = plan(trees.topology_of(tmp_path / "again", "complexes"), 5)
    assert wide.override is not None and "the server's cores have no cache in common" in wide.override


def test_a_server_of_more_cores_than_a_socket_is_spread_and_that_is_recorded(tmp_path: Path) -> None:
    found = plan(trees.topology_of(tmp_path, "two sockets"), 20)
    assert len(found.server) == 20 and 0 not in found.server | found.driver
    assert found.override is not None and "different memory nodes" in found.override


def test_threads_of_a_server_are_not_put_on_isolated_cores(tmp_path: Path) -> None:
    """The load balancer leaves isolated cores alone: all threads would stay on the first of them."""
    machine = trees.topology_of(tmp_path, "isolated")
    found = plan(machine, 2)
    assert found.server & cpus("1") and found.driver <= cpus("2-5")
    assert found.override is not None and "spreads no threads over isolated cores" in found.override
    assert plan(machine, 1).override is None


def test_an_affinity_set_by_hand_is_kept_even_with_isolated_cores(tmp_path: Path) -> None:
    machine = trees.topology_of(tmp_path, "isolated", affinity="0,1,2,3")
    assert machine.cpus == cpus("0-3")
    found = plan(machine)
    assert (found.server, found.driver) == ({2}, {3})
    assert found.override == "hardware threads of the measured cores belong to others"


def test_two_threads_of_one_core_are_one_core(tmp_path: Path) -> None:
    machine = trees.topology_of(tmp_path, "guest of one core")
    with pytest.raises(Permanent, match=r"need 2 physical cores, .* may use 1 .* or set SPEEDTRACK_ALLOW"):
        plan(machine)
    found = plan(machine, allow_shared=True)
    assert found.server == found.driver == found.housekeeping == {0, 1}
    assert found.override == "server, driver and housekeeping share one core"


def test_a_server_with_more_cores_than_the_machine_is_refused(tmp_path: Path) -> None:
    machine = trees.topology_of(tmp_path, "one socket")
    with pytest.raises(Permanent, match=r"of 6 cores and the driver need 7 physical cores.*may use 6.*ask for fewer"):
        plan(machine, 6)
    assert plan(machine, 6, allow_shared=True).override == "server, driver and housekeeping share 6 cores"
    last = plan(machine, 5)
    assert (last.server, last.driver, last.housekeeping) == (cpus("1-5"), {0}, {0})


@pytest.mark.parametrize(("refusal", "nodes"), [(None, {1}), ("Operation not permitted", set())])
def test_memory_is_bound_to_the_node_of_the_server(tmp_path: Path, refusal: str | None, nodes: set[int]) -> None:
    found = plan(trees.topology_of(tmp_path, "two sockets"), refusal=refusal)
    assert found.nodes == nodes and dict(found.reasons)["memory"] == found.memory
    assert found.memory == (
        f"memory is not bound to memory node 1: {refusal}"
        if refusal
        else "memory of server and driver bound to memory node 1"
    )


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        (trees.CONTAINER_V1, {"sys/fs/cgroup/cpuset/cpuset.cpus": "4-7"}),
        (
            trees.CONTAINER_V1,
            {"sys/fs/cgroup/cpuset/cpuset.effective_cpus": "4-7", "sys/fs/cgroup/cpuset/cpuset.cpus": ""},
        ),
        (trees.CONTAINER_V2, {"sys/fs/cgroup/cpuset.cpus.effective": "4-7"}),
        (trees.SERVICE_V2, {"sys/fs/cgroup/system.slice/cpuset.cpus.effective": "4-7"}),
    ],
    ids=["version 1", "version 1 effective", "version 2", "a group around it"],
)
def test_the_cpuset_of_a_container_is_kept(tmp_path: Path, groups: dict[str, str], limits: dict[str, str]) -> None:
    machine = trees.topology_of(tmp_path, "two sockets", **groups, **limits)
    assert machine.cpus == cpus("4-7")
    found = plan(machine)
    assert (found.server, found.driver, found.housekeeping) == ({5}, {6}, {4, 7})
    assert found.override == "hardware threads of the measured cores belong to others"


@pytest.mark.parametrize(
    ("groups", "quota"),
    [
        (trees.CONTAINER_V1, {"cpu,cpuacct/cpu.cfs_quota_us": "150000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}),
        (trees.CONTAINER_V2, {"cpu.max": "150000 100000"}),
        (
            trees.SERVICE_V2,
            {"system.slice/runner.service/cpu.max": "max 100000", "system.slice/cpu.max": "150000 100000"},
        ),
    ],
    ids=["version 1", "version 2", "a group around it"],
)
def test_a_cpu_quota_is_recorded(tmp_path: Path, groups: dict[str, str], quota: dict[str, str]) -> None:
    machine = trees.topology_of(
        tmp_path, "one socket", **groups, **{f"sys/fs/cgroup/{name}": text for name, text in quota.items()}
    )
    assert machine.limits.quota_cpus == 1.5
    assert plan(machine).override == "a quota of 1.5 CPUs slows what is measured"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        (trees.CONTAINER_V1 | {"sys/fs/cgroup/memory/memory.limit_in_bytes": "4294967296"}, 2**32),
        (trees.CONTAINER_V1 | {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        (trees.CONTAINER_V2 | {"sys/fs/cgroup/memory.max": "4294967296"}, 2**32),
        (trees.CONTAINER_V2 | {"sys/fs/cgroup/memory.max": "max"}, None),
    ],
)
def test_the_limit_of_memory(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    assert trees.topology_of(tmp_path, "one socket", **files).limits.memory_bytes == limit


def test_a_machine_without_sysfs_is_measured_with_that_recorded(tmp_path: Path) -> None:
    machine = read_topology(tmp_path, frozenset([0, 1, 2]))
    found = plan(machine)
    assert (found.server, found.driver, found.housekeeping) == ({1}, {2}, {0})
    assert found.override == "which CPUs share a core cannot be read: each is taken for one"


def test_no_two_roles_share_a_core_on_any_machine_of_any_size(tmp_path: Path) -> None:
    for number, (name, shape) in enumerate(trees.MACHINES.items()):
        machine = trees.topology_of(tmp_path / str(number), name)
        core_of = {cpu: core for core in machine.cores for cpu in core.cpus}
        for servers in range(1, len(shape.cores) - 1):
            found = plan(machine, servers)
            roles = [{core_of[cpu] for cpu in role} for role in (found.server, found.driver, found.housekeeping)]
            assert sum(map(len, roles)) == len(set().union(*roles)), (name, servers)
            assert len(roles[0]) == servers and roles[1] and roles[2], (name, servers)


def test_cpu_lists() -> None:
    assert parse_cpu_list("0-2,5,8-9\n") == {0, 1, 2, 5, 8, 9}
    assert parse_cpu_list("") == parse_cpu_list("(null)") == frozenset()
