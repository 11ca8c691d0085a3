"""Real builds in real containers of a real daemon, and every way in which such a build goes wrong."""

import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from runners.build import Build, CommitSource
from runners.build.builders import CachedBuilder
from runners.build.docker import OWNER, ContainerLimits, DockerBuilder
from runners.build.store import ArtifactStore
from runners.documents import BuildRecipe
from runners.errors import Cancelled, LeaseLost, Permanent, Stopped, Transient
from runners.machine.topology import allowed_cpus
from runners.processes.children import Processes
from runners.processes.control import Control
from runners.tests.api import Api
from runners.tests.conftest import SHA, TREE

pytestmark = pytest.mark.docker

IMAGE = "speedtrack-test:bookworm"
PROGRAM = {
    "Makefile": "tiny: tiny.o\n\tcc -o $@ $<\ntiny.o: tiny.c\n\tcc -O2 -c $<\n",
    "tiny.c": "int main(void) { return 0; }\n",
}
MB = 2**20
IT_RUNS = "\nit runs\n"  # what the build prints, not the command that the log shows before


class Room:
    """Builds trees of files in containers and keeps the log."""

    def __init__(self, home: Path, processes: Processes, api: docker.APIClient) -> None:
        self.builder = DockerBuilder(home, processes, allowed_cpus(), ContainerLimits(512 * MB, 64 * MB))
        self.cached_builder = CachedBuilder(ArtifactStore(home), {"docker": self.builder})
        self.stopping = threading.Event()
        self.control = Control(self.stopping)
        self.log: list[str] = []
        self.api = api

    def build(
        self,
        command: str = "make",
        tree: dict[str, str] = PROGRAM,
        timeout_s: float = 60,
        sha: str = SHA,
        image: str = IMAGE,
        dockerfile: str = "",
        **environment: str,
    ) -> Build:
        tar = Api(sources={sha: tree}).tar(sha)
        source = CommitSource(sha, lambda file: file.write_bytes(tar) and None, "17/3")
        recipe = BuildRecipe(
            command, ("tiny",), timeout_s, environment, "docker", "" if dockerfile else image, dockerfile, False, "test"
        )
        return self.cached_builder.build("head", source, recipe, self.log.append, self.control)

    @property
    def text(self) -> str:
        return "".join(self.log)

    def containers(self) -> list[str]:
        label = f"{OWNER}={self.builder.processes.mark}"
        return [one["Id"] for one in self.api.containers(all=True, filters={"label": label})]

    def await_text(self, text: str) -> None:
        """Returns once the build has printed this."""
        deadline = time.monotonic() + 300
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            time.sleep(0.05)


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    client = docker.APIClient(timeout=300, **docker.utils.kwargs_from_env())
    yield client
    client.close()


@pytest.fixture
def room(home: Path, processes: Processes, api: docker.APIClient) -> Iterator[Room]:
    made = Room(home, processes, api)
    yield made
    left = made.containers()
    made.builder.end_strays()
    for volume in api.volumes(filters={"label": f"{OWNER}={processes.mark}"})["Volumes"] or []:
        api.remove_volume(volume["Name"], force=True)
    assert left == []


def test_a_commit_is_built_in_an_image_and_runs_here(room: Room) -> None:
    first = room.build("make; id -u; ulimit -c; ls /sys/class/net; touch /etc/x; env", EXTRA="yes")
    assert first.succeeded, room.text
    assert subprocess.run([first.artifacts["tiny"].path], timeout=120).returncode == 0
    assert "65532\n0\nlo\n" in room.text and "Read-only file system" in room.text and "EXTRA=yes" in room.text
    again = room.build("make; id -u; ulimit -c; ls /sys/class/net; touch /etc/x; env", EXTRA="yes")
    assert again.cached and again.artifacts == first.artifacts
    toolchain = next(iter(room.builder.toolchains.values()))
    assert "gcc" in toolchain.compiler.lower() or "cc" in toolchain.compiler
    assert toolchain.libc.startswith("glibc ") and toolchain.image == room.api.inspect_image(IMAGE)["Id"]


def test_equal_files_give_equal_programs_and_ccache_is_used_by_the_next_commit(room: Room) -> None:
    first, second = room.build(sha="a" * 40), room.build(sha="b" * 40, tree=PROGRAM | {"README": "new"})
    assert first.artifacts["tiny"].digest == second.artifacts["tiny"].digest and not second.cached
    assert first.ccache is not None and second.ccache is not None
    assert (first.ccache.hits, second.ccache.hits) == (0, 1)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("exit 3", "ended with exit status 3"),
        ("true", "left no artifact tiny"),
        ("mkdir tiny", "left no artifact tiny"),
        ("ln -s /bin/sh tiny", "left no artifact tiny"),
        ("touch tiny", "tiny is not executable"),
        ("dd if=/dev/zero of=big bs=1M", "No space left"),
        ("cat /dev/zero | head -c 900M | sort -S 800M", "memory"),
    ],
)
def test_a_failed_build_says_why(room: Room, command: str, error: str) -> None:
    build = room.build(command)
    assert build.error is not None and error in build.error + room.text


def test_a_source_of_which_tar_says_more_than_pipes_hold_is_built(room: Room) -> None:
    program = {name: text.encode() for name, text in PROGRAM.items()}
    many = {f"{'deep/' * 30}{number}.c": bytes(1000) for number in range(20_000)}  # tar complains of each one's date

    def write(file: Path) -> None:
        with tarfile.open(file, "w") as tar:
            for name, content in (program | many).items():
                member = tarfile.TarInfo(name)
                member.size, member.mtime = len(content), 4_000_000_000 if name in many else 0
                tar.addfile(member, io.BytesIO(content))

    recipe = BuildRecipe("make", ("tiny",), 120, {}, "docker", IMAGE, "", False, "test")
    room.cached_builder.build("head", CommitSource(SHA, write, "17/3"), recipe, room.log.append, room.control)
    assert room.text.count("in the future") == len(many)


def test_a_build_that_forks_without_end_is_ended_at_its_limit(room: Room) -> None:
    build = room.build("bomb() { bomb | bomb & }; bomb & exec sleep 300", timeout_s=5)
    assert build.error == "the build was ended after its time limit of 5 s"


def test_a_gigabyte_of_output_is_truncated(room: Room) -> None:
    build = room.build("head -c 1G /dev/zero; make")
    assert build.succeeded and "[the log is cut here: the build printed more than 20 MB]" in room.text
    assert len(room.text) < 21 * MB


def test_an_abort_a_lost_lease_and_a_shutdown_end_a_build_at_once(room: Room) -> None:
    def soon(act: Callable[[], None]) -> None:
        def when_it_runs() -> None:
            room.await_text(IT_RUNS)
            act()

        room.log.clear()
        threading.Thread(target=when_it_runs).start()

    soon(room.stopping.set)
    with pytest.raises(Stopped, match="shutting down"):
        room.build("echo it runs; sleep 300")
    assert room.containers() == []
    room.stopping.clear()
    for error in (Cancelled("asked to stop"), LeaseLost("gone")):
        room.control = Control(room.stopping)
        soon(lambda: room.control.abort(error))  # noqa: B023
        with pytest.raises(type(error)):
            room.build("echo it runs; sleep 300")
        assert room.containers() == []


def test_an_image_that_is_gone_is_permanent(room: Room) -> None:
    with pytest.raises(Permanent, match="has no image gone:latest: `docker pull gone:latest`"):
        room.build(image="gone:latest")


def test_a_missing_daemon_is_reported_with_the_remedy(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(
        Transient, match=r"daemon at unix:///nowhere/docker.sock fails .*: start it, or set DOCKER_HOST"
    ):
        room.build()
    assert room.builder.end_strays() == 0


def test_a_program_that_does_not_run_here_fails_its_build(room: Room) -> None:
    tree = PROGRAM | {
        "lib.c": "int seven(void) { return 7; }\n",
        "tiny.c": "int seven(void); int main(void) { return seven(); }\n",
    }
    build = room.build("cc -shared -fPIC -o libseven.so lib.c && cc -o tiny tiny.c -L. -lseven", tree=tree)
    assert build.error is not None and "tiny does not run on this host (libseven.so => not found)" in build.error


def test_a_dockerfile_is_built_once(room: Room) -> None:
    text = f"FROM {IMAGE}\nRUN echo from the dockerfile > /told-{os.getpid()}\n"
    build = room.build(f"cat /told-{os.getpid()}; make", dockerfile=text)
    image = next(iter(room.builder.toolchains.values())).image
    try:
        assert build.succeeded and "from the dockerfile" in room.text
        before = room.text.count("Step 2/")
        assert room.build("make", dockerfile=text).succeeded and room.text.count("Step 2/") == before == 1
    finally:
        room.api.remove_image(image, force=True)


def test_a_dockerfile_that_fails_or_hangs_is_ended(room: Room) -> None:
    with pytest.raises(Permanent, match=r"the image of build.dockerfile cannot be built"):
        room.build(dockerfile=f"FROM {IMAGE}\nRUN exit 7\n")
    assert "returned a non-zero code: 7" in room.text
    with pytest.raises(Exception, match="time limit of 3 s"):
        room.build(dockerfile=f"FROM {IMAGE}\nRUN sleep 299.{os.getpid()}\n", timeout_s=3)
    deadline = time.monotonic() + 300
    while any(f"299.{os.getpid()}" in one["Command"] for one in room.api.containers()):
        assert time.monotonic() < deadline, "the daemon goes on with an image nobody waits for"
        time.sleep(0.1)


class Proxy:
    """A proxy between a builder and the daemon; once it is cut, it no longer answers, like a dead daemon."""

    def __init__(self, path: Path, daemon: str) -> None:
        self.path, self.daemon = path, daemon
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.daemon)
            self.ends += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def cut(self) -> None:
        self.path.unlink()
        for end in [self.listener, *self.ends]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
            finally:
                end.close()


def test_a_daemon_that_dies_during_a_build_is_transient_and_its_container_is_removed_later(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    proxy = Proxy(tmp_path / "d.sock", daemon.removeprefix("unix://"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{proxy.path}")

    def when_it_runs() -> None:
        room.await_text(IT_RUNS)
        proxy.cut()

    threading.Thread(target=when_it_runs).start()
    with pytest.raises(Transient, match=r"the Docker daemon at .* fails"):
        room.build("echo it runs; sleep 300")
    assert len(room.containers()) == 1
    monkeypatch.setenv("DOCKER_HOST", daemon)
    assert room.builder.end_strays() == 1


KILLED = """
import sys
from pathlib import Path
from runners.build import CommitSource
from runners.build.store import ArtifactStore
from runners.build.docker import DockerBuilder
from runners.build.builders import CachedBuilder
from runners.processes.control import Control
from runners.documents import BuildRecipe
from runners.machine.topology import allowed_cpus
from runners.processes.children import Processes

home, tar = map(Path, sys.argv[1:])
builder = DockerBuilder(home, Processes(home), allowed_cpus())
recipe = BuildRecipe("echo it runs; sleep 300", ("tiny",), 300, {}, "docker", %r)
source = CommitSource("a" * 40, lambda file: file.write_bytes(tar.read_bytes()) and None, "17/3")
show = lambda text: print(text, flush=True)
CachedBuilder(ArtifactStore(home), {"docker": builder}).build("head", source, recipe, show, Control())
"""


def test_a_killed_runner_leaves_a_container_that_the_next_one_removes(room: Room, home: Path, tmp_path: Path) -> None:
    (tmp_path / "tar").write_bytes(Api(sources={SHA: TREE}).tar(SHA))
    argv = [sys.executable, "-c", KILLED % IMAGE, str(home), str(tmp_path / "tar")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert any("it runs" in line for line in runner.stdout if not line.startswith("$"))
        runner.send_signal(signal.SIGKILL)
    assert len(room.containers()) == 1
    assert room.builder.end_strays() == 1 and room.containers() == []
