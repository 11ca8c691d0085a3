"""The results of a run of the evaluation, one file per piece, so that it can be interrupted and resumed."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Piece = TypeVar("Piece")


class Store:
    """Pieces by name in a folder of this evaluation's own. A piece is there whole or not at all."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if not resume:
            for file in folder.glob("*.pickle"):
                file.unlink()

    def file(self, name: str) -> Path:
        return self.folder / f"{re.sub(r'[^A-Za-z0-9.]+', '-', name)}.pickle"

    def has(self, name: str) -> bool:
        return self.file(name).exists()

    def get(self, name: str) -> Any:
        """The piece of this name; None if there is none."""
        return pickle.loads(self.file(name).read_bytes()) if self.has(name) else None  # noqa: S301  (its own files)

    def put(self, name: str, piece: object) -> None:
        file = self.file(name)
        temporary = file.with_suffix(".part")
        temporary.write_bytes(pickle.dumps(piece))
        temporary.replace(file)

    def made(self, name: str, make: Callable[[], Piece]) -> Piece:
        """The piece of this name, made now if there is none."""
        if not self.has(name):
            self.put(name, make())
        piece: Piece = self.get(name)
        return piece
