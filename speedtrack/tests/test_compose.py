"""The whole system of docker-compose.yml on a real daemon: it measures, and loses nothing when killed or stopped."""

import csv
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import httpx
import pytest
from docker.models.containers import Container

from speedtrack.devstack import BASE_DIR

# What this machine needs and others do not: builds on the host's network, and no long wait for a quiet machine.
OVERRIDE = """
services:
  migrate: {build: {network: host}}
  runner: {build: {network: host}, environment: {SPEEDTRACK_PATIENCE_S: "1"}}
"""
PATH = "/var/lib/speedtrack/kvd"
LINE = "/p/kvd/timeline/get-p1/server_cpu_ns_per_request"


@dataclass
class Stack:
    """A checkout in which compose is called; ``project`` names its containers, networks and volumes."""

    directory: Path
    project: str
    port: int

    def compose(self, *words: str, timeout_s: float = 300) -> str:
        # Nothing else of this process's environment: it would override .env.
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
        done = subprocess.run(
            ["docker-compose", "--project-name", self.project, "--profile", "runner", *words],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, f"compose {' '.join(words)}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def python(self, *words: str) -> str:
        return self.compose("exec", "-T", "web", "python", *words)

    def containers(self) -> dict[str, Container]:
        ours = {"label": f"com.docker.compose.project={self.project}"}
        found = docker.from_env().containers.list(all=True, filters=ours)
        return {each.labels["com.docker.compose.service"]: each for each in found}

    def health(self) -> str:
        """The state of Docker's health check of the web server."""
        return str(self.containers()["web"].attrs["State"]["Health"]["Status"])

    def page(self, path: str) -> str:
        """The text of a page; empty while the server does not answer."""
        try:
            answer = httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=10)
        except httpx.TransportError:
            return ""
        return re.sub(r"<[^>]*>", " ", answer.text) if answer.is_success else ""

    def points(self) -> list[dict[str, str]]:
        """The measured commits of the benchmark's line."""
        rows = csv.DictReader(io.StringIO(self.page(f"{LINE}.csv")))
        return [row for row in rows if row["state"] == "measured"]

    def setting(self, line: str) -> None:
        with (self.directory / ".env").open("a") as file:
            file.write(f"{line}\n")


def until(true: Callable[[], bool], timeout_s: float, what: str) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.5)


def checkout(directory: Path) -> Path:
    """A copy of the files that git tracks or would add."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=BASE_DIR, check=True, capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (BASE_DIR / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(BASE_DIR / name, directory / name)
    return directory


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Images built, everything but the runner up."""
    port = free_port()
    stack = Stack(checkout(tmp_path), f"speedtrack-test-{port}", port)
    (tmp_path / "docker-compose.override.yml").write_text(OVERRIDE)
    cpus = sorted(os.sched_getaffinity(0))[:2]
    for line in (
        "POSTGRES_PASSWORD=p@ss/w:rd#1",
        "SECRET_KEY=of-this-test",
        f"WEB_ADDRESS=127.0.0.1:{port}",
        "SPEEDTRACK_IMAGE=speedtrack-test:server",
        "SPEEDTRACK_RUNNER_IMAGE=speedtrack-test:runner",
        "ALLOW_LOCAL_REPOSITORIES=true",
        f"RUNNER_CPUS={','.join(map(str, cpus))}",
    ):
        stack.setting(line)
    images = [BASE_DIR / ".ci/images/build"]
    subprocess.run(images, env={**os.environ, "PYTHON": sys.executable}, check=True, timeout=900)
    stack.compose("build", timeout_s=1500)
    try:
        stack.compose("up", "--detach", "web", "dispatcher", "worker", "notify", "git")
        yield stack
    except BaseException:
        print(stack.compose("logs", "--tail", "40"))
        raise
    finally:
        stack.compose("down", "--volumes", "--timeout", "5")


@pytest.mark.docker
@pytest.mark.compose
@pytest.mark.timeout(2400)  # builds the images
def test_the_stack_measures_and_loses_nothing(stack: Stack) -> None:
    # 1. A history in the volume of the server, one commit to be measured.
    stack.python("-m", "runners.sample", PATH)
    token = stack.python("manage.py", "machine", "add", "m1").split()[-1]
    stack.python("manage.py", "track", PATH, "--suite", "sample", "--last", "0")
    stack.python("manage.py", "measure", "kvd", "main", "--benchmarks", "get-p1")
    stack.setting(f"RUNNER_TOKEN={token}")

    # 2. The runner takes it; the database is killed while it measures.
    stack.compose("up", "--detach")
    until(lambda: "running" in stack.page("/runs/1/"), 300, "run 1 is running")
    stack.compose("kill", "-s", "KILL", "database")
    stack.compose("start", "database")
    until(lambda: "succeeded" in stack.page("/runs/1/"), 600, "run 1 has succeeded")
    before = stack.points()
    assert [float(point["value"]) > 0 for point in before] == [True]
    shown = re.search(r"Server CPU per request\s+([\d.]+ [µn]s)", stack.page("/runs/1/"))
    assert shown is not None
    for service in ("dispatcher", "worker", "notify", "git"):
        stack.compose("exec", "-T", service, "python", "manage.py", "doctor", "--only", "database", "broker")
    until(lambda: stack.health() == "healthy", 300, "the web server is healthy")

    # 3. Down and up again.
    stack.compose("down")
    assert stack.containers() == {}
    stack.compose("up", "--detach")
    until(lambda: stack.page("/healthz") == "ok\n", 300, "the web server answers")
    assert stack.points() == before
    assert shown[0] in stack.page("/runs/1/")

    # 4. All of it still works.
    stack.python("manage.py", "measure", "kvd", before[0]["sha"] + "~1", "--benchmarks", "get-p1")
    until(lambda: len(stack.points()) == 2, 600, "a second commit is measured")
    assert before[0] in stack.points()

    # 5. The code that is measured runs without root and secrets, on no network with the database.
    inside = stack.compose("exec", "-T", "runner", "sh", "-c", "id -u; env")
    assert inside.startswith("10001\n")
    assert "of-this-test" not in inside and "p@ss" not in inside
    networks = {name: set(each.attrs["NetworkSettings"]["Networks"]) for name, each in stack.containers().items()}
    assert networks["runner"].isdisjoint(networks["database"] | networks["broker"])


@pytest.mark.compose
@pytest.mark.parametrize("name", ["POSTGRES_PASSWORD", "SECRET_KEY"])
def test_a_missing_secret_is_named(tmp_path: Path, name: str) -> None:
    shutil.copy(BASE_DIR / "docker-compose.yml", tmp_path)
    example = (BASE_DIR / ".env.example").read_text()
    (tmp_path / ".env").write_text(
        re.sub(r"^(POSTGRES_PASSWORD|SECRET_KEY)=$", r"\1=x", example, flags=re.M).replace(f"{name}=x", f"{name}=")
    )
    done = subprocess.run(
        ["docker-compose", "config"], cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert f"set {name} in .env" in done.stderr
