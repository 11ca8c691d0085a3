"""The sandbox beside real compilers, servers, PostgreSQL and a broker: what it keeps out, what works, how it ends."""

import errno
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from runners.build import CommitSource
from runners.documents import BuildRecipe, parse_job
from runners.errors import BenchmarkFailed, SettingsError
from runners.loads.speedbench import Driver
from runners.loads.target import Target
from runners.machine.topology import allowed_cpus
from runners.processes.children import Child, ChildCommand, Processes
from runners.processes.control import Control
from runners.sandbox import running as running_sandbox
from runners.sandbox.policy import NONE, Sandbox, SandboxView, sandbox_of_machine
from runners.sandbox.running import NoSandbox, SandboxedProgram
from runners.servers.server import READY, Launcher, ServerSpec, free_port, greet
from runners.tests.api import Api
from runners.tests.broker_servers import Valkey
from runners.tests.conftest import HERE, SHA, make_benchmark, make_builder, make_job, marked, running

CPUS = frozenset([max(allowed_cpus())])
ENVIRONMENT = {"PATH": os.defpath}
LIMIT_S = 300
LONG = f"300.{os.getpid()}"  # seconds, and the word by which this session finds its own processes
INTRUDER = (HERE / "programs" / "intruder.c").read_text()
NOBODY = 65534

pytestmark = pytest.mark.sandbox


@pytest.fixture
def sandbox(home: Path) -> Sandbox:
    return sandbox_of_machine({"SPEEDTRACK_SANDBOX": "required"}, home)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What runs beside a runner in `make serve`, by the access that is tried: secrets, a PostgreSQL, a broker."""
    var = tmp_path / "var"
    var.mkdir()
    for name in ("secret-key", "machine-token"):
        (var / name).write_text("secret")
    (directory,) = parse_qs(urlsplit(os.environ["DATABASE_URL"]).query)["host"]  # of these tests
    with Valkey(tmp_path, free_port()) as broker:
        yield {
            f"read {var}/secret-key": "done",
            f"read {var}/machine-token": "done",
            f"write {var}/outside": "done",
            f"unix {directory}/.s.PGSQL.5432": "done",
            f"tcp {broker.port}": "done",
        }


def built(processes: Processes, home: Path, script: str) -> str:
    """The log of a build whose Makefile runs these commands."""
    makefile = f"tiny: intruder.c\n\tcc -o $@ $<\n{script}"
    tar = Api(sources={SHA: {"Makefile": makefile, "intruder.c": INTRUDER}}).tar(SHA)
    source = CommitSource(SHA, lambda file: file.write_bytes(tar) and None)
    log: list[str] = []
    recipe = BuildRecipe("make", ("tiny",), LIMIT_S, {}, trust="t")
    build = make_builder(home, processes).build("head", source, recipe, log.append, Control())
    assert build.succeeded, "".join(log)
    return "".join(log)


@pytest.mark.parametrize("inside", [True, False])
def test_a_makefile_reaches_nothing_of_its_host(
    home: Path, sandbox: Sandbox, installation: dict[str, str], inside: bool
) -> None:
    """Without a sandbox each attempt succeeds, so that each of them means something."""
    processes = Processes(home, sandbox if inside else NONE)
    log = built(processes, home, "".join(f"\t./tiny {attempt}\n" for attempt in installation))
    results = {line.rpartition(": ")[0]: line.rpartition(": ")[2] for line in log.splitlines() if ": " in line}
    done = [attempt for attempt in installation if results[attempt] == "done"]
    assert done == ([] if inside else list(installation))


def test_nothing_that_a_makefile_starts_outlives_its_build(home: Path, sandbox: Sandbox) -> None:
    built(Processes(home, sandbox), home, f"\tenv -i setsid sleep {LONG} & sleep 0.1\n")
    assert running(LONG) == []


def test_only_the_directory_of_a_build_and_its_own_tmp_can_be_written(home: Path, sandbox: Sandbox) -> None:
    places = ["here", "/tmp/here", "/dev/shm/here"]  # noqa: S108
    refused = ["/here", "/usr/here", "/etc/here", "/root/here", "/proc/sys/kernel/core_pattern", f"{home}/spool/here"]
    log = built(Processes(home, sandbox), home, "".join(f"\t./tiny write {place}\n" for place in [*places, *refused]))
    done = [line.split()[1].rstrip(":") for line in log.splitlines() if line.endswith(": done")]
    assert done == places
    assert not Path("/tmp/here").exists()  # noqa: S108


def test_a_build_has_no_capability_and_sees_no_process_of_the_host(home: Path, sandbox: Sandbox) -> None:
    log = built(Processes(home, sandbox), home, "\tid -u; cat /proc/self/status; ls /proc; cat /proc/net/dev\n")
    assert "\n1000\n" in log and "CapBnd:\t0000000000000000" in log and "NoNewPrivs:\t1" in log
    numbers = [int(word) for word in log.split() if word.isdecimal()]
    assert os.getpid() not in numbers
    interfaces = [line.split(":")[0].strip() for line in log.splitlines() if line.count(" 0") > 10]
    assert interfaces == ["lo"]


NAMESPACE_CALLS = ("unshare", "clone", "clone3", "several")


@pytest.mark.parametrize("inside", [True, False])
def test_a_build_makes_no_second_user_namespace(home: Path, sandbox: Sandbox, inside: bool) -> None:
    """Without a sandbox each attempt succeeds, so that each of them means something."""
    processes = Processes(home, sandbox if inside else NONE)
    log = built(processes, home, "".join(f"\t./tiny namespace {call}\n" for call in NAMESPACE_CALLS))
    results = [line.rpartition(": ")[2] for line in log.splitlines() if line.startswith("namespace ")]
    assert results == [os.strerror(errno.ENOSPC) if inside else "done"] * len(NAMESPACE_CALLS)


@pytest.fixture
def intruder(tmp_path: Path) -> Path:
    program = tmp_path / "intruder"
    subprocess.run(["cc", "-o", str(program), str(HERE / "programs" / "intruder.c")], check=True)
    return program


@pytest.mark.parametrize("call", NAMESPACE_CALLS)
def test_no_measured_server_makes_a_second_user_namespace(
    home: Path, sandbox: Sandbox, tiny: Path, intruder: Path, call: str
) -> None:
    """Nor does the second server of a pair, which shares the network of the first one."""
    launcher, server = Launcher(Processes(home, sandbox), home, CPUS), parse_job(make_job()).server
    hostile = replace(server, command=f"{{artifact:intruder}} namespace {call}")
    programs = {"tiny": tiny, "intruder": intruder}
    refusal = f"namespace {call}: {os.strerror(errno.ENOSPC)}"
    with launcher.running(ServerSpec(server, "tcp", programs), random.Random(1), Control()) as first:
        for beside in (None, first):
            spec = ServerSpec(hostile, "tcp", programs, 1, beside)
            with (
                pytest.raises(BenchmarkFailed, match=refusal),
                launcher.running(spec, random.Random(1), Control()),
            ):
                pass


def test_a_build_cannot_redirect_the_ccache_settings_of_the_next_one(home: Path, sandbox: Sandbox) -> None:
    """The runner writes ccache's settings before each build: through a link it would write what the link names."""
    processes, victim = Processes(home, sandbox), home / "mark"
    before = victim.read_text()
    built(processes, home, f"\tln -sf {victim} $$CCACHE_DIR/ccache.conf; ln -sf {victim} $$CCACHE_CONFIGPATH || true\n")
    shutil.rmtree(home / "builds")
    built(processes, home, "")
    assert victim.read_text() == before


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_server_is_measured_in_a_sandbox(
    home: Path, sandbox: Sandbox, tiny: Path, speedbench: Path, transport: str
) -> None:
    processes = Processes(home, sandbox)
    job = parse_job(make_job(benchmarks=[make_benchmark(transport=transport)]))
    launcher, driver = Launcher(processes, home, CPUS), Driver(speedbench, processes, CPUS)
    with launcher.running(ServerSpec(job.server, transport, {"tiny": tiny}), random.Random(1), Control()) as server:
        assert Path(f"/proc/{server.pid}/exe").readlink() == tiny
        assert os.readlink(f"/proc/{server.pid}/ns/net") != os.readlink("/proc/self/ns/net")
        assert server.child.sandbox and server.child.sandbox.keeper != server.pid
        target = Target("resp", server.address, server.pid, server.output.parent)
        outcome = driver.run(job.benchmarks[0], target, 1, Control())
        assert greet(server.address, "resp") == READY
        assert server.peak_rss_bytes() > 100_000
    # A request of this server takes between one and some hundred microseconds: the clock is the server's.
    assert 500 < outcome.metrics["server_cpu_ns_per_request"] < 1e6
    assert outcome.metrics["context_switches_per_request"] > 0
    assert running(str(tiny)) == [] and not (home / "trial-0").exists()


def test_a_server_cannot_write_to_the_directory_of_the_drivers_document(
    home: Path, sandbox: Sandbox, tiny: Path
) -> None:
    launcher = Launcher(Processes(home, sandbox), home, CPUS)
    server = parse_job(make_job()).server
    with launcher.running(ServerSpec(server, "unix", {"tiny": tiny}), random.Random(1), Control()) as one:
        root = Path(f"/proc/{one.pid}/root{one.output.parent}")
        assert sorted(path.name for path in root.iterdir()) == ["data", "socket"]
        mounts = Path(f"/proc/{one.pid}/mountinfo").read_text().splitlines()
        places = [line.split()[4] for line in mounts if line.split()[5].startswith("rw")]
        writable = [place for place in places if not place.startswith("/dev/")]
        assert sorted(writable) == sorted(["/tmp", f"{home}/trial-0/data", f"{home}/trial-0/socket"])  # noqa: S108


def test_a_process_that_ignores_the_request_to_end_is_killed(home: Path, sandbox: Sandbox) -> None:
    child = shell(Processes(home, sandbox), home, f"trap '' TERM; (trap '' TERM; sleep {LONG}) & echo up; wait")
    wait_for(home / "output", "up")
    child.end(grace_s=0.1)
    assert running(LONG) == []


def test_status_and_signal_of_a_program_are_passed_on(home: Path, sandbox: Sandbox) -> None:
    processes = Processes(home, sandbox)
    statuses = {"exit 7": 7, "kill -9 $$": -9, "kill -SEGV $$": -11, "trap 'exit 3' TERM; kill $$": 3}
    for script, status in statuses.items():
        child = shell(processes, home, script)
        assert child.wait(Control(), LIMIT_S) == status
        child.end()
    with pytest.raises(FileNotFoundError):
        processes.start(ChildCommand(["no-program"], ENVIRONMENT, home, view=SandboxView(home / "tmp", (home,))), 1)


KILLED = """
import sys, time
from pathlib import Path
from runners.processes.children import ChildCommand, Processes
from runners.sandbox.policy import SandboxView, sandbox_of_machine
home = Path(sys.argv[1])
processes = Processes(home, sandbox_of_machine({}, home))
script = "env -i setsid sleep LONG & echo up; sleep LONG"
with (home / "output").open("wb") as output:
    view = SandboxView(home / "tmp", (home,))
    command = ChildCommand(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"}, home, view=view)
    child = processes.start(command, output)
time.sleep(300)
"""


def test_nothing_outlives_a_killed_runner(home: Path) -> None:
    runner = subprocess.Popen([sys.executable, "-c", KILLED.replace("LONG", LONG), str(home)], cwd=HERE.parents[1])
    wait_for(home / "output", "up")
    deadline = time.monotonic() + LIMIT_S
    while len(running(LONG)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(running(LONG)) == 2
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    deadline = time.monotonic() + LIMIT_S
    while running(LONG) + marked(home) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert running(LONG) == [] and marked(home) == [], "the program and its sandbox have ended"


ORDINARY = """
import os, random, sys
from pathlib import Path
from runners.processes.control import Control
from runners.documents import parse_job
from runners.loads.speedbench import Driver
from runners.loads.target import Target
from runners.processes.children import Processes
from runners.sandbox.policy import sandbox_of_machine
from runners.servers.server import Launcher, ServerSpec
from runners.machine.topology import allowed_cpus
import json
home, tiny, speedbench = map(Path, sys.argv[1:4])
job, cpus = parse_job(json.loads(sys.argv[4])), frozenset([max(allowed_cpus())])
processes = Processes(home, sandbox_of_machine({"SPEEDTRACK_SANDBOX": "required"}, home))
launcher, driver = Launcher(processes, home, cpus), Driver(speedbench, processes, cpus)
def start(slot, beside=None):
    spec = ServerSpec(job.server, "tcp", {"tiny": tiny}, slot, beside)
    return launcher.running(spec, random.Random(1), Control())
def target(server):
    return Target("resp", server.address, server.pid, server.output.parent)
with start(0) as server:
    outcomes = [driver.run(job.benchmarks[0], target(server), 1, Control())]
with start(0) as base, start(1, base) as head:
    outcomes += driver.duel(job.benchmarks[0], [target(base), target(head)], 1, Control())
print(os.geteuid(), [outcome.metrics["server_cpu_ns_per_request"] > 500 for outcome in outcomes])
"""


PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"  # the libraries are built for it
LIBRARIES = ("pydantic", "pydantic_core", "annotated_types", "typing_inspection", "typing_extensions")


def copy_libraries(place: Path) -> None:
    """The libraries that the script above imports: those of this environment may be readable for root only."""
    for name in LIBRARIES:
        found = Path(str(importlib.import_module(name).__file__))
        if found.name == "__init__.py":
            shutil.copytree(found.parent, place / name)
        else:
            shutil.copy(found, place / found.name)


@pytest.mark.ordinary_user
def test_an_ordinary_user_measures_over_tcp_and_two_servers_at_once(tiny: Path, speedbench: Path) -> None:
    place = Path(tempfile.mkdtemp())  # the directories of pytest are root's
    place.chmod(0o755)
    try:
        for file in (tiny, speedbench):
            shutil.copy(file, place / file.name)
        shutil.copytree(HERE.parent, place / "runners", ignore=shutil.ignore_patterns("target", "__pycache__"))
        copy_libraries(place)
        (place / "home").mkdir()
        shutil.chown(place / "home", NOBODY, NOBODY)
        job = make_job(benchmarks=[make_benchmark(transport="tcp")])
        words = [place / "home", place / "tiny", place / "speedbench", json.dumps(job)]
        done = subprocess.run(
            [
                "setpriv",
                f"--reuid={NOBODY}",
                f"--regid={NOBODY}",
                "--clear-groups",
                PYTHON,
                "-c",
                ORDINARY,
                *map(str, words),
            ],
            cwd=place,
            env={"PATH": os.defpath, "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            timeout=600,
        )
    finally:
        shutil.rmtree(place)
    assert done.stdout == f"{NOBODY} [True, True, True]\n", done.stderr


def test_the_longest_path_decides_what_is_visible(home: Path, tmp_path: Path) -> None:
    """A toolchain below a hidden directory is seen, a secret below the toolchain is not."""
    tools = tmp_path / "home-of-user" / "tools"
    (tools / "installation").mkdir(parents=True)
    (tools / "compiler").write_text("compiler")
    (tools / "installation" / "secret").write_text("secret")
    (tools.parent / "secret").write_text("secret")
    sandbox = Sandbox("", (tools,), (tools.parent, tools / "installation"))
    child = shell(Processes(home, sandbox), home, f"find {tools.parent} | sort; cat {tools}/compiler; > {tools}/x")
    child.wait(Control(), LIMIT_S)
    child.end()
    output = (home / "output").read_text()
    assert output.startswith(f"{tools.parent}\n{tools}\n{tools}/compiler\n{tools}/installation\ncompiler")
    assert "Read-only file system" in output and not (tools / "x").exists()


@pytest.mark.parametrize("planted", ["on the way", "at the end", "in place of /tmp"])
@pytest.mark.parametrize("is_file", [True, False])
def test_no_mount_point_is_made_through_a_link_of_a_program(
    home: Path, tmp_path: Path, sandbox: Sandbox, planted: str, is_file: bool
) -> None:
    """The process that makes the mounts sees the files of the host below /old."""
    victim, shown, tmp = tmp_path / "victim", tmp_path / "shown", home / "tmp"
    victim.mkdir()
    shown.touch() if is_file else shown.mkdir()
    within = shown.relative_to("/tmp")  # noqa: S108 (where pytest keeps what tests make)
    link, content = {
        "on the way": (tmp / within.parts[0], f"/old{victim}"),
        "at the end": (tmp / within, f"/old{victim}/made"),
        "in place of /tmp": (tmp, victim),
    }[planted]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(content)
    command = ChildCommand(["/bin/true"], ENVIRONMENT, Path("/"), view=SandboxView(tmp, (), (shown,)))
    with pytest.raises(NoSandbox, match=rf"mount of .*: {link.name} is a link"):
        Processes(home, sandbox).start(command, subprocess.DEVNULL)
    assert list(victim.iterdir()) == []


def test_links_that_no_program_made_are_followed_within_the_root(home: Path, sandbox: Sandbox) -> None:
    """Those of the root itself (/var/tmp), and of what is read-only in it."""
    tools, other = home / "tools", home / "other"
    for directory in (tools / "1.2" / "bin", other):
        directory.mkdir(parents=True)
    (other / "compiler").write_text("compiler")
    for name, target in (("relative", "1.2"), ("absolute", tools / "1.2"), ("upwards", "../../../../../../../etc")):
        (tools / name).symlink_to(target)
    mounts = sandbox.mounts(SandboxView(home / "tmp", (), (tools,)))
    targets = [f"{tools}/relative/bin", f"{tools}/absolute/bin", f"{tools}/upwards", "/var/tmp/bin"]  # noqa: S108
    mounts += [("read", str(other), target) for target in targets]
    (home / "tmp").mkdir()
    for target in targets:
        program = SandboxedProgram(["/bin/cat", f"{target}/compiler"], ENVIRONMENT, Path("/"), mounts)
        with (home / "output").open("w+b") as output:
            process, started = running_sandbox.start(program, stdout=output, stderr=subprocess.STDOUT)
            assert process.wait(LIMIT_S) == 0, (home / "output").read_text()
        started.end()
        assert (home / "output").read_text() == "compiler"
    assert [path for path in (home / "tmp").iterdir() if path.name not in (home.parts[2], "bin")] == []


def test_the_network_of_a_sandbox_has_the_settings_of_the_host(home: Path, sandbox: Sandbox) -> None:
    names = ["core/somaxconn", "ipv4/tcp_max_syn_backlog", "ipv4/tcp_congestion_control", "ipv4/ip_local_port_range"]
    files = [Path("/proc/sys/net") / name for name in names]
    child = shell(Processes(home, sandbox), home, f"cat {' '.join(map(str, files))} /sys/class/net/lo/mtu; true")
    child.wait(Control(), LIMIT_S)
    child.end()
    assert (home / "output").read_text().startswith("".join(file.read_text() for file in files))


def test_a_program_outside_a_sandbox_uses_its_network(home: Path, sandbox: Sandbox) -> None:
    """No library's work after a fork keeps it out, such as a thread that is started in each forked child."""
    child = shell(Processes(home, sandbox), home, f"sleep {LONG}")
    assert child.sandbox
    forks, is_over = home / "forks", False
    os.register_at_fork(after_in_child=lambda: None if is_over else forks.touch())
    try:
        own, theirs = os.readlink("/proc/self/ns/net"), os.readlink(f"/proc/{child.sandbox.keeper}/ns/net")
        words = ["readlink", "/proc/self/ns/net"]
        with running_sandbox.start_inside(child.sandbox, words, stdout=subprocess.PIPE) as process:
            assert process.stdout and process.stdout.read().decode().strip() == theirs != own
        assert not forks.exists()
        with pytest.raises(FileNotFoundError):
            running_sandbox.start_inside(child.sandbox, ["/nowhere"])
    finally:
        is_over = True
        child.end()
    with pytest.raises(OSError, match=r"No such file|No such process"):
        running_sandbox.start_inside(child.sandbox, ["true"])


def test_wrong_settings_are_refused_with_the_remedy() -> None:
    with pytest.raises(SettingsError, match="SPEEDTRACK_SANDBOX is 'yes': set it to one of auto, off, required"):
        sandbox_of_machine({"SPEEDTRACK_SANDBOX": "yes"})
    with pytest.raises(SettingsError, match="names opt, which is no path that exists"):
        sandbox_of_machine({"SPEEDTRACK_SANDBOX_READABLE": "/usr:opt"})


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["env", "SPEEDTRACK_SANDBOX=off"], "SPEEDTRACK_SANDBOX=off"),
        # A kernel that allows no user namespace to this process.
        (
            ["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "-"],
            "user namespace: No space left on device",
        ),
    ],
)
def test_a_machine_without_a_sandbox_says_so(words: list[str], reason: str) -> None:
    done = subprocess.run(
        [*words, sys.executable, "-m", "runners.sandbox"], cwd=HERE.parents[1], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout.startswith(
        f"NO SANDBOX ({reason}): host builds and measured servers run with all rights of this"
    )


def shell(processes: Processes, home: Path, script: str) -> Child:
    with (home / "output").open("wb") as output:
        view = SandboxView(home / "tmp", (home,))
        return processes.start(ChildCommand(["/bin/sh", "-c", script], ENVIRONMENT, home, view=view), output)


def wait_for(file: Path, word: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not file.exists() or word not in file.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
