"""Facts below a root directory: words and numbers with stable names; "unknown" if they cannot be read.

docs/result-format.md describes each of them.
"""

import contextlib
import ctypes
import errno
import gzip
import hashlib
import platform
import resource
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from runners.machine.kernel_files import CPUS, irqbalance, latency_us, parse_cpu_list, selected_word, text
from runners.machine.topology import GroupLimits

UNKNOWN = "unknown"
DMI = "sys/class/dmi/id"

SERIES_FILES = {
    "kernel": "proc/sys/kernel/osrelease",
    "kernel_build": "proc/sys/kernel/version",
    "clocksource": "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "smt": f"{CPUS}/smt/control",
    "cpuidle_driver": f"{CPUS}/cpuidle/current_driver",
    "cpuidle_governor": f"{CPUS}/cpuidle/current_governor",
    "thp": "sys/kernel/mm/transparent_hugepage/enabled",
    "thp_defrag": "sys/kernel/mm/transparent_hugepage/defrag",
    "hugepages": "proc/sys/vm/nr_hugepages",
    "swappiness": "proc/sys/vm/swappiness",
    "overcommit_memory": "proc/sys/vm/overcommit_memory",
    "numa_balancing": "proc/sys/kernel/numa_balancing",
    "aslr": "proc/sys/kernel/randomize_va_space",
    "nmi_watchdog": "proc/sys/kernel/nmi_watchdog",
    "sched_autogroup": "proc/sys/kernel/sched_autogroup_enabled",
    "somaxconn": "proc/sys/net/core/somaxconn",
    "tcp_max_syn_backlog": "proc/sys/net/ipv4/tcp_max_syn_backlog",
    "tcp_congestion_control": "proc/sys/net/ipv4/tcp_congestion_control",
    "local_ports": "proc/sys/net/ipv4/ip_local_port_range",
    "loopback_mtu": "sys/class/net/lo/mtu",
}
# These define no series: the kernel lowers the rate by itself, and the right to use perf changes no result.
RECORDED_FILES = {
    "perf_sample_rate": "proc/sys/kernel/perf_event_max_sample_rate",
    "perf_event_paranoid": "proc/sys/kernel/perf_event_paranoid",
}
# The options of the command line that change speed; others may name disks, networks and secrets.
KERNEL_OPTIONS = """
    isolcpus nohz_full nohz rcu_nocbs rcu_nocb_poll irqaffinity threadirqs skew_tick maxcpus nr_cpus nosmt mem
    mitigations nopti pti kpti nospectre_v1 nospectre_v2 spectre_v2 spec_store_bypass_disable l1tf mds tsx
    tsx_async_abort mmio_stale_data retbleed idle processor.max_cstate intel_idle.max_cstate cpuidle.off
    cpuidle.governor cpuidle_haltpoll.force haltpoll.guest_halt_poll_ns intel_pstate amd_pstate
    cpufreq.default_governor clocksource tsc transparent_hugepage hugepages hugepagesz default_hugepagesz numa
    numa_balancing preempt audit selinux apparmor nmi_watchdog nowatchdog nosoftlockup init_on_alloc init_on_free
    page_poison slub_debug
"""
ULIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "locked_memory": resource.RLIMIT_MEMLOCK,
    "stack": resource.RLIMIT_STACK,
}
_IO_URING_SETUP = 425  # the same on every architecture
_MEMORY_DEVICE, _CONFIGURED_SPEED = 17, 0x20  # of SMBIOS, section 7.18


def read_fact(file: Path) -> str:
    """The content without surrounding white space, or "unknown"."""
    return text(file) or UNKNOWN


def digest_text(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def from_files(root: Path, files: Mapping[str, str]) -> dict[str, Any]:
    """By fact, the content of each file on one line; of a choice, the selected word."""
    return {name: selected_word(" ".join(read_fact(root / file).split())) for name, file in files.items()}


def processor(root: Path) -> dict[str, Any]:
    """The processor and its system."""
    cpu = _cpuinfo(root)
    return {
        "architecture": platform.machine() or UNKNOWN,
        "cpu_model": _cpu_model(cpu),
        "cpu_family": cpu.get("cpu family", UNKNOWN),
        "cpu_model_number": cpu.get("model", UNKNOWN),
        "cpu_stepping": cpu.get("stepping", UNKNOWN),
        "microcode": cpu.get("microcode", UNKNOWN),
        "hypervisor": _hypervisor(root, cpu),
        "system": _known(f"{read_fact(root / DMI / 'sys_vendor')} {read_fact(root / DMI / 'product_name')}"),
    }


def _known(text: str) -> str:
    return UNKNOWN if UNKNOWN in text else text


def _cpuinfo(root: Path) -> dict[str, str]:
    first = read_fact(root / "proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}


def _cpu_model(cpu: Mapping[str, str]) -> str:
    if "model name" in cpu:
        return cpu["model name"]
    if "CPU part" in cpu and "CPU implementer" in cpu:  # ARM names its processors by numbers
        return f"implementer {cpu['CPU implementer']} part {cpu['CPU part']}"
    return UNKNOWN


def _hypervisor(root: Path, cpu: Mapping[str, str]) -> str:
    kind = read_fact(root / "sys/hypervisor/type")
    if kind != UNKNOWN:
        return kind
    if "flags" in cpu and "hypervisor" not in cpu["flags"].split():
        return "none"
    product = read_fact(root / DMI / "product_name")
    return product if product != UNKNOWN or "flags" not in cpu else "present, unnamed"


CLOCK_FILES = {
    "governor": "cpufreq/scaling_governor",
    "frequency_driver": "cpufreq/scaling_driver",
    "frequency_min_khz": "cpufreq/scaling_min_freq",
    "frequency_max_khz": "cpufreq/scaling_max_freq",
    "energy_preference": "cpufreq/energy_performance_preference",
}


def clocks(root: Path, cpus: Iterable[int]) -> dict[str, Any]:
    """The clocks and sleep states of the measured CPUs; if they differ, every value once."""
    directories = [root / CPUS / f"cpu{cpu}" for cpu in sorted(cpus)]
    latency = latency_us(root)
    return {
        **{name: _each(read_fact(directory / file) for directory in directories) for name, file in CLOCK_FILES.items()},
        "turbo": _turbo(root),
        "sleep_states": _each(_sleep_states(directory) for directory in directories),
        "sleep_limit_us": UNKNOWN if latency is None else latency,
    }


def _each(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def _turbo(root: Path) -> str:
    meanings = {"intel_pstate/no_turbo": {"0": "on", "1": "off"}, "cpufreq/boost": {"0": "off", "1": "on"}}
    states = (meaning.get(read_fact(root / CPUS / name)) for name, meaning in meanings.items())
    return next((state for state in states if state), UNKNOWN)


def _sleep_states(cpu: Path) -> str:
    """The sleep states of a CPU, such as `POLL C1 C6(off)`."""
    states = sorted(cpu.glob("cpuidle/state[0-9]*"))
    names = [read_fact(state / "name") + ("(off)" if read_fact(state / "disable") == "1" else "") for state in states]
    return " ".join(names) or UNKNOWN


def caches(root: Path, cpu: int) -> dict[str, Any]:
    """The sizes of the caches of a CPU of the server, as the kernel writes them (`1024K`)."""
    sizes = {
        (read_fact(index / "level"), read_fact(index / "type")): read_fact(index / "size")
        for index in (root / CPUS / f"cpu{cpu}").glob("cache/index*")
    }
    keys = {"l1d_cache": ("1", "Data"), "l2_cache": ("2", "Unified"), "l3_cache": ("3", "Unified")}
    return {name: sizes.get(key, UNKNOWN) for name, key in keys.items()}


def kernel(root: Path) -> dict[str, Any]:
    """The kernel's build and command line, and its mitigations, one fact for each vulnerability."""
    files = sorted((root / CPUS / "vulnerabilities").glob("*"))
    options = read_fact(root / "proc/cmdline").split()
    names = KERNEL_OPTIONS.split()
    relevant = " ".join(option for option in options if option.partition("=")[0] in names)
    return {
        **({f"mitigation_{file.name}": read_fact(file) for file in files} or {"mitigations": UNKNOWN}),
        "kernel_options": UNKNOWN if options == [UNKNOWN] else relevant or "none",
        "kernel_hz": _kernel_hz(root),
        "io_uring": _io_uring(),
        "os": _os(root),
    }


def _kernel_hz(root: Path) -> int | str:
    release = read_fact(root / "proc/sys/kernel/osrelease")
    lines: list[str] = []
    with contextlib.suppress(OSError, EOFError):
        lines = gzip.decompress((root / "proc/config.gz").read_bytes()).decode(errors="replace").splitlines()
    lines = lines or read_fact(root / f"boot/config-{release}").splitlines()
    return next((int(line[10:]) for line in lines if line.startswith("CONFIG_HZ=")), UNKNOWN)


def _io_uring() -> str:
    """Whether the kernel offers io_uring: if so, a call with wrong arguments fails with another error."""
    ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(_IO_URING_SETUP), 0, None)
    answers = {errno.ENOSYS: "not offered", errno.EPERM: "not permitted"}
    return answers.get(ctypes.get_errno(), "available")


def _os(root: Path) -> str:
    lines = read_fact(root / "etc/os-release").splitlines()
    return next((line[12:].strip('"') for line in lines if line.startswith("PRETTY_NAME=")), UNKNOWN)


def limits(groups: GroupLimits) -> dict[str, Any]:
    """The limits of the control groups and of the process."""
    soft_hard = {name: resource.getrlimit(kind) for name, kind in ULIMITS.items()}
    texts = {name: [str(value) if value >= 0 else "unlimited" for value in pair] for name, pair in soft_hard.items()}
    return {
        "cpu_quota": groups.quota_cpus or "none",
        "memory_limit_bytes": groups.memory_bytes or "none",
        **{f"ulimit_{name}": "/".join(pair) for name, pair in texts.items()},
    }


def memory_gib(root: Path) -> int | str:
    total = _memory_bytes(root, "MemTotal")
    return round(total / 2**30) if isinstance(total, int) else UNKNOWN


def _memory_bytes(root: Path, name: str) -> int | str:
    lines = read_fact(root / "proc/meminfo").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), UNKNOWN)


def moment(root: Path, measured_cpus: frozenset[int]) -> dict[str, Any]:
    """The present state of the machine: load, memory, temperature and interrupts, and its identity."""
    return {
        "machine_id_digest": _digest_of_file(root / "etc/machine-id"),
        "kernel_command_line_digest": _digest_of_file(root / "proc/cmdline"),
        "uptime_s": number(read_fact(root / "proc/uptime")),
        "load_average": number(read_fact(root / "proc/loadavg")),
        "runnable_tasks": _runnable(root),
        **{f"pressure_{kind}_avg10": _pressure(root / "proc/pressure" / kind) for kind in ("cpu", "memory", "io")},
        "free_memory_bytes": _memory_bytes(root, "MemAvailable"),
        "swap_bytes": _memory_bytes(root, "SwapTotal"),
        "free_swap_bytes": _memory_bytes(root, "SwapFree"),
        "memory_speed_mts": _memory_speed(root),
        "cpu_mhz": number(_cpuinfo(root).get("cpu MHz", UNKNOWN)),
        "temperature_c": _temperature_c(root),
        "interrupts_on_measured_cpus": _interrupts(root, measured_cpus),
        "irqbalance": irqbalance(root),
    }


def number(text: str) -> float | str:
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return UNKNOWN


def _digest_of_file(file: Path) -> str:
    content = read_fact(file)
    return content if content == UNKNOWN else digest_text(content)


def _runnable(root: Path) -> float | str:
    lines = read_fact(root / "proc/stat").splitlines()
    return next((number(line.split()[1]) for line in lines if line.startswith("procs_running ")), UNKNOWN)


def _pressure(file: Path) -> float | str:
    """The share of the last ten seconds in which some task waited, in percent."""
    return number(read_fact(file).partition("avg10=")[2])


def _temperature_c(root: Path) -> float | str:
    patterns = ("sys/class/thermal/thermal_zone*/temp", "sys/class/hwmon/hwmon*/temp*_input")
    values = (number(read_fact(file)) for pattern in patterns for file in root.glob(pattern))
    readings = [value for value in values if isinstance(value, float)]
    return max(readings) / 1000 if readings else UNKNOWN


def _interrupts(root: Path, measured_cpus: frozenset[int]) -> int | str:
    lists = [parse_cpu_list(read_fact(file)) for file in root.glob("proc/irq/[0-9]*/smp_affinity_list")]
    return sum(bool(cpus & measured_cpus) for cpus in lists) if lists else UNKNOWN


def _memory_speed(root: Path) -> int | str:
    """The configured speed of the slowest memory module, from the firmware's table, which only root may read."""
    try:
        table = (root / "sys/firmware/dmi/tables/DMI").read_bytes()
    except OSError:
        return UNKNOWN
    speeds = [speed for structure in _structures(table) if (speed := _speed(structure))]
    return min(speeds, default=UNKNOWN)


def _structures(table: bytes) -> Iterator[bytes]:
    """The formatted part of each structure; its strings, which end with two zero bytes, are skipped."""
    while len(table) >= 4 and table[1] >= 4:
        yield table[: table[1]]
        end = table.find(b"\0\0", table[1])
        table = table[end + 2 :] if end >= 0 else b""


def _speed(structure: bytes) -> int:
    """The speed of a memory module; 0 for another structure or an empty slot."""
    if structure[0] != _MEMORY_DEVICE or len(structure) < _CONFIGURED_SPEED + 2:
        return 0
    return int(struct.unpack_from("<H", structure, _CONFIGURED_SPEED)[0])
