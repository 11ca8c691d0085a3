"""The builders by kind, behind the artifact store: a commit that was built before is not built again."""

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runners.build import Artifact, Build, BuildFailed, BuiltPrograms, CommitSource, WriteLog
from runners.build.store import ArtifactStore
from runners.documents import BuildRecipe, digest_of
from runners.foreign import UnusableFile
from runners.processes.control import Control


@dataclass(frozen=True)
class Toolchain:
    """The tools that determine a build, in addition to its recipe. `image`: the digest of the image that it runs in."""

    compiler: str
    libc: str
    architecture: str
    image: str = "none"
    make: str = ""
    linker: str = ""

    @property
    def series(self) -> dict[str, str]:
        """The facts of the environment that the build contributes."""
        return {"compiler": self.compiler, "build_libc": self.libc, "build_image": self.image}


class Builder(Protocol):
    """One kind of build. Raises Transient if another attempt may succeed, else Permanent, or the error of an abort."""

    def toolchain(self, recipe: BuildRecipe, write: WriteLog, control: Control) -> Toolchain:
        """The tools that a build of this recipe uses."""

    def make(
        self, source: CommitSource, recipe: BuildRecipe, toolchain: Toolchain, write: WriteLog, control: Control
    ) -> BuiltPrograms:
        """Builds the commit with the result of `toolchain`. Raises BuildFailed and UnusableFile as well."""

    def clean(self) -> str:
        """Removes the directory of the build; returns why something is left, or an empty text. Raises OSError."""


@dataclass(frozen=True)
class CachedBuilder:
    """The builders of a runner by kind, and the store of their artifacts."""

    store: ArtifactStore
    builders: Mapping[str, Builder]

    def toolchain(self, recipe: BuildRecipe, write: WriteLog, control: Control) -> Toolchain:
        return self.builders[recipe.kind].toolchain(recipe, write, control)

    def build(self, side: str, source: CommitSource, recipe: BuildRecipe, write: WriteLog, control: Control) -> Build:
        """The build of a commit, taken from the store if it was built in the same way before. Raises as `Builder`."""
        begin = time.monotonic()
        toolchain = self.toolchain(recipe, write, control)
        digest = digest_of({"build": recipe_identity(recipe), "toolchain": vars(toolchain)})
        cached = self.store.find(source.sha, digest)
        if cached is not None:
            write(f"taken from the cache of this machine: {artifact_list(cached)}\n")
            return Build(side, source.sha, True, time.monotonic() - begin, digest, cached)
        begin = time.monotonic()
        builder = self.builders[recipe.kind]
        try:
            output = builder.make(source, recipe, toolchain, write, control)
            seconds = time.monotonic() - begin
            artifacts = self.store.store(source.sha, digest, output.programs)
            failure = builder.clean()
        except (BuildFailed, UnusableFile) as error:
            failure = "; ".join(filter(None, (str(error), builder.clean())))
        if failure:
            write(f"build failed: {failure}\n")
            return Build(side, source.sha, False, time.monotonic() - begin, digest, error=failure)
        write(f"built in {seconds:.1f} s: {artifact_list(artifacts)}\n")
        return Build(side, source.sha, False, seconds, digest, artifacts, output.ccache)

    def link(
        self, kept: Artifact, recipe: BuildRecipe, room: Path, attempt: str, write: WriteLog, control: Control
    ) -> dict[str, Path]:
        """The artifacts of a build whose source is a stored tar, by name, in the directory `room`. Raises as `make`."""
        builder = self.builders[recipe.kind]

        def fetch(file: Path) -> None:
            shutil.copyfile(kept.path, file)

        source = CommitSource(kept.digest, fetch, attempt)
        try:
            programs = builder.make(source, recipe, self.toolchain(recipe, write, control), write, control).programs
            for name, file in programs.items():
                os.replace(file, room / name)
        finally:
            builder.clean()
        return {name: room / name for name in programs}


def recipe_identity(recipe: BuildRecipe) -> dict[str, object]:
    """The part of a recipe that determines the artifacts. The toolchain names the image."""
    return {"command": recipe.command, "artifacts": list(recipe.artifacts), "environment": recipe.environment}


def artifact_list(artifacts: dict[str, Artifact]) -> str:
    return ", ".join(f"{name} {artifact.digest} ({artifact.size_bytes} bytes)" for name, artifact in artifacts.items())
