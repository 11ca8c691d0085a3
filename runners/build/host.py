"""Builds a commit on this host: a fresh tree at a constant path, a fixed environment, a bounded time, one log."""

import codecs
import os
import platform
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runners.build import Artifact, Build
from runners.build.cache import Cache, empty_directory
from runners.control import Control, boottime
from runners.documents import BuildRecipe, digest_of
from runners.environment import BUILD_PATH, compiler, first_line, libc
from runners.errors import Permanent, Transient
from runners.processes import Child, Processes

COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "clang++")
LOG_LIMIT_BYTES = 20 * 2**20
TAR_TIMEOUT_S = 300.0
STOP_LOOK_S = 0.5
READ_BYTES = 64 * 1024

Write = Callable[[str], None]


class BuildFailed(Exception):
    """The commit does not build; one line that says why."""


@dataclass(frozen=True)
class Source:
    """How to get the files of a commit: writes its tar to the path it is given."""

    sha: str
    fetch: Callable[[Path], None]


@dataclass(frozen=True)
class HostBuilder:
    """Builds with the tools of this host, on all CPUs the runner was given."""

    home: Path
    processes: Processes
    cache: Cache
    cpus: frozenset[int]

    def build(self, side: str, source: Source, recipe: BuildRecipe, write: Write, control: Control) -> Build:
        """The build of a commit, from the cache if it was built this way before; a failed one has its error set.

        Raises Transient when the files cannot be had or the runner shuts down, Permanent for a recipe that cannot be
        right, and the error of an abort.
        """
        begin = time.monotonic()
        recipe_digest = digest_of({"build": _canonical(recipe), "toolchain": toolchain(recipe.environment)})
        cached = self.cache.find(source.sha, recipe_digest)
        if cached is not None:
            write(f"taken from the cache of this machine: {_listed(cached)}\n")
            return Build(side, source.sha, True, time.monotonic() - begin, cached, recipe_digest)
        try:
            artifacts = self.cache.store(source.sha, recipe_digest, self._built(source, recipe, write, control))
        except BuildFailed as error:
            write(f"build failed: {error}\n")
            return Build(side, source.sha, False, time.monotonic() - begin, {}, recipe_digest, str(error))
        seconds = time.monotonic() - begin
        write(f"built in {seconds:.1f} s: {_listed(artifacts)}\n")
        return Build(side, source.sha, False, seconds, artifacts, recipe_digest)

    def _built(self, source: Source, recipe: BuildRecipe, write: Write, control: Control) -> dict[str, Path]:
        tree = self._unpacked(source, control)
        command = recipe.command.replace("{cores}", str(len(self.cpus)))
        write(f"$ {command}\n")
        self._run(command, recipe, tree, write, control)
        return find_artifacts(tree, recipe.artifacts)

    def _unpacked(self, source: Source, control: Control) -> Path:
        """The commit's files in `build/source`: the same path each time, so that equal files give equal programs."""
        room = empty_directory(self.home / "build")
        tar, tree = room / "source.tar", empty_directory(room / "source")
        source.fetch(tar)
        argv = ["tar", "-x", "--no-same-owner", "-f", str(tar), "-C", str(tree)]
        output = room / "tar.output"
        with output.open("wb") as stream:
            child = self.processes.start(argv, {"PATH": BUILD_PATH, "LANG": "C.UTF-8"}, room, stream)
        try:
            status = child.wait(control, TAR_TIMEOUT_S)
        finally:
            child.end()
        if status != 0:
            said = output.read_text(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise Transient(f"the files of {source.sha} cannot be unpacked: {said[0]}")
        tar.unlink()
        return tree

    def _run(self, command: str, recipe: BuildRecipe, tree: Path, write: Write, control: Control) -> None:
        environment = self.environment(tree, recipe)
        log = Capped(write)
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        try:
            with os.fdopen(writing, "wb") as output:
                child = self.processes.start(["/bin/sh", "-c", command], environment, tree, output, cpus=self.cpus)
            try:
                status = follow(child, reading, recipe.timeout_s, log, control)
            finally:
                child.end()
                drain(reading, log)
                log.close()
        finally:
            os.close(reading)
        if status != 0:
            raise BuildFailed(f"`{command}` ended with {_how(status)}: the log says why")

    def environment(self, tree: Path, recipe: BuildRecipe) -> dict[str, str]:
        """What the build sees: nothing of the runner's own environment, and the same on every machine."""
        room = tree.parent
        home = empty_directory(room / "home")
        base = {
            "PATH": BUILD_PATH,
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "SOURCE_DATE_EPOCH": "0",
            "GIT_CEILING_DIRECTORIES": str(room),
        }
        environment = base | recipe.environment
        return environment | self._ccache(tree, environment["PATH"])

    def _ccache(self, tree: Path, path: str) -> dict[str, str]:
        """Variables that put ccache in front of every compiler on the path; none where it is not installed."""
        ccache = shutil.which("ccache", path=path)
        links = self.home / "compilers"
        shutil.rmtree(links, ignore_errors=True)
        if ccache is None:
            return {}
        links.mkdir()
        for name in COMPILERS:
            if shutil.which(name, path=path):
                (links / name).symlink_to(ccache)
        store = self.home / "ccache"
        store.mkdir(exist_ok=True)
        # A configuration of its own: the host's could name a remote cache, which somebody else fills.
        (store / "ccache.conf").write_text("max_size = 2G\n")
        return {
            "PATH": f"{links}:{path}",
            "CCACHE_DIR": str(store),
            "CCACHE_CONFIGPATH": str(store / "ccache.conf"),
            "CCACHE_BASEDIR": str(tree),
            "CCACHE_COMPILERCHECK": "content",
        }


class Capped:
    """Passes decoded output on until LOG_LIMIT_BYTES, then says so once."""

    def __init__(self, write: Write, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
        self._write, self._left, self._limit = write, limit_bytes, limit_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, output: bytes) -> None:
        if self._left < 0:
            return
        self._pass_on(self._decoder.decode(output[: self._left]))
        self._left -= len(output)
        if self._left < 0:
            self._write(f"\n[the log is cut here: the build printed more than {self._limit >> 20} MB]\n")

    def close(self) -> None:
        self._pass_on(self._decoder.decode(b"", True))

    def _pass_on(self, text: str) -> None:
        if text:
            self._write(text.replace("\0", "\N{REPLACEMENT CHARACTER}"))  # PostgreSQL stores no NUL


def follow(child: Child, reading: int, timeout_s: float, log: Capped, control: Control) -> int:
    """Reads a build's output until its first process has ended; returns the exit status.

    Raises BuildFailed at the timeout, Transient when the runner shuts down, the error of an abort.
    """
    deadline = boottime() + timeout_s
    open_ends = [reading]
    while (status := child.exited()) is None:
        if boottime() >= deadline:
            raise BuildFailed(f"the build was ended after its time limit of {timeout_s:g} s")
        if control.stopping.is_set():
            raise Transient("runner is shutting down")
        ready = control.wait_readable([child.pidfd, *open_ends], min(STOP_LOOK_S, deadline - boottime()))
        if reading in ready and take(reading, log) == b"":
            open_ends = []
    return status


def take(reading: int, log: Capped) -> bytes | None:
    """Moves what the pipe holds to the log and returns it; empty at its end, None if there is nothing yet."""
    try:
        output = os.read(reading, READ_BYTES)
    except BlockingIOError:
        return None
    log.feed(output)
    return output


def drain(reading: int, log: Capped) -> None:
    """Takes what is left in the pipe of a build all of whose processes have been ended."""
    while take(reading, log):
        pass


def find_artifacts(tree: Path, names: tuple[str, ...]) -> dict[str, Path]:
    """The built programs by file name. Raises BuildFailed for one that is not there, Permanent for a bad list."""
    if not names:
        raise Permanent("the build section lists no artifact")
    found = {Path(name).name: find_artifact(tree, name) for name in names}
    if len(found) != len(names):
        raise Permanent(f"two artifacts of the build section have the same file name: {', '.join(names)}")
    return found


def find_artifact(tree: Path, name: str) -> Path:
    """An executable regular file inside the tree, wherever links lead. Raises BuildFailed."""
    root = tree.resolve()
    try:
        path = (root / name).resolve(strict=True)
        state = path.stat()
    except (OSError, RuntimeError) as error:
        raise BuildFailed(f"the build left no artifact {name}") from error
    if not path.is_relative_to(root):
        raise BuildFailed(f"the artifact {name} lies outside the source tree")
    if not stat.S_ISREG(state.st_mode):
        raise BuildFailed(f"the artifact {name} is not a regular file")
    if not state.st_mode & 0o100:
        raise BuildFailed(f"the artifact {name} is not executable")
    return path


def toolchain(build_environment: dict[str, str]) -> dict[str, str]:
    """What, besides the recipe, decides what a build gives."""
    path = build_environment.get("PATH", BUILD_PATH)
    return {
        "compiler": compiler(build_environment),
        "libc": libc(),
        "make": first_line(["make", "--version"], path),
        "linker": first_line(["ld", "--version"], path),
        "architecture": platform.machine(),
    }


def _canonical(recipe: BuildRecipe) -> dict[str, object]:
    return {"command": recipe.command, "artifacts": list(recipe.artifacts), "environment": recipe.environment}


def _listed(artifacts: dict[str, Artifact]) -> str:
    return ", ".join(f"{name} {one.digest} ({one.size_bytes} bytes)" for name, one in artifacts.items())


def _how(status: int | None) -> str:
    return f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"
