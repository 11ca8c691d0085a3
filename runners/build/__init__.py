"""From a commit to the digest of its server program."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Write = Callable[[str], None]


class BuildFailed(Exception):
    """The commit does not build; one line that says why."""


@dataclass(frozen=True)
class Source:
    """How to get the files of a commit: writes its tar to the path it is given. `attempt`: for whom, as `run/token`."""

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
    """What ccache knew of a build: compilations it answered, and those it did not."""

    hits: int
    misses: int


@dataclass(frozen=True)
class Made:
    """The programs that a build left, by file name; `ccache` is None where there was none."""

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
                name: {"digest": one.digest, "bytes": one.size_bytes, "loaded_bytes": one.loaded_bytes}
                for name, one in self.artifacts.items()
            },
            "ccache": vars(self.ccache) if self.ccache else None,
            "recipe_digest": self.recipe_digest,
            "error": self.error,
        }
