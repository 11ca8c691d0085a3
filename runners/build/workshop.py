"""A build as a run sees it, whoever does it: from the cache, or made and stored; a failed one has its error set."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from runners.build import Artifact, Build, BuildFailed, Made, Source, Write
from runners.build.cache import Cache
from runners.documents import BuildRecipe, digest_of
from runners.processes.control import Control


@dataclass(frozen=True)
class Toolchain:
    """What, besides the recipe, decides what a build gives. `image`: the digest of the image it is made in."""

    compiler: str
    libc: str
    architecture: str
    image: str = "none"
    make: str = ""
    linker: str = ""

    @property
    def series(self) -> dict[str, str]:
        """The facts of the environment that come from the build."""
        return {"compiler": self.compiler, "build_libc": self.libc, "build_image": self.image}


class Builder(Protocol):
    """One kind of build. Raises Transient if another try may succeed, else Permanent, or the error of an abort."""

    def toolchain(self, recipe: BuildRecipe, write: Write, control: Control) -> Toolchain:
        """What a build by this recipe is made with."""

    def make(self, source: Source, recipe: BuildRecipe, toolchain: Toolchain, write: Write, control: Control) -> Made:
        """Builds the commit with what `toolchain` said. Raises BuildFailed besides."""


@dataclass(frozen=True)
class Workshop:
    """The builders of a runner by kind, and the one store of what they made."""

    cache: Cache
    builders: Mapping[str, Builder]

    def toolchain(self, recipe: BuildRecipe, write: Write, control: Control) -> Toolchain:
        return self.builders[recipe.kind].toolchain(recipe, write, control)

    def build(self, side: str, source: Source, recipe: BuildRecipe, write: Write, control: Control) -> Build:
        """The build of a commit, from the cache if it was built this way before; see Builder for what is raised."""
        begin = time.monotonic()
        toolchain = self.toolchain(recipe, write, control)
        digest = digest_of({"build": canonical(recipe), "toolchain": vars(toolchain)})
        cached = self.cache.find(source.sha, digest)
        if cached is not None:
            write(f"taken from the cache of this machine: {listed(cached)}\n")
            return Build(side, source.sha, True, time.monotonic() - begin, digest, cached)
        begin = time.monotonic()
        try:
            made = self.builders[recipe.kind].make(source, recipe, toolchain, write, control)
        except BuildFailed as error:
            write(f"build failed: {error}\n")
            return Build(side, source.sha, False, time.monotonic() - begin, digest, error=str(error))
        seconds = time.monotonic() - begin
        artifacts = self.cache.store(source.sha, digest, made.programs)
        write(f"built in {seconds:.1f} s: {listed(artifacts)}\n")
        return Build(side, source.sha, False, seconds, digest, artifacts, made.ccache)


def canonical(recipe: BuildRecipe) -> dict[str, object]:
    """What of a recipe decides what it gives. The image is named by the toolchain."""
    return {"command": recipe.command, "artifacts": list(recipe.artifacts), "environment": recipe.environment}


def listed(artifacts: dict[str, Artifact]) -> str:
    return ", ".join(f"{name} {one.digest} ({one.size_bytes} bytes)" for name, one in artifacts.items())
