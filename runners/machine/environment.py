"""The environment of a measurement: facts that define a series, and facts that are recorded with it."""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import runners
from runners.documents import digest_of
from runners.errors import Permanent
from runners.machine import facts
from runners.machine.facts import UNKNOWN, digest_text
from runners.machine.kernel_files import ROOT, cpu_list
from runners.machine.placement import Placement, Planner

COMMAND_TIMEOUT_S = 10.0
VERSION_BYTES = 1 << 16
SHORT = 'ulimit -f 2048; exec "$0" "$@"'  # $0: the program; files of 1 MB: it could print without end
BUILD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of builds, unless the suite sets one
LINKERS = ("mold", "lld", "gold", "bfd")  # that can order functions by a seed; bfd is the ld of binutils
# A sample without these facts could not be compared with any other, so nothing is measured; by fact: cause and remedy.
INDISPENSABLE = {
    "cpu_model": "/proc/cpuinfo names no processor",
    "kernel": "the kernel reports no release",
    "compiler": "`cc --version` cannot be run: install a C compiler (gcc or clang)",
    "driver_digest": "the driver cannot be read: build it with `cd runners/driver && cargo build --release --locked`, "
    "or set SPEEDTRACK_DRIVER",
    "driver_version": "the driver does not run (`speedbench --version`): build it on this machine",
}


@dataclass(frozen=True)
class Environment:
    """The facts of the machine at the time of a measurement."""

    series: dict[str, Any]
    recorded: dict[str, Any]

    def document(self) -> dict[str, Any]:
        return {"digest": digest_of(self.series), "series": self.series, "recorded": self.recorded}


@dataclass(frozen=True)
class MachineFacts:
    """Reads the facts of a machine below a root directory, so that tests can read recorded machines."""

    planner: Planner
    placement: Placement
    driver: Path
    root: Path = ROOT
    sandbox: str = UNKNOWN

    def environment(self, build: Mapping[str, str]) -> Environment:
        """All facts, with those of the build. Raises Permanent with the remedy if an indispensable one is unknown."""
        series = self.series() | dict(build)
        for name, remedy in INDISPENSABLE.items():
            if series.get(name) == UNKNOWN:
                raise Permanent(f"the environment cannot be named, so nothing is measured: {remedy}")
        return Environment(series, self.recorded())

    def series(self) -> dict[str, Any]:
        """The facts that start a new series when one of them changes."""
        machine, measured_cpus = self.planner.machine, self.placement.server | self.placement.driver
        return {
            **facts.processor(self.root),
            **facts.clocks(self.root, measured_cpus),
            **facts.caches(self.root, min(self.placement.server)),
            **facts.kernel(self.root),
            **facts.limits(machine.limits),
            **facts.from_files(self.root, facts.SERIES_FILES),
            "sockets": machine.packages,
            "cores": len(machine.cores),
            "threads": len(machine.cpus),
            "memory_nodes": len(machine.nodes),
            "memory_gib": facts.memory_gib(self.root),
            "isolated_cpus": cpu_list(machine.isolated) or "none",
            "nohz_full_cpus": cpu_list(machine.nohz_full) or "none",
            "libc": libc(),
            "driver_digest": file_digest(self.driver),
            "driver_version": version_line([str(self.driver), "--version"]),
            "hardware_counters": version_line([str(self.driver), "counters"]),
            "server_cpus": cpu_list(self.placement.server),
            "driver_cpus": cpu_list(self.placement.driver),
            "placement_override": self.placement.override or "none",
            "memory_policy": self.placement.memory,
        }

    def recorded(self) -> dict[str, Any]:
        """The facts that may change without starting a new series."""
        measured_cpus = (self.placement.server | self.placement.driver) - self.placement.housekeeping
        return {
            **facts.moment(self.root, measured_cpus),
            **facts.from_files(self.root, facts.RECORDED_FILES),
            "hostname_digest": digest_text(platform.node()),
            "boot_id": self.boot_id(),
            "housekeeping_cpus": cpu_list(self.placement.housekeeping),
            "offline_cpus": cpu_list(self.planner.machine.offline) or "none",
            "runner_version": runners.__version__,
            "layout_linkers": ", ".join(layout_linkers()) or "none",
            "sandbox": self.sandbox,
        }

    def boot_id(self) -> str:
        return facts.read_fact(self.root / "proc/sys/kernel/random/boot_id")


def libc() -> str:
    """Name and version of the C library."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):
        version = None
    return version or version_line(["ldd", "--version"])


@cache
def layout_linkers() -> tuple[str, ...]:
    """The linkers of this host that can put functions in a random order, the preferred one first."""
    return tuple(line for name in LINKERS if (line := version_line([f"ld.{name}", "--version"])) != UNKNOWN)


def compiler(build_environment: Mapping[str, str]) -> str:
    """The version of the compiler that a build with this environment uses: its CC, else `cc`."""
    command = [argument for argument in build_environment.get("CC", "cc").split() if argument != "ccache"]
    return version_line([*command, "--version"], build_environment.get("PATH", BUILD_PATH))


def version_line(argv: list[str], path: str = BUILD_PATH) -> str:
    """The first line that a program on this path prints, or "unknown" if it cannot be run."""
    program = shutil.which(argv[0], path=path)
    if program is None:
        return UNKNOWN
    try:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = subprocess.run(
                ["/bin/sh", "-c", SHORT, program, *argv[1:]],
                stdout=output,
                stderr=errors,
                timeout=COMMAND_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
                env={"PATH": path, "LANG": "C.UTF-8"},
            )
            lines = first_lines(output) or first_lines(errors)
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return lines[0].strip() if process.returncode == 0 and lines else UNKNOWN


def first_lines(stream: IO[bytes]) -> list[str]:
    stream.seek(0)
    return stream.read(VERSION_BYTES).decode(errors="replace").splitlines()


def file_digest(file: Path) -> str:
    """`sha256:` and the SHA-256 of a file's content, or "unknown" if it cannot be read."""
    try:
        with file.open("rb") as stream:
            return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return UNKNOWN
