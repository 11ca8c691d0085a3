"""The facts of this machine and of recorded ones."""

from pathlib import Path

import pytest

from runners import placement, quiet
from runners.documents import digest_of
from runners.environment import UNKNOWN, Machine, compiler
from runners.errors import Permanent

ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n"


def machine(driver: Path, **roots: Path) -> Machine:
    cpus = placement.allowed_cpus()
    return Machine(placement.plan(placement.read_cores(placement.SYSFS, cpus), True), driver, cpus, **roots)


def test_this_machine_is_named(speedbench: Path) -> None:
    environment = machine(speedbench).environment({}).document()
    series = environment["series"]
    for name in ("cpu_model", "kernel", "libc", "compiler", "clocksource", "memory_gib"):
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
        machine(speedbench).environment({"CC": "no-such-compiler"})


def test_what_cannot_be_read_is_unknown_by_name(speedbench: Path, tmp_path: Path) -> None:
    series = machine(speedbench, proc=tmp_path, sys=tmp_path).series({})
    unknown = {name for name, value in series.items() if value == UNKNOWN}
    assert unknown == {
        "cpu_model",
        "cpu_family",
        "cpu_model_number",
        "cpu_stepping",
        "microcode",
        "clocksource",
        "governor",
        "turbo",
        "smt",
        "thp",
        "aslr",
        "mitigations",
        "hypervisor",
        "memory_gib",
    }
    with pytest.raises(Permanent, match="/proc/cpuinfo names no processor"):
        machine(speedbench, proc=tmp_path, sys=tmp_path).environment({})


def test_a_recorded_arm_machine(speedbench: Path, tmp_path: Path) -> None:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    files = {
        proc / "cpuinfo": ARM,
        proc / "meminfo": "MemTotal:       32600000 kB\nMemAvailable: 100 kB\n",
        sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        sys / "devices/system/cpu/cpufreq/boost": "0\n",
        sys / "kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        sys / "class/thermal/thermal_zone0/temp": "41500\n",
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    arm = machine(speedbench, proc=proc, sys=sys)
    series = arm.series({})
    assert series["cpu_model"] == "implementer 0x41 part 0xd0c" and series["memory_gib"] == 31
    assert (series["governor"], series["turbo"], series["thp"]) == ("performance", "off", "madvise")
    assert arm.recorded()["temperature_c"] == 41.5 and arm.recorded()["free_memory_bytes"] == 102400


def stat(directory: Path, steal: int, delay_ns: dict[int, int]) -> quiet.Reading:
    directory.mkdir(exist_ok=True)
    (directory / "stat").write_text(
        f"cpu  1 2 3 4 5 6 7 {steal} 0 0\ncpu0 1 2 3 4 5 6 7 999 0 0\ncpu1 1 2 3 4 5 6 7 {steal} 0 0\nintr 5\n"
    )
    for thread, delay in delay_ns.items():
        (directory / f"42/task/{thread}").mkdir(parents=True, exist_ok=True)
        (directory / f"42/task/{thread}/schedstat").write_text(f"1000 {delay} 7\n")
    return quiet.read(42, frozenset([1]), directory)


@pytest.mark.parametrize(
    ("steal_ticks", "delay_ms", "flags"),
    [(0, 0, []), (2, 15, []), (3, 0, ["steal"]), (0, 25, ["delayed"]), (50, 500, ["steal", "delayed"])],
)
def test_a_disturbed_second_is_flagged(tmp_path: Path, steal_ticks: int, delay_ms: int, flags: list[str]) -> None:
    before = stat(tmp_path, 10, {42: 5_000_000})
    after = stat(tmp_path, 10 + steal_ticks, {42: 5_000_000, 43: delay_ms * 1_000_000})
    second = quiet.Reading(before.at_s + 1.0, after.steal_s, after.delay_s)
    assert list(quiet.disturbances(before, second)) == flags


def test_a_kernel_without_these_counters_flags_nothing(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu0 1 2 3\n")
    reading = quiet.read(42, frozenset([0]), tmp_path)
    assert quiet.disturbances(reading, quiet.Reading(reading.at_s + 1, {}, {})) == {}
