"""Readers of the files of other tools: bytes in, results out; no Django, no clock, no I/O.

A reader only translates. Its results are checked like any other result from outside (``document.OutsidePoint``), so it
need not check names, values or dates; but it either returns results or raises ReadError for any bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

Word = str | int | float | bool


class ReadError(Exception):
    """The file cannot be read. The message has the position (line, or JSON pointer), the fault and the remedy."""

    def __init__(self, cause: str, position: str = "", remedy: str = "") -> None:
        self.cause, self.place, self.remedy = cause, position, remedy
        super().__init__(": ".join(filter(None, (position, cause, remedy))))


@dataclass(frozen=True)
class Options:
    """The caller's values for facts that the file does not state.

    ``name``: of the file. ``given``: further options of one reader, by their names.
    """

    commit: str = ""
    machine: str = ""
    environment: Mapping[str, Word] = field(default_factory=dict)
    measured_at: datetime | None = None
    name: str = ""
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OutsideResult:
    """One metric of one benchmark at one commit. The caller's options fill empty fields.

    Either ``samples``, the raw repeats, or a ``value`` with perhaps the ends of its 95% interval and a count.
    ``better``: ``higher`` or ``lower``. ``commit``: an id, perhaps abbreviated, or a branch or tag. ``id``:
    distinguishes several results of one series at one commit, if nothing else does.
    """

    benchmark: str
    metric: str
    unit: str
    better: str
    samples: Sequence[float] = ()
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    parameters: Mapping[str, Word] = field(default_factory=dict)
    commit: str = ""
    machine: str = ""
    environment: Mapping[str, Word] = field(default_factory=dict)
    measured_at: datetime | None = None
    id: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    url: str = ""


class Reader(Protocol):
    """The reader of one format. ``name``: what ``--format`` calls it. ``title``: the tool, as people know it."""

    name: str
    title: str

    def sniff(self, content: bytes, name: str) -> bool:
        """Return whether this is a file of the format, judged by its beginning and its name."""

    def read(self, content: bytes, options: Options) -> list[OutsideResult]:
        """The results in a file. Raises ReadError."""
