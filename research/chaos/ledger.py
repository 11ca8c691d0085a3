"""What the installation was asked for and what it answered, kept outside of its database.

Each line is on the disk before it counts, so that rows which are lost can be missed.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ledger:
    """A file of one JSON object per line."""

    path: Path

    def note(self, kind: str, **facts: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"kind": kind, **facts}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self, kind: str) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        noted = map(json.loads, self.path.read_text().splitlines())
        return [line for line in noted if line["kind"] == kind]

    def accepted(self) -> Counter[str]:
        """How often each delivery was answered 200 or 202, by its id."""
        return Counter(line["delivery"] for line in self.lines("accepted"))

    def unanswered(self) -> int:
        """Deliveries that got another answer or none: the installation may have stored them all the same."""
        return len(self.lines("refused"))

    def ordered(self) -> dict[int, int]:
        """The number of runs by hand of each round whose planning was confirmed."""
        return {line["round"]: line["runs"] for line in self.lines("ordered")}
