"""A real server program, the real driver, a real HTTP server, a runner home of its own for each test."""

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runners.build.builders import CachedBuilder
from runners.build.docker import DockerBuilder
from runners.build.host import HostBuilder
from runners.build.store import ArtifactStore
from runners.loads.external import ExternalLoads
from runners.loads.speedbench import Driver
from runners.machine import topology
from runners.machine.environment import MachineFacts
from runners.machine.placement import Planner
from runners.measuring.perf import Profiler
from runners.measuring.quiet import QuietGate
from runners.measuring.tools import Tools
from runners.processes.children import Processes
from runners.reporting.client import Client
from runners.reporting.heartbeat import HeartbeatProcess
from runners.reporting.spool import Spool
from runners.sandbox.policy import sandbox_of_machine
from runners.servers.server import Launcher
from runners.tests.api import TOKEN, Api, serve
from runners.work.agent import Agent

HERE = Path(__file__).parent
DRIVER = HERE.parent / "driver"
TINY = (HERE / "programs" / "tiny.c").read_text()
SHA, BASE_SHA = "a" * 40, "b" * 40
TREE = {"tiny.c": TINY, "Makefile": "tiny: tiny.c\n\t$(CC) -O2 -o $@ $<\n"}
COMMAND = "{artifact:tiny} --port {port} --unixsocket {socket} --dir {data}"


@pytest.fixture(scope="session")
def speedbench() -> Path:
    """The real driver, built if it is not."""
    # In its folder, as .cargo/config.toml there sets the CPU baseline: from elsewhere all of it is compiled anew.
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=DRIVER, check=True, timeout=900)
    return DRIVER / "target" / "release" / "speedbench"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test server, built once."""
    room = tmp_path_factory.mktemp("tiny")
    subprocess.run(["cc", "-O2", "-o", str(room / "tiny"), str(HERE / "programs" / "tiny.c")], check=True, timeout=300)
    return room / "tiny"


@pytest.fixture
def api() -> Iterator[Api]:
    state = Api(sources={SHA: TREE, BASE_SHA: TREE})
    server = serve(state)
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def processes(home: Path) -> Iterator[Processes]:
    started = Processes(home, sandbox_of_machine(os.environ, home))
    yield started
    started.end_strays()


@pytest.fixture
def client(api: Api, home: Path, stopping: threading.Event) -> Iterator[Client]:
    made = Client(api.url, TOKEN, Spool(home / "spool"), stopping, pauses_s=(0.01, 0.02))
    yield made
    made.close()


@pytest.fixture
def tools(client: Client, home: Path, processes: Processes, speedbench: Path) -> Iterator[Tools]:
    made = assemble(client, home, processes, speedbench)
    yield made
    made.heartbeat.close()


@pytest.fixture
def agent(tools: Tools, stopping: threading.Event) -> Agent:
    return Agent(tools, stopping)


def assemble(client: Client, home: Path, processes: Processes, driver: Path) -> Tools:
    """The tools of this machine, on the cores it has."""
    planner = Planner(topology.read_topology(), allow_shared=True)
    plan = planner.plan()
    native = Driver(driver, processes, plan.driver)
    return Tools(
        client,
        HeartbeatProcess(client, plan.housekeeping),
        MachineFacts(planner, plan, driver),
        make_builder(home, processes),
        Launcher(processes, home, plan.server),
        native,
        ExternalLoads(native, {}),
        QuietGate(plan, patience_s=0.0),  # a machine that runs tests is never quiet
        Profiler(processes, plan.housekeeping),
    )


def make_builder(home: Path, processes: Processes) -> CachedBuilder:
    cpus = topology.allowed_cpus()
    host, docker = HostBuilder(home, processes, cpus), DockerBuilder(home, processes, cpus)
    return CachedBuilder(ArtifactStore(home), {"host": host, "docker": docker})


def make_benchmark(name: str = "get-p1", test: str = "get", transport: str = "unix", **workload: Any) -> dict[str, Any]:
    phase = {
        "test": test,
        "clients": 20,
        "pipeline": 1,
        "keys": {"count": 500},
        "values": {"bytes": 32},
        "prefill": True,
        "expect": {"hit_rate": 1.0} if test == "get" else {},
        "warmup_s": 0.05,
        "duration_s": 0.4,
    } | workload
    return {
        "name": name,
        "digest": f"sha256:{name}",
        "driver": "speedbench",
        "transport": transport,
        "workload": {key: value for key, value in phase.items() if value is not None},
        "command": "",
        "timeout_s": 300,
        "instructions": "",
        "target": 0.01,
    }


def make_build(**changes: Any) -> dict[str, Any]:
    build = {"command": "make -j{cores}", "artifacts": ["tiny"], "timeout_s": 60, "environment": {}}
    return build | {"kind": "host", "image": "", "dockerfile": "", "dockerfile_network": False, "trust": "t"} | changes


def make_job(**changes: Any) -> dict[str, Any]:
    """A job of one benchmark and two trials of the test server."""
    job = {
        "schema": "speedtrack.job/3",
        "run": 17,
        "token": 3,
        "attempt": 1,
        "reason": "push",
        "project": "tiny",
        "seed": 8231,
        "trials": 2,
        "most_trials": changes.get("trials", 2),
        "lease_s": 60,
        "deadline_s": 300,
        "sides": [{"side": "head", "sha": SHA}],
        "build": make_build(),
        "server": {"command": COMMAND, "listen": {}, "protocol": "resp", "ready_timeout_s": 60, "cores": 1},
        "benchmarks": [make_benchmark()],
        "profile": None,
    }
    return job | changes


def golden(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((HERE / "golden" / name).read_text())
    return document


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def marked(home: Path) -> list[int]:
    """The processes that carry the mark of this runner home."""
    needle = b"SPEEDTRACK_MARK=" + (home / "mark").read_bytes()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                environ = Path(entry.path, "environ").read_bytes()
            except OSError:
                continue
            if needle in environ:
                found.append(int(entry.name))
    return found


def running(word: str) -> list[int]:
    """The processes that have this word among their arguments."""
    found = []
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and word.encode() in Path(entry.path, "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
