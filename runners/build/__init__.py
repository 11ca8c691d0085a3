"""From a commit to the digest of its server program."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Artifact:
    """One built program in the artifact store."""

    digest: str
    size_bytes: int
    path: Path


@dataclass(frozen=True)
class Build:
    """One commit built one way; `error` is None exactly if it succeeded."""

    side: str
    sha: str
    cached: bool
    seconds: float
    artifacts: dict[str, Artifact]
    recipe_digest: str
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
                name: {"digest": one.digest, "bytes": one.size_bytes} for name, one in self.artifacts.items()
            },
            "recipe_digest": self.recipe_digest,
            "error": self.error,
        }
