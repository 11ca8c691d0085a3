"""Builds a commit on this host: a fresh tree at a constant path, a fixed environment, a bounded time, one log."""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from runners.build import BuildFailed, Made, Source, Write
from runners.build.cache import empty_directory
from runners.build.output import COMPILERS, Capped, Patience, compiler_cache, drain, find_artifacts, follow, how
from runners.build.workshop import Toolchain
from runners.documents import BuildRecipe
from runners.errors import Transient
from runners.machine.environment import BUILD_PATH, compiler, first_line, libc
from runners.processes.children import Processes
from runners.processes.control import Control
from runners.sandbox.policy import View

TAR_TIMEOUT_S = 300.0
FILE_LIMIT_BYTES = 16 * 2**30
# $0: the build's command, $1: blocks of 512 bytes. No core dump, no file without end. Memory, processes and the disk
# as a whole are bounded in containers only.
BOUNDED = 'ulimit -c 0; ulimit -f "$1"; exec /bin/sh -c "$0"'
CACHE, CACHE_SETTINGS, COMPILER_LINKS = "ccache", "ccache.conf", "compilers"  # in the runner's home
STATISTICS = "ccache.statistics"


@dataclass(frozen=True)
class HostBuilder:
    """Builds with the tools of this host, on all CPUs the runner was given."""

    home: Path
    processes: Processes
    cpus: frozenset[int]

    def toolchain(self, recipe: BuildRecipe, write: Write, control: Control) -> Toolchain:
        path = recipe.environment.get("PATH", BUILD_PATH)
        return Toolchain(
            compiler=compiler(recipe.environment),
            libc=libc(),
            architecture=platform.machine(),
            make=first_line(["make", "--version"], path),
            linker=first_line(["ld", "--version"], path),
        )

    def make(self, source: Source, recipe: BuildRecipe, toolchain: Toolchain, write: Write, control: Control) -> Made:
        tree = self._unpacked(source, control)
        command = recipe.command.replace("{cores}", str(len(self.cpus)))
        write(f"$ {command}\n")
        self._run(command, recipe, tree, write, control)
        return Made(find_artifacts(tree, recipe.artifacts), compiler_cache(tree.parent / STATISTICS))

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
                argv = ["/bin/sh", "-c", BOUNDED, command, str(FILE_LIMIT_BYTES // 512)]
                child = self.processes.start(
                    argv, environment, tree, output, cpus=self.cpus, view=self.view(tree, recipe)
                )
            try:
                status = follow(child, reading, Patience(recipe.timeout_s, control), log)
            finally:
                child.end()
                drain(reading, log)
                log.close()
        finally:
            os.close(reading)
        if status != 0:
            raise BuildFailed(f"`{command}` ended with {how(status)}: the log says why")

    def view(self, tree: Path, recipe: BuildRecipe) -> View:
        """What a build in a sandbox may use: it writes its own directory and the store of its trust level."""
        store, rest = self.home / CACHE / recipe.trust, (self.home / COMPILER_LINKS, self.home / CACHE_SETTINGS)
        return View(tree.parent / "tmp", (tree.parent, *([store] if store.exists() else [])), rest)

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
        return environment | self._ccache(tree, environment["PATH"], recipe.trust)

    def _ccache(self, tree: Path, path: str, trust: str) -> dict[str, str]:
        """Variables that put ccache in front of every compiler on the path; none where it is not installed.

        Who can write a store decides what its next readers build: each trust level has one of its own.
        """
        ccache = shutil.which("ccache", path=path)
        links = self.home / COMPILER_LINKS
        shutil.rmtree(links, ignore_errors=True)
        if ccache is None:
            return {}
        links.mkdir()
        for name in COMPILERS:
            if shutil.which(name, path=path):
                (links / name).symlink_to(ccache)
        store = self.home / CACHE / trust
        store.mkdir(parents=True, exist_ok=True)
        # A configuration of its own: the host's could name a remote cache, which somebody else fills. Not in the store:
        # there a build could put a link in its place.
        settings = self.home / CACHE_SETTINGS
        settings.write_text("max_size = 2G\n")
        return {
            "PATH": f"{links}:{path}",
            "CCACHE_DIR": str(store),
            "CCACHE_CONFIGPATH": str(settings),
            "CCACHE_BASEDIR": str(tree),
            "CCACHE_COMPILERCHECK": "content",
            "CCACHE_STATSLOG": str(tree.parent / STATISTICS),
        }
