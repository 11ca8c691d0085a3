"""Builds a commit, on the host or in Docker, and stores its programs by their digest."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WriteLog = Callable[[str], None]


class BuildFailed(Exception):
    """The commit does not build; the text is one line with the cause."""


@dataclass(frozen=True)
class CommitSource:
    """A commit; `fetch` writes its files as a tar to a path.

    `attempt`: the number of the run and its lease token, as `run/token`.
    """

    sha: str
    fetch: Callable[[Path], None]
    attempt: str = "0/0"


@dataclass(frozen=True)
class Artifact:
    """One built program in the artifact store. `loaded_bytes`: its code and data without debug information."""

    digest: str
    size_bytes: int
    loaded_bytes: int
    path: Path


@dataclass(frozen=True)
class CompilerCache:
    """How many compilations of a build ccache had, and how many it had not."""

    hits: int
    misses: int


@dataclass(frozen=True)
class BuiltPrograms:
    """The programs of a build by file name; `ccache` is None if it was not used."""

    programs: dict[str, Path]
    ccache: CompilerCache | None


@dataclass(frozen=True)
class Build:
    """One commit built one way; `error` is None exactly if it succeeded."""

    side: str
    sha: str
    cached: bool
    seconds: float
    recipe_digest: str
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    ccache: CompilerCache | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.error is None

    def document(self) -> dict[str, Any]:
        """The build as docs/result-format.md describes it."""
        return {
            "side": self.side,
            "sha": self.sha,
            "succeeded": self.succeeded,
            "cached": self.cached,
            "seconds": round(self.seconds, 3),
            "artifacts": {
                name: {"digest": artifact.digest, "bytes": artifact.size_bytes, "loaded_bytes": artifact.loaded_bytes}
                for name, artifact in self.artifacts.items()
            },
            "ccache": vars(self.ccache) if self.ccache else None,
            "recipe_digest": self.recipe_digest,
            "error": self.error,
        }
