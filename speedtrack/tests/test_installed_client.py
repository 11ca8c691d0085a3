"""The client as others have it: its wheel in an empty environment, with nothing but what it declares."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from speedtrack.processes import devstack
from speedtrack.tests.test_installed_runner import INSTALL_S, PIP, install

PACKAGE = devstack.BASE_DIR / "client"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of the environment are."""
    room = tmp_path_factory.mktemp("client")
    source = shutil.copytree(PACKAGE, room / "source", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    argv = [sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", str(room), str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=INSTALL_S)
    assert done.returncode == 0, done.stderr
    [wheel] = room.glob("*.whl")
    modules = {str(file.relative_to(PACKAGE)) for file in (PACKAGE / "speedtrack_client").rglob("*.py")}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {*modules, "speedtrack_client/py.typed"}
    return install(wheel, room).parent


def test_it_works_alone(programs: Path, tmp_path: Path) -> None:
    """It says its version and its manual, calls a server, and brought neither Django nor the server."""

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        alone = {"PATH": str(programs), "HOME": str(tmp_path)}
        return subprocess.run(words, cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=60)

    version = run("speedtrack", "--version").stdout
    assert re.fullmatch(r"speedtrack \d+\.\d+\.\d+\n", version)
    assert "compare" in run("speedtrack", "--help").stdout
    away = run("speedtrack", "whoami", "--url", "http://127.0.0.1:9")
    assert (away.returncode, "does not answer" in away.stderr) == (3, True), away.stderr
    names = {name.partition("==")[0].lower() for name in run(str(programs / "python"), "-c", LISTED).stdout.split()}
    assert {"httpx", "rich", "speedtrack-client"} <= names
    assert not names & {"django", "speedtrack", "speedtrack-runner", "numpy", "celery"} and len(names) < 20


LISTED = """
from importlib.metadata import distributions
print(*(one.metadata["Name"] for one in distributions()))
"""
