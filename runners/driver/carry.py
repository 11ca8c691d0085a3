"""Adds the driver, and the units of systemd that start the runner, to the wheel of the runner.

Hatchling calls this when it builds ``runners/``. Without SPEEDTRACK_CARRIED_DRIVER it changes nothing: the wheel fits
any machine, and its runner looks for a driver on PATH. `make wheel` sets it to the driver that it has built.
"""

import os
import platform
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SETTING = "SPEEDTRACK_CARRIED_DRIVER"
PLACE = "bin/speedbench"  # in the package: runners/work/settings.py looks there
UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
OF_RUNNER = ("speedtrack-runner.service", "speedtrack-tune.service", "speedtrack-runner.sysusers")
OLDEST = (2, 17)  # the oldest C library that Rust's own library supports


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
    """The platform tag of a program, from the newest symbols of the C library that it needs (PEP 600)."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", driver.read_bytes())
    newest = max([OLDEST, *((int(major), int(minor)) for major, minor in versions)])
    return f"manylinux_{newest[0]}_{newest[1]}_{platform.machine()}"
