"""Adds the driver, and the units of systemd that start the runner, to the wheel of the runner.

Hatchling calls this when it builds ``runners/``. Without SPEEDTRACK_CARRIED_DRIVER it changes nothing: the wheel fits
any machine, and its runner looks for a driver on PATH. `make wheel` sets it to the driver that it has built.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SETTING = "SPEEDTRACK_CARRIED_DRIVER"
PLACE = "bin/speedbench"  # in the package: runners/work/settings.py looks there
UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
OF_RUNNER = ("speedtrack-runner.service", "speedtrack-tune.service", "speedtrack-runner.sysusers")
OLDEST = (2, 17)  # the oldest C library that Rust's own library supports
# By the number in the header of a program (elf.h).
MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le", 22: "s390x"}


class CarriedFiles(BuildHookInterface):  # type: ignore[misc]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not (setting := os.environ.get(SETTING)):
            return
        driver = Path(setting).resolve()
        if not driver.is_file() or not os.access(driver, os.X_OK):
            raise SystemExit(f"{SETTING} is {setting}, which is no program: build the driver, or unset it")
        build_data["force_include"][str(driver)] = PLACE
        build_data["force_include"] |= {str(UNITS / name): f"systemd/{name}" for name in OF_RUNNER}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(driver)}"


def platform_tag(driver: Path) -> str:
    """The platform tag of a program: its machine, and the newest symbols of the C library that it needs (PEP 600)."""
    program = driver.read_bytes()
    number = int.from_bytes(program[18:20], "little" if program[5:6] == b"\1" else "big")
    if not program.startswith(b"\x7fELF") or number not in MACHINES:
        raise SystemExit(f"{driver} is no program of {', '.join(MACHINES.values())}: build it with `make wheel`")
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", program)
    newest = max([OLDEST, *((int(major), int(minor)) for major, minor in versions)])
    return f"manylinux_{newest[0]}_{newest[1]}_{MACHINES[number]}"
