"""Finished results on disk, until the server has them: a crash or a cut loses nothing that was measured."""

import json
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.files import write_durably

log = logging.getLogger(__name__)

REJECTED_KEPT = 50  # refused documents kept for the operator; the oldest go first


@dataclass(frozen=True)
class Entry:
    """One call that must reach the server: its path under the API and its body."""

    file: Path
    path: str
    body: dict[str, Any]


class Spool:
    """A directory of calls in the order they were made; each is written durably before it is sent."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._last = 0
        directory.mkdir(parents=True, exist_ok=True)
        for torn in directory.glob("*.tmp"):  # its runner was killed while it wrote, so nobody counts on it
            torn.unlink()

    def put(self, path: str, body: dict[str, Any]) -> Entry:
        """Stores a call durably (write, fsync, rename) and returns it. Raises OSError when the disk is full."""
        file = self.directory / f"{self._number():020d}.json"
        write_durably(file, json.dumps({"path": path, "body": body}).encode())
        return Entry(file, path, body)

    def waiting(self) -> list[Entry]:
        """The calls not yet delivered, oldest first; a file that cannot be read is set aside."""
        entries = []
        for file in sorted(self.directory.glob("*.json")):
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
                entries.append(Entry(file, str(content["path"]), dict(content["body"])))
            except (ValueError, KeyError, TypeError):
                log.error("spool: %s cannot be read and is set aside", file.name)
                self._set_aside(file)
        return entries

    def delivered(self, entry: Entry) -> None:
        entry.file.unlink(missing_ok=True)

    def rejected(self, entry: Entry) -> None:
        """Sets a call aside that the server refuses for good, so that the operator can read it."""
        self._set_aside(entry.file)

    def _set_aside(self, file: Path) -> None:
        file.rename(file.with_suffix(".rejected"))
        for old in sorted(self.directory.glob("*.rejected"))[:-REJECTED_KEPT]:
            old.unlink(missing_ok=True)

    def _number(self) -> int:
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            return self._last
