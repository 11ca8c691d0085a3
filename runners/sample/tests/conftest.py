"""The sample repository, and the binaries of its commits."""

import subprocess
from pathlib import Path

import pytest

from runners.sample import write_history

TIMEOUT_SECONDS = 300


def git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS).stdout.strip()


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    destination = tmp_path_factory.mktemp("history") / "kvd"
    write_history(destination)
    return destination


def build(source: Path, sha: str) -> subprocess.CompletedProcess[str]:
    """Builds the commit from nothing, always in the same directory, with warnings as errors."""
    git(source, "checkout", "--quiet", "--force", sha)
    subprocess.run(["make", "-s", "clean"], cwd=source, check=True, timeout=TIMEOUT_SECONDS)
    command = ["make", "-j2", "CFLAGS=-O2 -Werror"]
    return subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


@pytest.fixture(scope="session")
def binaries(repository: Path) -> dict[int, bytes | None]:
    """The binary of each commit; None if it does not compile."""
    shas = git(repository, "rev-list", "--reverse", "main").split()
    built: dict[int, bytes | None] = {}
    for number, sha in enumerate(shas, start=1):
        done = build(repository, sha)
        built[number] = (repository / "kvd").read_bytes() if done.returncode == 0 else None
    return built
