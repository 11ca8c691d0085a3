"""Builds a commit on this host: in a fresh tree at a constant path, with a fixed environment and a time limit."""

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from runners.build import BuiltPrograms, CommitSource, WriteLog
from runners.build.builders import Toolchain
from runners.build.output import (
    COMPILERS,
    STATISTICS,
    BuildDeadline,
    check_success,
    compiler_cache,
    find_artifacts,
    run_logged,
)
from runners.documents import BuildRecipe
from runners.errors import Transient
from runners.foreign import last_lines
from runners.machine.environment import BUILD_PATH, compiler, libc, version_line
from runners.processes.children import ChildCommand, Processes
from runners.processes.control import Control
from runners.removal import empty_directory, remove
from runners.sandbox.policy import SandboxView

TAR_TIMEOUT_S = 300.0
FILE_LIMIT_BYTES = 16 * 2**30
# $0: the build's command, $1: blocks of 512 bytes. Core dumps are off and the size of each file is limited; memory,
# processes and the disk as a whole are limited in containers only.
BOUNDED = 'ulimit -c 0; ulimit -f "$1"; exec /bin/sh -c "$0"'
CACHE, CACHE_SETTINGS, COMPILER_LINKS = "ccache", "ccache.conf", "compilers"  # in the runner's home


@dataclass(frozen=True)
class HostBuilder:
    """Builds with the tools of this host, on all CPUs that the runner may use."""

    home: Path
    processes: Processes
    cpus: frozenset[int]

    def toolchain(self, recipe: BuildRecipe, write: WriteLog, control: Control) -> Toolchain:
        path = recipe.environment.get("PATH", BUILD_PATH)
        return Toolchain(
            compiler=compiler(recipe.environment),
            libc=libc(),
            architecture=platform.machine(),
            make=version_line(["make", "--version"], path),
            linker=version_line(["ld", "--version"], path),
        )

    def make(
        self, source: CommitSource, recipe: BuildRecipe, toolchain: Toolchain, write: WriteLog, control: Control
    ) -> BuiltPrograms:
        tree = self._unpack(source, control)
        command = recipe.command.replace("{cores}", str(len(self.cpus)))
        write(f"$ {command}\n")
        self._run(command, recipe, tree, write, control)
        return BuiltPrograms(find_artifacts(tree, recipe.artifacts), compiler_cache(tree.parent / STATISTICS))

    def clean(self) -> str:
        return remove(self.home / "build")

    def _unpack(self, source: CommitSource, control: Control) -> Path:
        """The commit's files in `build/source`: always the same path, so that equal files give equal programs."""
        room = empty_directory(self.home / "build")
        tar, tree = room / "source.tar", empty_directory(room / "source")
        source.fetch(tar)
        argv = ["tar", "-x", "--no-same-owner", "-f", str(tar), "-C", str(tree)]
        output = room / "tar.output"
        view = SandboxView(room / "tmp", (tree,), (tar,))
        command = ChildCommand(argv, {"PATH": BUILD_PATH, "LANG": "C.UTF-8"}, room, view=view)
        with output.open("wb") as stream:
            status = self.processes.run(command, control, TAR_TIMEOUT_S, stream)
        if status != 0:
            lines = last_lines(output, 1) or ["no message"]
            raise Transient(f"the files of {source.sha} cannot be unpacked: {lines[-1]}")
        tar.unlink()
        return tree

    def _run(self, command: str, recipe: BuildRecipe, tree: Path, write: WriteLog, control: Control) -> None:
        argv = ["/bin/sh", "-c", BOUNDED, command, str(FILE_LIMIT_BYTES // 512)]
        environment = self.environment(tree, recipe)
        build = ChildCommand(argv, environment, tree, self.cpus, view=self.view(tree, recipe))
        status = run_logged(self.processes, build, BuildDeadline(recipe.timeout_s, control), write)
        check_success(command, status)

    def view(self, tree: Path, recipe: BuildRecipe) -> SandboxView:
        """The view of a build in a sandbox: it may write to its own directory and to the ccache of its trust level."""
        store, readable = self.home / CACHE / recipe.trust, (self.home / COMPILER_LINKS, self.home / CACHE_SETTINGS)
        return SandboxView(tree.parent / "tmp", (tree.parent, *([store] if store.exists() else [])), readable)

    def environment(self, tree: Path, recipe: BuildRecipe) -> dict[str, str]:
        """The variables of the build: none of the runner's own environment, and the same on every machine."""
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

        Whoever writes to a cache determines what its next readers build, so each trust level has its own.
        """
        ccache = shutil.which("ccache", path=path)
        links = self.home / COMPILER_LINKS
        empty_directory(links)
        if ccache is None:
            return {}
        for name in COMPILERS:
            if shutil.which(name, path=path):
                (links / name).symlink_to(ccache)
        store = self.home / CACHE / trust
        store.mkdir(parents=True, exist_ok=True)
        # The host's configuration is not used: it could name a remote cache, which others fill. Ours is not kept in the
        # cache, where a build could replace it by a link.
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
