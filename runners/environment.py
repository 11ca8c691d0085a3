"""The facts of the machine: `series` defines a line on a chart, `recorded` is kept beside it. Nothing is guessed."""

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import runners
from runners.documents import digest_of
from runners.errors import Permanent
from runners.placement import Placement, cpu_list, read_cores

UNKNOWN = "unknown"
COMMAND_TIMEOUT_S = 10.0
BUILD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of builds, unless the suite sets one
# Without these a sample could not be compared with any other: no sample at all.
INDISPENSABLE = {
    "cpu_model": "/proc/cpuinfo names no processor",
    "kernel": "the kernel tells no release",
    "compiler": "`cc --version` cannot be run: install a C compiler (gcc or clang)",
    "driver_digest": "the driver cannot be read: build it with `cargo build --release --manifest-path "
    "runners/driver/Cargo.toml` or set SPEEDTRACK_DRIVER",
    "driver_version": "the driver does not run (`speedbench --version`): build it on this machine",
}


@dataclass(frozen=True)
class Environment:
    """What was on the machine."""

    series: dict[str, Any]
    recorded: dict[str, Any]

    def document(self) -> dict[str, Any]:
        return {"digest": digest_of(self.series), "series": self.series, "recorded": self.recorded}


@dataclass(frozen=True)
class Machine:
    """Where to read the facts; the roots are arguments so that recorded machines can be read too."""

    placement: Placement
    driver: Path
    cpus: frozenset[int]
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")

    def environment(self, build_environment: Mapping[str, str]) -> Environment:
        """All facts. Raises Permanent, with the remedy, when an indispensable one cannot be named."""
        series = self.series(build_environment)
        for name, remedy in INDISPENSABLE.items():
            if series[name] == UNKNOWN:
                raise Permanent(f"the environment cannot be named, so nothing is measured: {remedy}")
        return Environment(series, self.recorded())

    def series(self, build_environment: Mapping[str, str]) -> dict[str, Any]:
        """The facts that start a new series when one of them changes."""
        cpu = self._cpuinfo()
        return {
            "cpu_model": _cpu_model(cpu),
            "cpu_family": cpu.get("cpu family", UNKNOWN),
            "cpu_model_number": cpu.get("model", UNKNOWN),
            "cpu_stepping": cpu.get("stepping", UNKNOWN),
            "microcode": cpu.get("microcode", UNKNOWN),
            "architecture": platform.machine() or UNKNOWN,
            "cores": len(read_cores(self.sys, self.cpus)),
            "kernel": platform.release() or UNKNOWN,
            "clocksource": _read(self.sys / "devices/system/clocksource/clocksource0/current_clocksource"),
            "governor": _read(self.sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            "turbo": self._turbo(),
            "smt": _read(self.sys / "devices/system/cpu/smt/control"),
            "thp": _chosen(_read(self.sys / "kernel/mm/transparent_hugepage/enabled")),
            "aslr": _read(self.proc / "sys/kernel/randomize_va_space"),
            "mitigations": self._mitigations(),
            "hypervisor": self._hypervisor(cpu),
            "memory_gib": self._memory_gib(),
            "libc": libc(),
            "compiler": compiler(build_environment),
            "driver_digest": file_digest(self.driver),
            "driver_version": first_line([str(self.driver), "--version"]),
            "server_cpus": cpu_list(self.placement.server),
            "driver_cpus": cpu_list(self.placement.driver),
            "placement_override": self.placement.override or "none",
        }

    def recorded(self) -> dict[str, Any]:
        """The facts of the moment."""
        return {
            "hostname_digest": "sha256:" + hashlib.sha256(platform.node().encode()).hexdigest(),
            "boot_id": self.boot_id(),
            "load_average": _number(_read(self.proc / "loadavg")),
            "free_memory_bytes": self._memory_bytes("MemAvailable"),
            "uptime_s": _number(_read(self.proc / "uptime")),
            "temperature_c": self._temperature_c(),
            "cpu_quota": _read(self.sys / "fs/cgroup/cpu.max"),
            "housekeeping_cpus": cpu_list(self.placement.housekeeping),
            "runner_version": runners.__version__,
        }

    def boot_id(self) -> str:
        return _read(self.proc / "sys/kernel/random/boot_id")

    def _cpuinfo(self) -> dict[str, str]:
        first = _read(self.proc / "cpuinfo").split("\n\n")[0]
        pairs = (line.partition(":") for line in first.splitlines())
        return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}

    def _turbo(self) -> str:
        words = {"intel_pstate/no_turbo": {"0": "on", "1": "off"}, "cpufreq/boost": {"0": "off", "1": "on"}}
        for name, meaning in words.items():
            value = meaning.get(_read(self.sys / "devices/system/cpu" / name))
            if value:
                return value
        return UNKNOWN

    def _mitigations(self) -> str:
        files = sorted((self.sys / "devices/system/cpu/vulnerabilities").glob("*"))
        return digest_of({file.name: _read(file) for file in files}) if files else UNKNOWN

    def _hypervisor(self, cpu: dict[str, str]) -> str:
        kind = _read(self.sys / "hypervisor/type")
        if kind != UNKNOWN:
            return kind
        if "flags" in cpu and "hypervisor" not in cpu["flags"].split():
            return "none"
        product = _read(self.sys / "class/dmi/id/product_name")
        return product if product != UNKNOWN or "flags" not in cpu else "present, unnamed"

    def _memory_bytes(self, name: str) -> int | str:
        for line in _read(self.proc / "meminfo").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        return UNKNOWN

    def _memory_gib(self) -> int | str:
        total = self._memory_bytes("MemTotal")
        return round(total / 2**30) if isinstance(total, int) else UNKNOWN

    def _temperature_c(self) -> float | str:
        values = (_number(_read(file)) for file in self.sys.glob("class/thermal/thermal_zone*/temp"))
        known = [value for value in values if isinstance(value, float)]
        return max(known) / 1000 if known else UNKNOWN


def libc() -> str:
    """Name and version of the C library."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):
        version = None
    return version or first_line(["ldd", "--version"])


def compiler(build_environment: Mapping[str, str]) -> str:
    """First line of the version of the compiler a build with this environment uses: its CC, else `cc`."""
    words = [word for word in build_environment.get("CC", "cc").split() if word != "ccache"]
    return first_line([*words, "--version"], build_environment.get("PATH", BUILD_PATH))


def first_line(argv: list[str], path: str = BUILD_PATH) -> str:
    """The first line a program found on this path prints, or "unknown" if it cannot be run."""
    program = shutil.which(argv[0], path=path)
    if program is None:
        return UNKNOWN
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env={"PATH": path, "LANG": "C.UTF-8"},
        )
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else UNKNOWN


def file_digest(file: Path) -> str:
    """`sha256:` and the SHA-256 of a file's content, or "unknown" if it cannot be read."""
    try:
        with file.open("rb") as stream:
            return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return UNKNOWN


def _cpu_model(cpu: Mapping[str, str]) -> str:
    if "model name" in cpu:
        return cpu["model name"]
    if "CPU part" in cpu and "CPU implementer" in cpu:  # ARM names its processors by numbers
        return f"implementer {cpu['CPU implementer']} part {cpu['CPU part']}"
    return UNKNOWN


def _chosen(text: str) -> str:
    """The word in brackets of `always [madvise] never`."""
    return text.split("[")[1].split("]")[0] if "[" in text else text


def _number(text: str) -> float | str:
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return UNKNOWN


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip() or UNKNOWN
    except OSError:
        return UNKNOWN
