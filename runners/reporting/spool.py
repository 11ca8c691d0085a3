"""Keeps calls on disk until the server has them, so that no crash or outage loses a measurement."""

import json
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.files import write_durably

log = logging.getLogger(__name__)

REJECTED_KEPT = 50  # refused calls that are kept for the operator; the oldest are removed first


@dataclass(frozen=True)
class SpooledCall:
    """A call that must reach the server: its path below the API, and its body."""

    file: Path
    path: str
    body: dict[str, Any]

    @property
    def call(self) -> str:
        """The last part of its path, such as `measurement`."""
        return self.path.rpartition("/")[2]


class Spool:
    """A directory of calls in order; each is on disk before it is sent."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._last = 0
        directory.mkdir(parents=True, exist_ok=True)
        for incomplete in directory.glob("*.tmp"):  # the runner was killed while it wrote this file
            incomplete.unlink()

    def put(self, path: str, body: dict[str, Any]) -> SpooledCall:
        """Stores a call on disk and returns it. Raises OSError, as when the disk is full."""
        file = self.directory / f"{self._number():020d}.json"
        write_durably(file, json.dumps({"path": path, "body": body}).encode())
        return SpooledCall(file, path, body)

    def waiting(self) -> list[SpooledCall]:
        """The calls that are not delivered yet, oldest first; a file that cannot be read is set aside."""
        entries = []
        for file in sorted(self.directory.glob("*.json")):
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
                entries.append(SpooledCall(file, str(content["path"]), dict(content["body"])))
            except (ValueError, KeyError, TypeError):
                log.error("spool: %s cannot be read and is set aside", file.name)
                self._set_aside(file)
        return entries

    def delivered(self, entry: SpooledCall) -> None:
        entry.file.unlink(missing_ok=True)

    def rejected(self, entry: SpooledCall) -> None:
        """Sets aside a call that the server has refused, so that the operator can read it."""
        self._set_aside(entry.file)

    def _set_aside(self, file: Path) -> None:
        file.rename(file.with_suffix(".rejected"))
        for old in sorted(self.directory.glob("*.rejected"))[:-REJECTED_KEPT]:
            old.unlink(missing_ok=True)

    def _number(self) -> int:
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            return self._last
