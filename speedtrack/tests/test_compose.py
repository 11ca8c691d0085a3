"""The whole system of docker-compose.yml on a real daemon: it measures, and loses nothing when killed or stopped.

Nothing in it sees more than it needs: networks, secrets, and the proxy that faces the world.
"""

import csv
import io
import json
import os
import re
import shutil
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

from runners.tests.ports import free_port
from speedtrack.processes.devstack import BASE_DIR

# What this machine needs and others do not: builds on the host's network, and no long wait for a quiet machine.
OVERRIDE = """
services:
  migrate: {build: {network: host}}
  runner: {build: {network: host}, environment: {SPEEDTRACK_PATIENCE_S: "1"}}
"""
# Of deploy/secrets; what `deploy/setup` finds there stays.
SECRETS = {
    "database-password": "p@ss/w:rd#1",
    "secret-key": "of-this-test-secret-key",
    "encryption-keys": "of-this-test-encryption-key-0123456789",
    "metrics-token": "of-this-test-metrics-token-0123456789",
    "email-password": "of-this-test-email-password",
    "github-client-secret": "",
    "oidc-client-secret": "",
}
ALWAYS = {"database-password", "secret-key"}
SEALED = ALWAYS | {"encryption-keys"}
# Which of them each container has.
NEEDED: dict[str, set[str]] = {
    "proxy": set(),
    "runner-api": set(),
    "runner": set(),
    "broker": set(),
    "database": {"database-password"},
    "live": ALWAYS,
    "dispatcher": ALWAYS,
    "worker": ALWAYS,
    "git": SEALED,
    "notify": SEALED | {"email-password"},
    "web": set(SECRETS),
}
# Tries to connect to each argument HOST:PORT, and prints those that accept.
REACHES = """
import socket, sys
for name in sys.argv[1:]:
    host, _, port = name.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
        print(name)
    except OSError:
        pass
"""
# The status of each argument, as the runner sees it.
STATUSES = """
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=30).status)
    except urllib.error.HTTPError as e:
        print(e.code)
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

    def setting(self, line: str, name: str = ".env") -> None:
        with (self.directory / name).open("a") as file:
            file.write(f"{line}\n")

    def networks(self, service: str) -> dict[str, bool]:
        """Those of a container, and whether each leads nowhere else."""
        names = self.containers()[service].attrs["NetworkSettings"]["Networks"]
        networks = {name: docker.from_env().networks.get(name).attrs["Internal"] for name in names}
        return {name.removeprefix(f"{self.project}_"): internal for name, internal in networks.items()}

    def from_runner(self, program: str, *words: str) -> list[str]:
        """The lines that a Python program prints in the runner's container."""
        return self.compose("exec", "-T", "runner", "python", "-c", program, *words).split()


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


def keep_secret(directory: Path, name: str, secret: str) -> None:
    file = directory / "deploy/secrets" / name
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_text(secret)
    file.chmod(0o644)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Images built, everything but the runner up."""
    port = free_port()
    stack = Stack(checkout(tmp_path), f"speedtrack-test-{port}", port)
    (tmp_path / "docker-compose.override.yml").write_text(OVERRIDE)
    for name, secret in SECRETS.items():
        keep_secret(tmp_path, name, secret)
    subprocess.run([tmp_path / "deploy/setup"], check=True, stdout=subprocess.DEVNULL)
    cpus = sorted(os.sched_getaffinity(0))[:2]
    for line in (
        f"SPEEDTRACK_URL=http://127.0.0.1:{port}",
        f"HTTP_ADDRESS=127.0.0.1:{port}",
        f"HTTPS_ADDRESS=127.0.0.1:{free_port()}",
        "SPEEDTRACK_IMAGE=speedtrack-test:server",
        "SPEEDTRACK_RUNNER_IMAGE=speedtrack-test:runner",
        f"RUNNER_CPUS={','.join(map(str, cpus))}",
    ):
        stack.setting(line)
    stack.setting("ALLOW_LOCAL_REPOSITORIES=true", "deploy/env/git.env")
    for line in ("EMAIL_HOST=mail.invalid", "EMAIL_TLS=starttls", "EMAIL_HOST_USER=speedtrack"):
        stack.setting(line, "deploy/env/mail.env")
    images = [BASE_DIR / ".ci/images/build"]
    subprocess.run(images, env={**os.environ, "PYTHON": sys.executable}, check=True, timeout=900)
    stack.compose("build", timeout_s=1500)
    try:
        stack.compose("up", "--detach", *NEEDED.keys() - {"runner"})
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
    enroll = stack.python("manage.py", "machine", "enroll-code", "m1")
    code = re.search(r"enroll \S+ (\S+)", enroll)
    assert code is not None
    stack.compose("run", "--rm", "runner", "python", "-m", "runners", "enroll", "http://runner-api:8100", code[1])
    stack.python("manage.py", "track", PATH, "--suite", "sample", "--last", "0")
    stack.python("manage.py", "measure", "kvd", "main", "--benchmarks", "get-p1")

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

    # 5. The code that is measured runs without root and secrets, and reaches the API of runners alone.
    assert stack.compose("exec", "-T", "runner", "id", "-u") == "10001\n"
    # By name: the daemon of these tests has no firewall rules, which keep the addresses of other networks apart.
    reachable = stack.from_runner(
        REACHES,
        *(f"runner-api:{port}" for port in (80, 443, 8100, 8101)),
        *("database:5432", "broker:6379", "web:8000", "live:8001", "proxy:80", "github.com:443"),
    )
    assert reachable == ["runner-api:8100"]
    assert stack.networks("runner") == {"runner": True}
    assert stack.networks("runner-api") == {"front": True, "runner": True}
    assert stack.networks("database") == {"data": True}
    assert stack.networks("worker") == {"data": True}
    paths = ("", "login/", "metrics", "hooks/x", "api/runner/..%2f..%2flogin/", "api/runner/claim")
    statuses = stack.from_runner(STATUSES, *(f"http://runner-api:8100/{path}" for path in paths))
    assert statuses[:-1] == ["404"] * 5 and statuses[-1] in ("401", "405")

    # 6. Each container has the secrets it needs, as files; none is in its environment, and its image is read-only.
    for name, container in stack.containers().items():
        if name == "migrate":
            continue
        has = {mount["Destination"] for mount in container.attrs["Mounts"]}
        assert {each.removeprefix("/run/secrets/") for each in has if "/run/secrets" in each} == NEEDED[name], name
        seen = json.dumps(container.attrs) + stack.compose("exec", "-T", name, "cat", "/proc/1/environ")
        assert [secret for secret in SECRETS.values() if secret and secret in seen] == [], name
        host = container.attrs["HostConfig"]
        assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"], name
        assert host["SecurityOpt"] == ["no-new-privileges:true"], name

    # 7. Only the proxy is published; it says who asks, and lets slow clients go (speedtrack/tests/test_proxy.py).
    published = {name for name, each in stack.containers().items() if any(each.ports.values())}
    assert published == {"proxy"}
    until(
        lambda: stack.containers()["proxy"].attrs["State"]["Health"]["Status"] == "healthy", 120, "the proxy is healthy"
    )
    with httpx.stream("GET", f"http://127.0.0.1:{stack.port}/live/queue", timeout=60) as events:
        assert next(events.iter_lines())
    token = {"Authorization": f"Bearer {SECRETS['metrics-token']}"}
    metrics = f"http://127.0.0.1:{stack.port}/metrics"
    assert not httpx.get(metrics, timeout=60).is_success
    assert httpx.get(metrics, headers=token, timeout=60).is_success


def set_up(directory: Path, *words: str) -> str:
    """What `deploy/setup` prints in a copy of what it needs."""
    for name in ("deploy", ".env.example", "docker-compose.yml"):
        source, target = BASE_DIR / name, directory / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("secrets", "*.env")
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
    done = subprocess.run([directory / "deploy/setup", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_setup_makes_what_is_missing_and_keeps_what_is_there(tmp_path: Path) -> None:
    old = (
        "POSTGRES_PASSWORD=p@ss/w:rd#1\nSECRET_KEY=old\nGIT_HOSTS=*\nEMAIL_HOST_PASSWORD=mail\nWEB_ADDRESS=0.0.0.0:80\n"
    )
    (tmp_path / ".env").write_text(old)
    set_up(tmp_path)
    secrets = tmp_path / "deploy/secrets"
    kept = {file.name: file.read_text().strip() for file in secrets.iterdir()}
    assert (kept["database-password"], kept["secret-key"], kept["email-password"]) == ("p@ss/w:rd#1", "old", "mail")
    assert len(kept["encryption-keys"]) == 64
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert "\nGIT_HOSTS=*\n" in (tmp_path / "deploy/env/git.env").read_text()
    assert (tmp_path / ".env").read_text() == ""
    assert "https://speed.example.org" in set_up(tmp_path, "speed.example.org")
    set_up(tmp_path, "speed.example.org")
    lines = (tmp_path / ".env").read_text().split()
    assert lines == ["SPEEDTRACK_DOMAIN=speed.example.org", "HTTP_ADDRESS=80", "HTTPS_ADDRESS=443"]
    assert {file.name: file.read_text().strip() for file in secrets.iterdir()} == kept


DOCKER = """#!/bin/sh
[ "$1" = pull ] || echo "registry.example.org/it@sha256:$(printf %s "$4" "$5" | sha256sum | cut -c1-64)"
"""


def test_images_are_pinned_by_digest_and_let_go(tmp_path: Path) -> None:
    """With a stand-in for Docker, whose digest of an image is that of its name."""
    set_up(tmp_path)
    settings, program = tmp_path / ".env", tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER)
    program.chmod(0o755)

    def pin(*words: str) -> list[str]:
        environment = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
        subprocess.run([tmp_path / "deploy/pin-images", *words], env=environment, check=True, capture_output=True)
        return [line for line in settings.read_text().splitlines() if "_IMAGE=" in line and line[0] != "#"]

    settings.write_text(settings.read_text() + "VALKEY_IMAGE=mirror.example.org/valkey:9\n")
    before = settings.read_text()
    pinned = pin()
    compose = (BASE_DIR / "docker-compose.yml").read_text()
    usual = dict(re.findall(r"\$\{([A-Z]+_IMAGE):-([^}]+:[^}]+)\}", compose))
    assert len(pinned) == len(usual) > 5
    for line in pinned:
        name, _, image = line.partition("=")
        own = "mirror.example.org/valkey:9" if name == "VALKEY_IMAGE" else usual[name]
        assert re.fullmatch(rf"{re.escape(own)}@sha256:[0-9a-f]{{64}}", image)
    assert pin() == pinned
    assert pin("--undo") == ["VALKEY_IMAGE=mirror.example.org/valkey:9"]
    assert settings.read_text() == before


@pytest.mark.compose
@pytest.mark.parametrize("files", [[], ["docker-compose.yml", "deploy/managed-postgresql.yml"]])
def test_compose_accepts_the_file_without_a_word(tmp_path: Path, files: list[str]) -> None:
    set_up(tmp_path, "speed.example.org")
    options = [word for file in files for word in ("--file", file)]
    done = subprocess.run(
        ["docker-compose", *options, "--profile", "runner", "--profile", "mail", "config"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
