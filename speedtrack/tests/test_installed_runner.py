"""The runner as a machine of its own has it: the wheel alone in an empty environment, without checkout and cargo."""

import json
import os
import platform
import re
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from speedtrack.processes import devstack
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Measurement, Run
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.tests import builders

PACKAGE = devstack.BASE_DIR / "runners"
DRIVER = PACKAGE / "driver" / "target" / "release" / "speedbench"
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
INSTALL_S, WORK_S = 600, 300
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of a machine without cargo
NOT_INSTALLED = {"sample", "tests"}  # packages that only a checkout needs
UNITS = ["speedtrack-runner.service", "speedtrack-runner.sysusers", "speedtrack-tune.service"]
SCRIPTS = ["keep.sh", "link.sh", "wrapper.sh"]
CARRIED = [
    "runners/bin/speedbench",
    *(f"runners/systemd/{name}" for name in UNITS),
    *(f"runners/build/scripts/{name}" for name in SCRIPTS),
]
SUITE = """
name = "tiny"
trials = 5
most_trials = 5
[build]
command = "make -j{cores}"
artifacts = ["kvd"]
[server]
command = "{artifact:kvd} --bind 127.0.0.1 --port {port} --unixsocket {socket}"
protocol = "resp"
[[benchmark]]
name = "get-p16"
why = "short"
workload = { test = "get", clients = 5, pipeline = 16, keys = { count = 1000 }, values = { bytes = 16 }, \
prefill = true, warmup_s = 0.05, duration_s = 0.2 }
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = make_wheel(DRIVER, room := tmp_path_factory.mktemp("wheel"))
    assert done.returncode == 0, done.stderr
    [found] = room.glob("*.whl")
    return found


def make_wheel(driver: Path, room: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["make", "wheel", f"CARRIED={driver}", f"DIST={room}", f"PYTHON={sys.executable}"],
        cwd=devstack.BASE_DIR,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
    )


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("installed"))


def install(wheel: Path, room: Path) -> Path:
    """The interpreter of an environment with the wheel and what it declares, in the locked versions."""
    lock = (devstack.BASE_DIR / "requirements.txt").read_text()
    (room / "locked.txt").write_text("\n".join(re.findall(r"^[a-z].*(?= \\$)", lock, re.MULTILINE)))  # no hashes
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(room / "venv")], check=True, timeout=INSTALL_S)
    python = room / "venv" / "bin" / "python"
    words = ["--python", str(python), "install", "--no-compile", "--constraint", str(room / "locked.txt"), str(wheel)]
    done = subprocess.run(
        [sys.executable, *PIP, *words],
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
    )
    assert done.returncode == 0, done.stderr
    return python


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of this process, so that no setting leads back to the checkout."""
    own = {"PATH": SYSTEM_PATH, "HOME": str(home), "SPEEDTRACK_LOCK_DIR": str(home)}
    return {**own, "SPEEDTRACK_ALLOW_SHARED_CORES": "1", **more}


def what_the_unit_starts(python: Path) -> list[str]:
    """The command of the unit in the wheel, which stands where docs/installing.md puts the environment."""
    [unit] = python.parents[1].glob("lib/python*/site-packages/runners/systemd/speedtrack-runner.service")
    [command] = re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
    return str(command).replace("/opt/speedtrack-runner/", f"{python.parents[1]}/").split()


def test_the_wheel_holds_every_module_of_the_runner_once_and_nothing_else(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    rooms = [PACKAGE, *(file.parent for file in PACKAGE.glob("*/__init__.py") if file.parent.name not in NOT_INSTALLED)]
    modules = [file for room in rooms for file in room.glob("*.py")]
    assert sorted(names) == sorted([*(f"runners/{file.relative_to(PACKAGE)}" for file in modules), *CARRIED])


def test_the_wheel_says_which_machines_its_driver_runs_on(wheel: Path) -> None:
    """By the linker's own list of what it asks of the C library."""
    listed = subprocess.run(["objdump", "-T", str(DRIVER)], capture_output=True, text=True, check=True).stdout
    newest = max((int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", listed))
    assert wheel.name.endswith(f"-py3-none-manylinux_{newest[0]}_{newest[1]}_{platform.machine()}.whl")


def test_a_wheel_is_for_the_machine_of_its_driver(tmp_path: Path) -> None:
    """Even if another machine makes the wheel: a driver for ARM may be compiled on x86_64."""
    program = bytearray(DRIVER.read_bytes())
    program[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64 of elf.h
    (driver := tmp_path / "speedbench").write_bytes(program)
    driver.chmod(0o755)
    assert make_wheel(driver, tmp_path).returncode == 0
    assert [file.name.endswith("_aarch64.whl") for file in tmp_path.glob("*.whl")] == [True]

    driver.write_text("#!/bin/sh\n")
    done = make_wheel(driver, tmp_path / "none")
    assert done.returncode != 0 and "is no program of x86_64, aarch64" in done.stderr


def test_the_installed_driver_is_the_one_that_was_built(python: Path) -> None:
    """Byte for byte: its digest is part of the environment of a series."""
    [installed] = python.parents[1].glob("lib/python*/site-packages/runners/bin/speedbench")
    assert installed.read_bytes() == DRIVER.read_bytes() and os.access(installed, os.X_OK)


def test_a_driver_that_cannot_be_carried_ends_the_build(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(PACKAGE)],
        env={**os.environ, "SPEEDTRACK_CARRIED_DRIVER": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
    )
    assert done.returncode != 0 and "SPEEDTRACK_CARRIED_DRIVER is /nowhere, which is no program" in done.stderr
    assert not list(tmp_path.glob("*.whl"))


def test_the_doctor_of_the_installed_runner_finds_its_driver(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(python.parent / "speedtrack-runner"), "doctor", "--json", "--only", "driver", "compiler", "placement"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=WORK_S,
    )
    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert found["driver"]["state"] == "good" and "site-packages/runners/bin/speedbench" in found["driver"]["words"]
    assert found["compiler"]["state"] == "good"


def test_every_module_can_be_imported_and_comes_from_the_installation(python: Path, tmp_path: Path) -> None:
    look = (
        "import importlib, pkgutil, runners\n"
        "for one in pkgutil.walk_packages(runners.__path__, 'runners.'):\n"
        "    one.name.endswith('__main__') or importlib.import_module(one.name)\n"
        "print(runners.__file__)"
    )
    done = subprocess.run(
        [str(python), "-c", look],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=WORK_S,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(python.parents[1])


@pytest.mark.parametrize("words", [["python", "-m", "runners"], ["speedtrack-runner"]], ids=["module", "script"])
def test_the_installed_runner_shows_its_plan(python: Path, tmp_path: Path, words: list[str]) -> None:
    program = str(python.parent / words[0])
    done = subprocess.run(
        [program, *words[1:], "plan", "--json"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=WORK_S,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["server"]


@pytest.mark.django_db(transaction=True)
def test_the_installed_runner_measures_a_queued_run(
    python: Path, live_server: Any, tmp_path: Path, settings: Any
) -> None:
    builders.use_suite(settings, tmp_path / "suites", SUITE)
    subprocess.run(
        [sys.executable, "-m", "runners.sample", str(tmp_path / "kvd"), "--upto", "1"],
        cwd=devstack.BASE_DIR,
        check=True,
        capture_output=True,
    )
    token = registering.add_machine("m1")
    tracking.track(TrackingRequest(str(tmp_path / "kvd"), "tiny", last=1))
    (tmp_path / "elsewhere").mkdir()
    settings_of_runner = environment(
        tmp_path,
        SPEEDTRACK_URL=live_server.url,
        SPEEDTRACK_TOKEN=token,
        SPEEDTRACK_PATIENCE_S="1",
    )
    runner = subprocess.Popen(
        what_the_unit_starts(python),
        cwd=tmp_path / "elsewhere",
        env=settings_of_runner,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert runner.stdout is not None
    output: list[str] = []
    limit = threading.Timer(WORK_S, runner.kill)
    limit.start()
    try:
        for line in runner.stdout:
            output.append(line)
            if ": complete" in line or ": failed (permanent)" in line:
                break  # on a busy machine an attempt may fail for now, and the run is queued again
        runner.terminate()
        assert runner.wait() == 0, "".join(output)
    finally:
        limit.cancel()
        runner.kill()
        runner.wait()
    assert Run.objects.get().status == "succeeded", "".join(output)
    assert Measurement.objects.filter(accepted=True, series__metric="server_cpu_ns_per_request").count() == 1
