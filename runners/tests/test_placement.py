"""Placement on trees as sysfs shows them."""

from pathlib import Path

import pytest

from runners.errors import Permanent
from runners.placement import Core, Placement, parse_cpu_list, plan, read_cores


def tree(root: Path, siblings: list[str], caches: list[str], nodes: list[int] | None = None) -> Path:
    """A sysfs of len(siblings) CPUs: thread siblings and the CPUs sharing the L3 (empty: none), by CPU."""
    for cpu, (threads, cache) in enumerate(zip(siblings, caches, strict=True)):
        directory = root / "devices/system/cpu" / f"cpu{cpu}"
        (directory / "topology").mkdir(parents=True)
        (directory / "topology/thread_siblings_list").write_text(f"{threads}\n")
        (directory / "topology/physical_package_id").write_text("0\n")
        (directory / f"node{nodes[cpu] if nodes else 0}").mkdir()
        for index, (level, kind, shared) in enumerate(
            [(1, "Data", threads), (1, "Instruction", threads), (2, "Unified", threads), (3, "Unified", cache)]
        ):
            if shared:
                (directory / f"cache/index{index}").mkdir(parents=True)
                (directory / f"cache/index{index}/level").write_text(f"{level}\n")
                (directory / f"cache/index{index}/type").write_text(f"{kind}\n")
                (directory / f"cache/index{index}/shared_cpu_list").write_text(f"{shared}\n")
    return root


def placed(sysfs: Path, cpus: int | frozenset[int], allow_shared: bool = False) -> Placement:
    allowed = frozenset(range(cpus)) if isinstance(cpus, int) else cpus
    return plan(read_cores(sysfs, allowed), allow_shared)


def test_four_cores_with_hyperthreads_get_a_core_each_and_idle_siblings(tmp_path: Path) -> None:
    plan = placed(tree(tmp_path, ["0,4", "1,5", "2,6", "3,7"] * 2, ["0-7"] * 8), 8)
    assert (plan.server, plan.driver, plan.housekeeping) == ({1}, {2}, {0, 3, 4, 7})
    assert plan.override is None and "its siblings [5] left idle" in plan.reasons[0]


def test_server_and_driver_share_a_last_level_cache_away_from_cpu_0(tmp_path: Path) -> None:
    plan = placed(tree(tmp_path, [str(cpu) for cpu in range(8)], ["0-3"] * 4 + ["4-7"] * 4), 8)
    assert (plan.server, plan.driver) == ({4}, {5}) and plan.override is None


def test_a_large_node_gives_the_driver_two_cores(tmp_path: Path) -> None:
    plan = placed(tree(tmp_path, [str(cpu) for cpu in range(8)], ["0-7"] * 8), 8)
    assert (plan.server, plan.driver, plan.housekeeping) == ({1}, {2, 3}, {0, 4, 5, 6, 7})


def test_nodes_are_not_crossed(tmp_path: Path) -> None:
    plan = placed(tree(tmp_path, [str(cpu) for cpu in range(6)], ["0-1", "0-1"] + ["2-5"] * 4, [0, 0, 1, 1, 1, 1]), 6)
    assert plan.server | plan.driver <= {2, 3, 4, 5}


def test_cores_without_a_common_cache_are_recorded(tmp_path: Path) -> None:
    plan = placed(tree(tmp_path, ["0", "1", "2"], ["0", "1", "2"]), 3)
    assert plan.override == "server and driver have no cache in common"
    assert not plan.server & plan.driver and not plan.housekeeping & (plan.server | plan.driver)


def test_two_cores_share_housekeeping_with_the_driver(tmp_path: Path) -> None:
    plan = placed(tree(tmp_path, ["0", "1"], ["", ""]), 2)
    assert (plan.server, plan.driver, plan.housekeeping) == ({1}, {0}, {0})
    assert plan.override == "housekeeping shares the driver's core"


def test_two_threads_of_one_core_are_one_core(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, ["0-1", "0-1"], ["0-1", "0-1"])
    with pytest.raises(Permanent, match="SPEEDTRACK_ALLOW_SHARED_CORES=1"):
        placed(sysfs, 2)
    assert placed(sysfs, 2, allow_shared=True).override == "server, driver and housekeeping share one core"


def test_the_affinity_mask_is_obeyed(tmp_path: Path) -> None:
    sysfs = tree(tmp_path, ["0,4", "1,5", "2,6", "3,7"] * 2, ["0-7"] * 8)
    plan = placed(sysfs, frozenset([5, 6, 3]))
    assert plan.server | plan.driver | plan.housekeeping == {3, 5, 6}
    assert not plan.server & plan.driver and not plan.housekeeping & (plan.server | plan.driver)


def test_a_machine_without_sysfs_has_cores_of_one_thread(tmp_path: Path) -> None:
    assert read_cores(tmp_path, frozenset([0, 1])) == [
        Core((0,), "node0", "of package 0"),
        Core((1,), "node0", "of package 0"),
    ]


def test_cpu_lists() -> None:
    assert parse_cpu_list("0-2,5,8-9\n") == {0, 1, 2, 5, 8, 9}
    assert parse_cpu_list("") == frozenset()
