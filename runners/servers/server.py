"""The measured server: started on its cores in a clean directory, polled until it answers, stopped and removed."""

import contextlib
import os
import random
import re
import shlex
import socket
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runners.documents import ServerRecipe
from runners.errors import BenchmarkFailed, Permanent
from runners.foreign import last_lines
from runners.processes.children import Child, ChildCommand, Processes, exit_text
from runners.processes.control import Control, boottime
from runners.removal import remove, remove_left
from runners.sandbox.policy import SandboxView
from runners.servers.address import Address, take_socket
from runners.servers.answers import ServerRequest, ask
from runners.servers.options import with_known_options

PADDING_LIMIT_BYTES = 4096  # of the environment: with a fixed size every trial would have the same stack layout
SOCKET_PATH_LIMIT = 100  # sun_path holds 108 bytes
OUTPUT_LINES = 10
# By protocol: a request that every server answers, and the beginning of the answer.
GREETINGS = {"resp": (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"), "memcached": (b"version\r\n", b"VERSION ")}
READY = "ready"
SLOTS = 2  # servers that may run at once: the two sides of a block
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.05
GREETING_S, LONGEST_GREETING = 1.0, 200
_PLACEHOLDER = re.compile(r"\{(artifact:[^{}]+|listen|port|socket|data)\}")
_PORT_TAKEN = "ddress already in use"


class PortTaken(BenchmarkFailed):
    """Another process took the port before the server bound it."""


@dataclass
class ServerProcess:
    """A running server process."""

    child: Child
    address: Address
    output: Path
    padding_bytes: int = 0  # of the environment
    artifacts: Mapping[str, Path] = field(default_factory=dict)  # its programs

    @property
    def pid(self) -> int:
        return self.child.pid

    def check_alive(self) -> None:
        """Raises BenchmarkFailed, with the last lines of its output, if the server has ended."""
        status = self.child.exited()
        if status is not None:
            raise BenchmarkFailed(f"the server ended during the trial ({exit_text(status)}){self.last_output()}")

    def peak_rss_bytes(self) -> int:
        """Its peak memory so far (VmHWM), in bytes.

        Raises BenchmarkFailed if the process is gone.
        """
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
        except (OSError, StopIteration) as error:
            self.check_alive()
            raise BenchmarkFailed("the server's peak memory cannot be read: is its process gone?") from error

    def last_output(self) -> str:
        """The end of an error's sentence: `: ` and the last lines that it printed, or `; it printed nothing`."""
        lines = last_lines(self.output, OUTPUT_LINES)
        return ": " + " | ".join(line.strip() for line in lines) if lines else "; it printed nothing"


@dataclass(frozen=True)
class ServerSpec:
    """The server to start: its recipe and transport, its programs by artifact name, and the slot that it uses.

    `beside`: another server whose network this one shares, so that one driver reaches both. `random`: the bytes that
    replace the devices of random bytes in a sandbox; None: the devices.
    """

    recipe: ServerRecipe
    transport: str
    artifacts: Mapping[str, Path]
    slot: int = 0
    beside: ServerProcess | None = None
    random: bytes | None = None


@dataclass(frozen=True)
class Launcher:
    """Starts the servers of one runner home, at most one per slot; each slot has its own directory and socket."""

    processes: Processes
    home: Path
    cpus: frozenset[int]
    nodes: frozenset[int] = frozenset()

    @contextlib.contextmanager
    def running(self, spec: ServerSpec, rng: random.Random, control: Control) -> Iterator[ServerProcess]:
        """A fresh server that has answered a request; it is ended and its files are removed afterwards.

        Raises BenchmarkFailed, with the last lines of its output, if it ends or does not answer in time, and if it left
        files that cannot be removed; Permanent if its command cannot be parsed; the error of an abort.
        """
        with self._scratch(spec.slot) as scratch:
            try:
                server = self._start(spec, rng, control, scratch)
            except PortTaken:
                server = self._start(spec, rng, control, scratch)
            try:
                yield server
            finally:
                server.child.end()

    def _start(self, spec: ServerSpec, rng: random.Random, control: Control, scratch: Path) -> ServerProcess:
        sockets = self._sockets(scratch)
        listening = Address(spec.transport, free_port(), sockets / "socket" / "s")
        recipe = with_known_options(spec.recipe, spec.artifacts)
        argv = server_argv(recipe, listening, scratch / "data", spec.artifacts)
        padding_bytes = rng.randrange(PADDING_LIMIT_BYTES + 1)
        environment = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "HOME": str(scratch / "data"),
            "SPEEDTRACK_PADDING": "x" * padding_bytes,
        }
        output = scratch / "output"
        writable, readable = (scratch / "data", sockets / "socket"), tuple(spec.artifacts.values())
        view = SandboxView(scratch / "tmp", writable, readable, random_file(scratch, spec.random))
        shared = spec.beside.child.sandbox if spec.beside else None
        command = ChildCommand(argv, environment, scratch / "data", self.cpus, self.nodes, view, shared)
        with output.open("wb") as stream:
            try:
                child = self.processes.start(command, stream)
            except OSError as error:
                raise BenchmarkFailed(f"the server cannot be started: {error}") from error
        network = child.sandbox if spec.transport == "tcp" else None
        address = replace(listening, socket_path=sockets / "s", network=network)
        server = ServerProcess(child, address, output, padding_bytes, spec.artifacts)
        try:
            await_ready(server, spec.recipe, control, listening.socket_path)
        except BaseException:
            child.end()
            raise
        return server

    @contextlib.contextmanager
    def _scratch(self, slot: int) -> Iterator[Path]:
        scratch = self._directory(slot)
        self._clean(slot)
        (scratch / "data").mkdir(parents=True)
        obstacle = ""
        try:
            yield scratch
        finally:
            obstacle = self._clean(slot)
        if obstacle:
            raise BenchmarkFailed(f"the server left files that cannot be removed: {obstacle}")

    def clean(self) -> str:
        """Removes the files that a crashed runner left, and those that no earlier run could remove.

        Returns why something is left, or an empty text. Raises nothing, because no run may keep the runner from
        starting.
        """
        obstacles = [remove_left(directory) for directory in (self.home, *self._own_short_directory())]
        for slot in range(SLOTS):
            try:
                obstacles.append(self._clean(slot))
            except OSError as error:
                obstacles.append(f"{error.filename} cannot be moved aside ({error.strerror}): remove it by hand")
        return "; ".join(filter(None, obstacles))

    def _clean(self, slot: int) -> str:
        """Removes the directories of a slot; returns why something is left, or an empty text. Raises OSError."""
        directory = self._directory(slot)
        directories = [directory, *(short / directory.name for short in self._own_short_directory())]
        return "; ".join(filter(None, map(remove, directories)))

    def _directory(self, slot: int) -> Path:
        return self.home / f"trial-{slot}"

    def _sockets(self, scratch: Path) -> Path:
        """The directory of the sockets: the server makes `socket/s`, and `s` is the runner's own name of it.

        The server may write to `socket`, but not to the directory of that name, nor to the driver's directory.
        """
        sockets = scratch
        if len(str(sockets / "socket" / "s")) >= SOCKET_PATH_LIMIT:
            sockets = short_directory(self._short_directory_path()) / scratch.name
        (sockets / "socket").mkdir(parents=True, exist_ok=True)
        return sockets

    def _short_directory_path(self) -> Path:
        # Not TMPDIR, which may be long. Another user may have taken the name: is_own_directory checks that.
        return Path("/tmp") / f"speedtrack-{os.getuid()}-{self.processes.mark[:8]}"  # noqa: S108

    def _own_short_directory(self) -> list[Path]:
        """The short directory if there is one of this user."""
        return [path for path in [self._short_directory_path()] if is_own_directory(path)]


def random_file(scratch: Path, content: bytes | None) -> Path | None:
    """The path of a file with these bytes; None if there are none."""
    if content is None:
        return None
    file = scratch / "random"
    file.write_bytes(content)
    return file


def short_directory(path: Path) -> Path:
    """Makes a directory of this user. Raises Permanent if another user has taken its name."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if not is_own_directory(path):
        raise Permanent(f"{path} belongs to another user: remove it, or choose a shorter SPEEDTRACK_RUNNER_HOME")
    return path


def is_own_directory(path: Path) -> bool:
    """Whether a path is a directory, and no link to one, that belongs to this user."""
    try:
        state = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid()


def free_port() -> int:
    """A TCP port of the loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def server_argv(recipe: ServerRecipe, address: Address, data: Path, artifacts: Mapping[str, Path]) -> list[str]:
    """The argument list of a server command. Raises Permanent for an unknown placeholder or a broken quotation."""
    template = recipe.command.replace("{listen}", recipe.listen.get(address.transport, "{listen}"))
    values = {"port": str(address.port), "socket": str(address.socket_path), "data": str(data)}
    values |= {f"artifact:{name}": str(path) for name, path in artifacts.items()}

    def fill(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise Permanent(f"the server command names {match[0]}, the build section lists: {', '.join(artifacts)}")
        return values[match[1]]

    try:
        arguments = shlex.split(template)
    except ValueError as error:
        raise Permanent(f"the server command cannot be split: {error}: {template}") from error
    if not arguments:
        raise Permanent("the server command is empty")
    return [_PLACEHOLDER.sub(fill, argument) for argument in arguments]


def await_ready(server: ServerProcess, recipe: ServerRecipe, control: Control, bound: Path) -> None:
    """Returns when the server answers a request; its socket, made at `bound`, then has the runner's name.

    Raises BenchmarkFailed with the last lines of its output.
    """
    deadline = boottime() + recipe.ready_timeout_s
    pause_s = FIRST_PAUSE_S
    answer = "no connection"
    while boottime() < deadline:
        answer = first_answer(server.address, recipe.protocol, bound)
        status = server.child.exited()
        if status is not None:
            kind = PortTaken if _PORT_TAKEN in server.last_output() else BenchmarkFailed
            raise kind(f"the server ended at once ({exit_text(status)}){server.last_output()}")
        if answer == READY:
            return
        server.child.wait(control, pause_s)
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
    raise BenchmarkFailed(
        f"the server was not ready after {recipe.ready_timeout_s:g} s on {server.address.transport} "
        f"(protocol {recipe.protocol}, last answer: {answer}){server.last_output()}"
    )


def first_answer(address: Address, protocol: str, bound: Path) -> str:
    """As `greet`, for a server that may just have made its socket."""
    if address.transport == "unix":
        try:
            take_socket(bound, address.socket_path)
        except OSError as error:
            return str(error)
    return greet(address, protocol)


def greet(address: Address, protocol: str) -> str:
    """`ready` if the server answers as it should; otherwise the answer or error."""
    request, begins = GREETINGS[protocol]
    try:
        answer = ask(address, ServerRequest(request, is_line, GREETING_S, LONGEST_GREETING))
    except OSError as error:
        return str(error)
    return READY if answer.startswith(begins) and answer.endswith(b"\r\n") else repr(answer.decode(errors="replace"))


def is_line(answer: bytes) -> bool:
    return answer.endswith(b"\r\n")
