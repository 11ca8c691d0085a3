"""Built programs by the digest of their content, and which commit built which way gave them."""

import hashlib
import json
import logging
import os
import shutil
from pathlib import Path

from runners.build import Artifact
from runners.environment import file_digest
from runners.spool import sync_directory

log = logging.getLogger(__name__)

LIMIT_BYTES = 4 * 2**30


class Cache:
    """Artifacts under `artifacts/sha256/aa/bb...`, build records under `builds/`."""

    def __init__(self, home: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.artifacts = home / "artifacts" / "sha256"
        self.records = home / "builds"
        self.limit_bytes = limit_bytes
        self.artifacts.mkdir(parents=True, exist_ok=True)
        self.records.mkdir(parents=True, exist_ok=True)

    def find(self, sha: str, recipe_digest: str) -> dict[str, Artifact] | None:
        """The artifacts of an earlier build, each checked against its digest; None: build it."""
        try:
            content = json.loads(self._record(sha, recipe_digest).read_text())
            found = {name: self._artifact(str(digest)) for name, digest in content["artifacts"].items()}
        except (OSError, ValueError, KeyError, AttributeError):
            return None
        os.utime(self._record(sha, recipe_digest))
        return {name: one for name, one in found.items() if one} if all(found.values()) else None

    def store(self, sha: str, recipe_digest: str, files: dict[str, Path]) -> dict[str, Artifact]:
        """Copies built programs into the store and records them. Raises OSError when the disk is full."""
        stored = {name: self._add(file) for name, file in files.items()}
        content = {
            "sha": sha,
            "recipe_digest": recipe_digest,
            "artifacts": {name: one.digest for name, one in stored.items()},
        }
        _write_durably(self._record(sha, recipe_digest), json.dumps(content).encode())
        return stored

    def prune(self) -> None:
        """Drops the builds used longest ago until the store fits its limit."""
        records = sorted(self.records.glob("*.json"), key=lambda file: file.stat().st_mtime)
        while records and self._size_bytes() > self.limit_bytes:
            records.pop(0).unlink(missing_ok=True)
            self._drop_unreferenced(records)

    def _record(self, sha: str, recipe_digest: str) -> Path:
        return self.records / (hashlib.sha256(f"{sha} {recipe_digest}".encode()).hexdigest() + ".json")

    def _path(self, digest: str) -> Path:
        hexadecimal = digest.removeprefix("sha256:")
        return self.artifacts / hexadecimal[:2] / hexadecimal[2:]

    def _artifact(self, digest: str) -> Artifact | None:
        path = self._path(digest)
        if file_digest(path) != digest:
            log.warning("artifact %s is missing or damaged and is built again", digest)
            path.unlink(missing_ok=True)
            return None
        return Artifact(digest, path.stat().st_size, path)

    def _add(self, file: Path) -> Artifact:
        digest = file_digest(file)
        path = self._path(digest)
        if file_digest(path) != digest:
            _write_durably(path, file.read_bytes(), mode=0o555)
        return Artifact(digest, path.stat().st_size, path)

    def _size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.artifacts.glob("*/*"))

    def _drop_unreferenced(self, records: list[Path]) -> None:
        used = {digest for record in records for digest in json.loads(record.read_text())["artifacts"].values()}
        kept = {self._path(digest) for digest in used}
        for file in self.artifacts.glob("*/*"):
            if file not in kept:
                file.unlink(missing_ok=True)


def empty_directory(path: Path) -> Path:
    """A fresh, empty directory at this path. Raises OSError."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def _write_durably(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.chmod(mode)
    temporary.rename(path)
    sync_directory(path.parent)
