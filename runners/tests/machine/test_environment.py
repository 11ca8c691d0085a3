"""The facts of this machine and of recorded ones."""

from pathlib import Path

import pytest

from runners.documents import digest_of
from runners.errors import Permanent
from runners.machine import facts, topology
from runners.machine.environment import MachineFacts, compiler
from runners.machine.facts import UNKNOWN
from runners.machine.kernel_files import ROOT
from runners.machine.placement import Planner
from runners.tests import trees
from runners.tests.trees import write

GOVERNORS = {1: "performance", 2: "powersave", 3: "powersave"}
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n"


def machine(driver: Path, root: Path = ROOT) -> MachineFacts:
    planner = Planner(topology.read_topology(), allow_shared=True)
    return MachineFacts(planner, planner.plan(), driver, root)


def recorded(driver: Path, root: Path, name: str, files: dict[str, str]) -> MachineFacts:
    """A machine of the table, with more of its files."""
    planner = Planner(trees.topology_of(root, name, **files), allow_shared=True)
    return MachineFacts(planner, planner.plan(), driver, root)


def test_all_facts_of_this_machine_are_known(speedbench: Path) -> None:
    environment = machine(speedbench).environment({}).document()
    series = environment["series"]
    for name in ("cpu_model", "kernel", "libc", "clocksource", "memory_gib"):
        assert series[name] != UNKNOWN, name
    assert series["driver_digest"].startswith("sha256:") and series["driver_version"].startswith("speedbench ")
    assert environment["digest"] == digest_of(series)
    assert machine(speedbench).environment({}).document()["digest"] == environment["digest"]


def test_a_missing_driver_means_no_sample(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="nothing is measured: the driver cannot be read: build it with"):
        machine(tmp_path / "speedbench").environment({})


def test_a_driver_that_does_not_run_means_no_sample(tmp_path: Path) -> None:
    (tmp_path / "speedbench").write_text("of another processor")
    with pytest.raises(Permanent, match="the driver does not run"):
        machine(tmp_path / "speedbench").environment({})


def test_a_missing_compiler_means_no_sample(speedbench: Path) -> None:
    assert compiler({"CC": "no-such-compiler"}) == UNKNOWN
    with pytest.raises(Permanent, match="install a C compiler"):
        machine(speedbench).environment({"compiler": compiler({"CC": "no-such-compiler"})})


def test_a_fact_that_cannot_be_read_is_unknown(speedbench: Path, tmp_path: Path) -> None:
    """Of an empty tree only what the plan, the driver's program and this process tell is known."""
    bare = machine(speedbench, root=tmp_path)
    known = {name for name, value in bare.series().items() if value != UNKNOWN}
    assert known == {
        "architecture",
        "io_uring",
        "cpu_quota",
        "memory_limit_bytes",
        "hardware_counters",
        "ulimit_open_files",
        "ulimit_locked_memory",
        "ulimit_stack",
        "sockets",
        "cores",
        "threads",
        "memory_nodes",
        "isolated_cpus",
        "nohz_full_cpus",
        "libc",
        "driver_digest",
        "driver_version",
        "server_cpus",
        "driver_cpus",
        "placement_override",
        "memory_policy",
    }
    assert {name for name, value in bare.recorded().items() if value != UNKNOWN} == {
        "hostname_digest",
        "housekeeping_cpus",
        "layout_linkers",
        "offline_cpus",
        "runner_version",
    }
    with pytest.raises(Permanent, match="/proc/cpuinfo names no processor"):
        bare.environment({})


def test_a_recorded_arm_machine(speedbench: Path, tmp_path: Path) -> None:
    cpu = "sys/devices/system/cpu"
    files = {
        "proc/cpuinfo": ARM,
        "proc/meminfo": "MemTotal:       32600000 kB\nMemAvailable: 100 kB\n",
        f"{cpu}/cpu1/cpufreq/scaling_governor": "performance",
        f"{cpu}/cpu2/cpufreq/scaling_governor": "performance",
        f"{cpu}/cpufreq/boost": "0",
        f"{cpu}/vulnerabilities/spectre_v2": "Mitigation: CSV2, BHB",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "sys/class/thermal/thermal_zone0/temp": "41500",
        "proc/cmdline": "root=/dev/mmcblk0p2 token=secret isolcpus=3 mitigations=auto",
        "proc/sys/kernel/osrelease": "6.1.21-v8+",
        "boot/config-6.1.21-v8+": "# CONFIG_HZ_100 is not set\nCONFIG_HZ=250",
        "proc/irq/24/smp_affinity_list": "0-3",
        "proc/irq/25/smp_affinity_list": "0",
    }
    arm = recorded(speedbench, tmp_path, "arm", files)
    series, moment = arm.series(), arm.recorded()
    assert series["cpu_model"] == "implementer 0x41 part 0xd0c" and series["memory_gib"] == 31
    assert (series["governor"], series["turbo"], series["thp"]) == ("performance", "off", "madvise")
    assert (series["kernel"], series["kernel_hz"]) == ("6.1.21-v8+", 250)
    assert series["kernel_options"] == "isolcpus=3 mitigations=auto" and "secret" not in str(arm.environment({}))
    assert series["mitigation_spectre_v2"] == "Mitigation: CSV2, BHB" and "mitigations" not in series
    assert (series["cores"], series["threads"], series["server_cpus"]) == (4, 4, "1")
    assert moment["temperature_c"] == 41.5 and moment["free_memory_bytes"] == 102400
    assert moment["interrupts_on_measured_cpus"] == 1


def test_different_values_of_measured_cpus_are_all_listed(speedbench: Path, tmp_path: Path) -> None:
    files = {f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": word for cpu, word in GOVERNORS.items()}
    states = {("0", "name"): "POLL", ("1", "name"): "C1", ("2", "name"): "C6", ("2", "disable"): "1"}
    for (state, name), word in states.items():
        files |= {f"sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/{name}": word for cpu in GOVERNORS}
    series = recorded(speedbench, tmp_path, "one socket", files).series()
    assert series["governor"] == "performance, powersave" and series["sleep_states"] == "POLL C1 C6(off)"


def test_limits_of_the_control_group_define_the_series(speedbench: Path, tmp_path: Path) -> None:
    files = trees.CONTAINER_V2 | {"sys/fs/cgroup/cpu.max": "150000 100000", "sys/fs/cgroup/memory.max": "4294967296"}
    series = recorded(speedbench, tmp_path, "one socket", files).series()
    assert (series["cpu_quota"], series["memory_limit_bytes"]) == (1.5, 2**32)
    assert series["placement_override"] == "a quota of 1.5 CPUs slows what is measured"


def test_the_speed_of_memory_is_that_of_the_slowest_module(tmp_path: Path) -> None:
    """A table of SMBIOS: firmware, two modules, an empty place, the end."""

    def structure(kind: int, body: bytes, strings: bytes = b"DIMM A\0\0") -> bytes:
        return bytes([kind, 4 + len(body), 0, 0]) + body + strings

    def module(speed: int) -> bytes:
        return structure(17, bytes(0x20 - 4) + speed.to_bytes(2, "little"))

    table = structure(0, bytes(8)) + module(3200) + module(2933) + module(0) + structure(127, b"", b"\0\0")
    write(tmp_path, {"sys/firmware/dmi/tables/DMI": ""})
    (tmp_path / "sys/firmware/dmi/tables/DMI").write_bytes(table)
    assert facts.moment(tmp_path, frozenset())["memory_speed_mts"] == 2933
    (tmp_path / "sys/firmware/dmi/tables/DMI").write_bytes(table[:20])
    assert facts.moment(tmp_path, frozenset())["memory_speed_mts"] == UNKNOWN


def test_every_fact_is_described(speedbench: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "result-format.md").read_text()
    this = machine(speedbench)
    names = {"mitigation_*" if name.startswith("mitigation") else name for name in this.series() | this.recorded()}
    assert {name for name in names if f"`{name}`" not in page} == set()
