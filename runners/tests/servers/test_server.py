"""Starting and stopping a real server: ready, not ready, and nothing left behind."""

import contextlib
import os
import random
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runners.documents import ServerRecipe, parse_job
from runners.errors import BenchmarkFailed, Cancelled, Permanent
from runners.loads.speedbench import Driver
from runners.loads.target import Target
from runners.machine import memory
from runners.machine.kernel_files import parse_cpu_list
from runners.machine.topology import allowed_cpus
from runners.processes.children import Processes
from runners.processes.control import Control
from runners.servers.address import Address
from runners.servers.counters import own_counters
from runners.servers.options import with_known_options
from runners.servers.server import Launcher, ServerSpec, greet, server_argv, short_directory
from runners.tests.conftest import COMMAND, alive, make_job, marked

ADDRESS = Address("unix", 7000, Path("/run/s"))
CPUS = frozenset([max(allowed_cpus())])


@pytest.fixture
def launcher(processes: Processes, home: Path) -> Launcher:
    return Launcher(processes, home, CPUS)


def recipe(extra: str = "", ready_timeout_s: float = 60) -> ServerRecipe:
    return ServerRecipe(f"{COMMAND} {extra}", {}, "resp", ready_timeout_s, 1)


def of(template: str, listen: dict[str, str] | None = None) -> ServerRecipe:
    return ServerRecipe(template, listen or {}, "resp", 60, 1)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_server_runs_on_its_cores_and_leaves_nothing(
    launcher: Launcher, tiny: Path, home: Path, transport: str
) -> None:
    with launcher.running(ServerSpec(recipe(), transport, {"tiny": tiny}), random.Random(1), Control()) as server:
        status = Path(f"/proc/{server.pid}/status").read_text()
        assert f"Cpus_allowed_list:\t{max(CPUS)}\n" in status
        assert server.peak_rss_bytes() > 100_000
    assert not alive(server.pid) and marked(home) == [] and not (home / "trial-0").exists()


@pytest.mark.sandbox
def test_a_server_may_be_given_its_random_bytes(launcher: Launcher, tiny: Path, home: Path) -> None:
    seen, content = home / "trial-0" / "data" / "seen", b"as random as any" * 4
    command = (
        f"/bin/sh -c 'head -c 32 /dev/urandom > $0; head -c 32 /dev/random >> $0; exec \"$@\"' {{data}}/seen {COMMAND}"
    )
    with launcher.running(ServerSpec(of(command), "unix", {"tiny": tiny}, random=content), random.Random(1), Control()):
        assert seen.read_bytes() == content[:32] * 2
    with launcher.running(ServerSpec(of(command), "unix", {"tiny": tiny}), random.Random(1), Control()):
        assert content[:32] not in seen.read_bytes() and len(seen.read_bytes()) == 64


def test_a_server_has_its_cores_and_memory_node(processes: Processes, home: Path, tiny: Path) -> None:
    cpus, nodes = allowed_cpus(), frozenset([0])
    launcher = Launcher(processes, home, cpus, nodes)
    refused = memory.bind_refusal(nodes)
    with contextlib.ExitStack() as stack:
        if refused:
            stack.enter_context(pytest.raises(BenchmarkFailed, match=refused))
        server = stack.enter_context(
            launcher.running(ServerSpec(recipe(), "unix", {"tiny": tiny}), random.Random(1), Control())
        )
        status = dict(line.split(":\t") for line in Path(f"/proc/{server.pid}/status").read_text().splitlines())
        assert parse_cpu_list(status["Cpus_allowed_list"]) == cpus
        assert 0 in parse_cpu_list(status["Mems_allowed_list"])
        assert " bind:0 " in Path(f"/proc/{server.pid}/numa_maps").read_text()
    assert "bind" not in subprocess.run(["cat", "/proc/self/numa_maps"], capture_output=True, text=True).stdout


def test_a_missing_memory_node_is_refused_with_the_reason() -> None:
    refused = memory.bind_refusal(frozenset([memory.NODES - 1]))
    assert refused in ("Invalid argument", "Operation not permitted", "Function not implemented")


def test_the_environment_has_another_size_each_time(launcher: Launcher, tiny: Path) -> None:
    sizes, rng = set(), random.Random(7)
    for _ in range(3):
        with launcher.running(ServerSpec(recipe(), "unix", {"tiny": tiny}), rng, Control()) as server:
            environ = Path(f"/proc/{server.pid}/environ").read_bytes()
            assert b"SPEEDTRACK_TOKEN" not in environ
            sizes.add(len(environ))
    assert len(sizes) == 3 and max(sizes) < 8192


def test_a_long_home_gets_a_short_socket(tiny: Path, tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30)
    home.mkdir()
    processes = Processes(home)
    launcher = Launcher(processes, home, CPUS)
    with launcher.running(ServerSpec(recipe(), "unix", {"tiny": tiny}), random.Random(1), Control()) as server:
        path = server.address.socket_path
        assert len(str(path)) < 100 and path.is_socket()
    assert not path.exists()
    path.parent.parent.rmdir()


def test_a_short_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(Permanent, match="belongs to another user"):
        short_directory(tmp_path / "link")


def test_a_taken_port_is_tried_once_more_and_then_reported(home: Path, tiny: Path) -> None:
    launcher = Launcher(Processes(home), home, CPUS)  # without a sandbox: in one all ports are free
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = recipe().command.replace("{port}", str(holder.getsockname()[1]))
        with (
            pytest.raises(BenchmarkFailed, match=r"ended at once .*: tiny: bind: Address already in use"),
            launcher.running(
                ServerSpec(ServerRecipe(taken, {}, "resp", 60, 1), "unix", {"tiny": tiny}), random.Random(1), Control()
            ),
        ):
            pass


def test_a_program_that_cannot_be_started_is_reported(launcher: Launcher, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    text.chmod(0o755)
    with (
        pytest.raises(BenchmarkFailed, match="cannot be started"),
        launcher.running(ServerSpec(recipe(), "unix", {"tiny": text}), random.Random(1), Control()),
    ):
        pass


def test_an_abort_ends_the_wait_for_readiness(launcher: Launcher, tiny: Path, home: Path) -> None:
    control = Control()
    threading.Timer(0.3, lambda: control.abort(Cancelled("asked to stop"))).start()
    with (
        pytest.raises(Cancelled),
        launcher.running(
            ServerSpec(recipe("--behaviour silent", 60), "unix", {"tiny": tiny}), random.Random(1), control
        ),
    ):
        pass
    assert marked(home) == []


def test_the_command_is_split_before_it_is_filled() -> None:
    asked = of("{artifact:tiny} --save '' --dir {data} -x{port}")
    words = server_argv(asked, ADDRESS, Path("/a b"), {"tiny": Path("/t x")})
    assert words == ["/t x", "--save", "", "--dir", "/a b", "-x7000"]


def test_an_option_is_given_to_programs_that_know_it(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"\x7fELF maxclients\0")
    new.write_bytes(b"\x7fELF maxclients\0protected-mode\0")
    asked = of("{artifact:tiny} {known:--protected-mode no} {known:--maxclients 10} {known:--no-such-option}")
    for program, words in ((old, []), (new, ["--protected-mode", "no"])):
        programs = {"tiny": program}
        recipe_of_program = with_known_options(asked, programs)
        argv = server_argv(recipe_of_program, ADDRESS, Path("/d"), programs)
        assert argv == [str(program), *words, "--maxclients", "10"]
    empty = tmp_path / "empty"
    empty.touch()
    assert with_known_options(asked, {"tiny": empty}).command.split() == ["{artifact:tiny}"]


def test_a_server_starts_without_options_that_it_does_not_know(launcher: Launcher, tiny: Path) -> None:
    asked = of(f"{COMMAND} {{known:--no-such-option yes}}")
    with launcher.running(ServerSpec(asked, "unix", {"tiny": tiny}), random.Random(1), Control()) as server:
        assert server.artifacts == {"tiny": tiny}


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{artifact:other} --port {port}", "names {artifact:other}, the build section lists: tiny"),
        ("{artifact:tiny} 'open", "cannot be split"),
        ("  ", "is empty"),
    ],
)
def test_a_wrong_command_is_permanent(template: str, message: str) -> None:
    with pytest.raises(Permanent, match=message):
        server_argv(of(template), ADDRESS, Path("/d"), {"tiny": Path("/t")})


@pytest.mark.parametrize(("transport", "words"), [("unix", ["-s", "/run/s"]), ("tcp", ["-l", "127.0.0.1:7000"])])
def test_a_server_listens_where_its_command_says(transport: str, words: list[str]) -> None:
    asked = of("{artifact:tiny} {listen} -t 1", {"unix": "-s {socket}", "tcp": "-l 127.0.0.1:{port}"})
    address = Address(transport, 7000, Path("/run/s"))
    assert server_argv(asked, address, Path("/d"), {"tiny": Path("/t")}) == ["/t", *words, "-t", "1"]


@pytest.mark.parametrize(
    ("protocol", "answer", "greeting"),
    [
        ("resp", b"+PONG\r\n", "ready"),
        ("resp", b"-NOAUTH\r\n", repr("-NOAUTH\r\n")),
        ("memcached", b"VERSION 1.6.40\r\n", "ready"),
        ("memcached", b"ERROR\r\n", repr("ERROR\r\n")),
        ("memcached", b"VERSION 1", repr("VERSION 1")),
    ],
)
def test_a_server_is_greeted_in_its_protocol(tmp_path: Path, protocol: str, answer: bytes, greeting: str) -> None:
    asked = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(100))
                connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        assert greet(Address("unix", 0, tmp_path / "s"), protocol) == greeting
        server.join()
    assert asked == [{"resp": b"*1\r\n$4\r\nPING\r\n", "memcached": b"version\r\n"}[protocol]]


@contextlib.contextmanager
def neighbour(path: Path) -> Iterator[list[bytes]]:
    """Another server of this host, which answers as the measured one would; what it was asked."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        asked.append(connection.recv(1000))
                        connection.sendall(b"+PONG\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("home_name", ["home", "long" * 30])
def test_a_server_that_leads_its_socket_elsewhere_is_not_ready(
    tmp_path: Path, home_name: str, processes: Processes
) -> None:
    home = tmp_path / home_name
    home.mkdir(exist_ok=True)
    launcher = Launcher(Processes(home, processes.sandbox), home, CPUS)
    with neighbour(tmp_path / "n") as asked:
        hostile = of(f"/bin/sh -c 'ln -s {tmp_path}/n $0; sleep 60' {{socket}}")
        with (
            pytest.raises(BenchmarkFailed, match=r"not ready after 1 s on unix .*/socket/s is not a socket"),
            launcher.running(ServerSpec(replace(hostile, ready_timeout_s=1), "unix", {}), random.Random(1), Control()),
        ):
            pass
    assert asked == []
    with contextlib.suppress(FileNotFoundError):
        launcher._short_directory_path().rmdir()


def test_a_server_that_replaces_its_socket_is_loaded_at_the_first_one(
    launcher: Launcher, tiny: Path, tmp_path: Path, home: Path, speedbench: Path
) -> None:
    swap = f"(while [ ! -e $1/go ]; do sleep 0.01; done; ln -sf {tmp_path}/n $0; touch $1/gone) &"
    hostile = of(f"/bin/sh -c '{swap} shift; exec \"$@\"' {{socket}} {{data}} {COMMAND}")
    benchmark = parse_job(make_job()).benchmarks[0]
    with (
        neighbour(tmp_path / "n") as asked,
        launcher.running(ServerSpec(hostile, "unix", {"tiny": tiny}), random.Random(1), Control()) as server,
    ):
        (home / "trial-0" / "data" / "go").touch()
        while not (home / "trial-0" / "data" / "gone").exists():
            server.child.wait(Control(), 0.01)
        assert (home / "trial-0" / "socket" / "s").is_symlink()
        assert greet(server.address, "resp") == "ready"
        own_counters(server.address, "resp")
        target = Target("resp", server.address, server.pid, server.output.parent)
        outcome = Driver(speedbench, launcher.processes, CPUS).run(benchmark, target, 1, Control())
        assert outcome.metrics["throughput_rps"] > 0
    assert asked == []


def test_nothing_is_removed_through_the_short_name_of_another_user(processes: Processes, tmp_path: Path) -> None:
    """Its name is known to every user of the host, who may make it first."""
    (tmp_path / "trial-0").mkdir()
    (tmp_path / "x.removed-1").mkdir()
    launcher = Launcher(processes, tmp_path / "home", CPUS)
    short = Path(f"/tmp/speedtrack-{os.getuid()}-{processes.mark[:8]}")  # noqa: S108
    short.symlink_to(tmp_path)
    try:
        assert launcher.clean() == ""
    finally:
        short.unlink()
    assert {path.name for path in tmp_path.iterdir()} >= {"trial-0", "x.removed-1"}


HOSTILE = {
    "mkdir -p $(printf 'd/%.0s' $(seq 1500)); mkdir -p a/b; chmod 0 a": "it printed nothing",
    "head -c 300000000 /dev/zero; echo; echo the end": "the end",
    "truncate -s 100G /proc/self/fd/1; echo the end >> /proc/self/fd/1": "the end",
}


@pytest.mark.parametrize(("script", "end"), HOSTILE.items())
def test_what_a_server_leaves_ends_its_trial_alone(home: Path, processes: Processes, script: str, end: str) -> None:
    launcher = Launcher(processes, home, CPUS)
    hostile = replace(recipe(), command=f'/bin/sh -c "cd {{data}}; {script}; exit 3"')
    with (
        pytest.raises(BenchmarkFailed, match=f"exit status 3.*{end}") as error,
        launcher.running(ServerSpec(hostile, "unix", {}), random.Random(1), Control()),
    ):
        pass
    assert len(str(error.value)) < 100_000
    assert not (home / "trial-0").exists() and launcher.clean() == ""
