"""The artifact store: built programs by the digest of their content, and the builds that gave them."""

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.build import Artifact
from runners.build.elf import loaded_bytes
from runners.files import write_durably, write_pieces_durably
from runners.foreign import UnusableFile, digest_of, open_regular, pieces, size_text
from runners.machine.environment import file_digest

log = logging.getLogger(__name__)

DAY_S = 86400
ARTIFACT_LIMIT_BYTES = 4 * 2**30


@dataclass(frozen=True)
class StoreLimits:
    """The limits of the store: bytes of artifacts, and seconds since a build was last used."""

    size_bytes: int = 4 * 2**30
    age_s: float = 90 * DAY_S


class ArtifactStore:
    """Artifacts are under `artifacts/sha256/aa/bb...`, build records under `builds/`, pinned digests in `pins`."""

    def __init__(self, home: Path, limits: StoreLimits = StoreLimits()) -> None:
        self.artifacts = home / "artifacts" / "sha256"
        self.records = home / "builds"
        self.pins = home / "pins"
        self.limits = limits
        self.artifacts.mkdir(parents=True, exist_ok=True)
        self.records.mkdir(parents=True, exist_ok=True)

    def find(self, sha: str, recipe_digest: str) -> dict[str, Artifact] | None:
        """The artifacts of an earlier build, each checked against its digest; None if not all of them are there."""
        try:
            content = json.loads(self._record(sha, recipe_digest).read_text())
            artifacts = self.all_of({name: str(digest) for name, digest in content["artifacts"].items()})
        except (OSError, ValueError, KeyError, AttributeError):
            return None
        os.utime(self._record(sha, recipe_digest))
        return artifacts

    def store(self, sha: str, recipe_digest: str, files: dict[str, Path]) -> dict[str, Artifact]:
        """Copies built programs into the store and records them.

        Raises UnusableFile for a file that is no program of a usual size, OSError when the disk is full.
        """
        artifacts = {name: self._add(file) for name, file in files.items()}
        content = {
            "sha": sha,
            "recipe_digest": recipe_digest,
            "artifacts": {name: artifact.digest for name, artifact in artifacts.items()},
        }
        write_durably(self._record(sha, recipe_digest), json.dumps(content).encode())
        return artifacts

    def artifact(self, digest: str) -> Artifact | None:
        """The artifact of this digest, checked against it; None if it is missing or damaged."""
        path = self._path(digest)
        if file_digest(path) != digest:
            log.warning("artifact %s is missing or damaged and is built again", digest)
            path.unlink(missing_ok=True)
            return None
        return artifact_at(digest, path)

    def all_of(self, digests: Mapping[str, str]) -> dict[str, Artifact] | None:
        """The artifacts of these digests (name -> digest), each checked; None if one is missing or damaged."""
        artifacts = {name: self.artifact(digest) for name, digest in digests.items()}
        return {name: artifact for name, artifact in artifacts.items() if artifact} if all(artifacts.values()) else None

    def pin_only(self, digests: Iterable[str]) -> None:
        """Exempts these artifacts from the limits, and no others from now on."""
        pins = set(digests)
        if self.pinned() != pins:
            write_durably(self.pins, "\n".join(sorted(pins)).encode())

    def pinned(self) -> set[str]:
        return set(self.pins.read_text().split()) if self.pins.exists() else set()

    def prune(self) -> None:
        """Drops builds that are too old, then the least recently used ones until the store is within its size."""
        records = sorted(self.records.glob("*.json"), key=lambda file: file.stat().st_mtime)
        oldest = time.time() - self.limits.age_s
        while records and (records[0].stat().st_mtime < oldest or self._size_bytes() > self.limits.size_bytes):
            records.pop(0).unlink(missing_ok=True)
            self._drop_unreferenced(records)

    def _record(self, sha: str, recipe_digest: str) -> Path:
        return self.records / (hashlib.sha256(f"{sha} {recipe_digest}".encode()).hexdigest() + ".json")

    def _path(self, digest: str) -> Path:
        hexadecimal = digest.removeprefix("sha256:")
        return self.artifacts / hexadecimal[:2] / hexadecimal[2:]

    def _add(self, file: Path) -> Artifact:
        with open_regular(file) as stream:
            if os.fstat(stream.fileno()).st_size > ARTIFACT_LIMIT_BYTES:
                raise UnusableFile(f"the artifact {file.name} is larger than {size_text(ARTIFACT_LIMIT_BYTES)}")
            digest = digest_of(pieces(stream))
            path = self._path(digest)
            if file_digest(path) != digest:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_pieces_durably(path, pieces(stream), 0o555)
                if file_digest(path) != digest:
                    raise UnusableFile(f"the artifact {file.name} changes after the end of its build")
        return artifact_at(digest, path)

    def _size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.artifacts.glob("*/*"))

    def _drop_unreferenced(self, records: list[Path]) -> None:
        digests = {digest for record in records for digest in json.loads(record.read_text())["artifacts"].values()}
        needed = {self._path(digest) for digest in digests | self.pinned()}
        for file in self.artifacts.glob("*/*"):
            if file not in needed:
                file.unlink(missing_ok=True)


def artifact_at(digest: str, path: Path) -> Artifact:
    return Artifact(digest, path.stat().st_size, loaded_bytes(path), path)
