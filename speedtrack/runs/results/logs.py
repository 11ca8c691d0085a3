"""Read the log of a run by lines, and no more of it than is needed.

Lines are numbered from 1 over all attempts of the run. A log only grows at its end, so a line keeps its number as long
as the log is kept. PostgreSQL counts the lines of each piece (``LogChunk``).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import F, Func, IntegerField

from speedtrack.ground.texts.ansi import spans
from speedtrack.ground.texts.text import plain
from speedtrack.runs.models import LogChunk

LINES = 500  # that are read at once
READ_BYTES = 1024 * 1024  # of pieces that are read at once, if there are several
LINE_CHARACTERS = 2000  # that are shown of a line
LINE_BYTES = 4 * LINE_CHARACTERS
FULL_SHA = re.compile(r"\b[0-9a-f]{40}\b")
NEW_PIECES = 100  # that one call adds to an index
MATCHES = 200  # that are found at once
SEARCHED_BYTES = 8 * 1024 * 1024  # that are searched at once
SEARCHED_PIECES = 32  # that are in memory meanwhile
LONGEST_NEEDLE = 200
AROUND = 100  # characters that are shown before and behind a match
# The next pieces of several logs, each after the last piece that is known.
COME = """
    SELECT c.id, a.run_id, a.id, a.number, c.seq, c.phase, c.at, c.newlines, c.unended, octet_length(c.text)
      FROM unnest(%s::bigint[], %s::bigint[], %s::int[]) AS known (run_id, attempt_id, seq)
      JOIN runs_attempt a ON a.run_id = known.run_id AND a.id >= known.attempt_id
      CROSS JOIN LATERAL (
        SELECT * FROM runs_logchunk
         WHERE attempt_id = a.id AND seq > CASE WHEN a.id = known.attempt_id THEN known.seq ELSE -1 END AND text <> ''
      ORDER BY seq LIMIT %s) c
  ORDER BY a.id, c.seq
"""


class Piece(NamedTuple):
    """A chunk of a log without its text."""

    pk: int
    run: int
    attempt_id: int
    number: int
    seq: int
    phase: str
    at: datetime
    newlines: int
    unended: bool
    size: int


@dataclass
class LogStretch:
    """Successive lines of one phase of one attempt. ``number``: the number of the attempt."""

    number: int
    phase: str
    first: int
    began: datetime
    ended: datetime
    last: int = 0

    @property
    def title(self) -> str:
        """The phase for people, with short ids of commits."""
        return FULL_SHA.sub(lambda match: match[0][:12], plain(self.phase))

    @property
    def seconds(self) -> float:
        return (self.ended - self.began).total_seconds()

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class StoredLine(NamedTuple):
    """A line of a log, unchanged but for its length. ``cut``: its end is missing."""

    number: int
    text: str
    cut: bool


class Match(NamedTuple):
    """A line with the text that was searched for: what precedes the text, the text as found, and what follows it."""

    number: int
    before: str
    found: str
    after: str


@dataclass
class LogIndex:
    """Which piece of a run's log holds which lines."""

    pieces: list[Piece] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)  #: of each piece: the line that it begins in, or with
    lasts: list[int] = field(default_factory=list)  #: of each piece: the line that follows its last line feed
    stretches: list[LogStretch] = field(default_factory=list)
    complete_lines: int = 0  #: without the last one if it may still grow

    @property
    def total(self) -> int:
        """The number of lines; the last one may still grow."""
        return self.stretches[-1].last if self.stretches else 0

    def add(self, piece: Piece) -> None:
        """Add the next piece, which is not empty."""
        before = self.stretches[-1] if self.stretches else None
        if before is None or (before.number, before.phase) != (piece.number, piece.phase):
            self.complete_lines = self.total  # a phase begins on a line of its own
            before = LogStretch(piece.number, piece.phase, self.complete_lines + 1, piece.at, piece.at)
            self.stretches.append(before)
        self.pieces.append(piece)
        self.firsts.append(self.complete_lines + 1)
        self.complete_lines += piece.newlines
        self.lasts.append(self.complete_lines + 1)
        before.last, before.ended = self.complete_lines + piece.unended, piece.at

    def stretch_of(self, line: int) -> LogStretch:
        """The stretch that contains this line. The line must exist."""
        return self.stretches[bisect_right(self.stretches, line, key=lambda stretch: stretch.first) - 1]

    def overlapping(self, first: int, end: int) -> Iterator[Piece]:
        """The pieces with the lines from ``first`` to before ``end``, without the middle of very long lines."""
        under_way = 0  # bytes of a line that began in an earlier piece
        for index in range(bisect_left(self.lasts, first), len(self.pieces)):
            piece = self.pieces[index]
            if self.firsts[index] >= end:
                return
            if piece.newlines or under_way < LINE_BYTES:
                yield piece
            under_way = under_way + piece.size if not piece.newlines else 0

    def start_before(self, end: int) -> int:
        """The first line to read when showing the lines before ``end``, within the limits of one read."""
        count = min(LINES, end - 1)
        while count > 1 and self.cost(end - count, end) > READ_BYTES:
            count //= 2
        return max(1, end - count)

    def end_after(self, first: int) -> int:
        """The line after the last one to read when showing the lines from ``first`` on, within the limits."""
        count = min(LINES, self.total + 1 - first)
        while count > 1 and self.cost(first, first + count) > READ_BYTES:
            count //= 2
        return first + max(0, count)

    def cost(self, first: int, end: int) -> int:
        """The total size, in bytes, of the pieces that hold the lines from ``first`` to before ``end``."""
        return sum(piece.size for piece in self.overlapping(first, end))


def index_of(run_id: int) -> LogIndex:
    """The index of a run's whole log."""
    size = Func(F("text"), function="octet_length", output_field=IntegerField())
    chunks = LogChunk.objects.filter(attempt__run=run_id).exclude(text="").order_by("attempt_id", "seq")
    chunks = chunks.annotate(run=F("attempt__run_id"), number=F("attempt__number"), size=size)
    index = LogIndex()
    for row in chunks.values_list(*Piece._fields):
        index.add(Piece._make(row))
    return index


def extend(indexes: Mapping[int, LogIndex]) -> set[int]:
    """Add new pieces to the indexes of several runs (run id -> index), with one statement.

    Return the ids of runs that had any.
    """
    if not indexes:
        return set()
    ends = {run: index.pieces[-1] if index.pieces else None for run, index in indexes.items()}
    positions = [(run, end.attempt_id if end else 0, end.seq if end else -1) for run, end in ends.items()]
    with connection.cursor() as cursor:
        cursor.execute(COME, [*map(list, zip(*positions, strict=True)), NEW_PIECES])
        come = [Piece._make(row) for row in cursor]
    for piece in come:
        indexes[piece.run].add(piece)
    return {piece.run for piece in come}


def read(index: LogIndex, first: int, end: int) -> list[StoredLine]:
    """The lines from ``first`` to before ``end``; fewer if the log has fewer, or was deleted meanwhile."""
    pieces = list(index.overlapping(first, end))
    texts = dict(LogChunk.objects.filter(pk__in=[piece.pk for piece in pieces]).values_list("pk", "text"))
    begins = {piece.pk: line for piece, line in zip(index.pieces, index.firsts, strict=True)}
    texts_by_number: dict[int, str] = {}
    for piece in pieces:
        *lines, last_line = texts.get(piece.pk, "").split("\n")
        for number, text in enumerate([*lines, last_line] if last_line else lines, begins[piece.pk]):
            if first <= number < end:
                texts_by_number[number] = (
                    texts_by_number.get(number, "")[: LINE_CHARACTERS + 1] + text[: LINE_CHARACTERS + 1]
                )
    return [
        StoredLine(number, text[:LINE_CHARACTERS], len(text) > LINE_CHARACTERS)
        for number, text in sorted(texts_by_number.items())
    ]


def tail(run_id: int, count: int) -> tuple[list[StoredLine], int]:
    """The last ``count`` lines of a run's log, and the number of lines that the log has."""
    index = index_of(run_id)
    end = index.total + 1
    return read(index, max(index.start_before(end), end - count), end), index.total


def document(index: LogIndex, lines: list[StoredLine]) -> dict[str, Any]:
    """Lines as JSON for the browser, with the stretches that they belong to."""
    stretches = []
    if lines:
        begin, end = (index.stretches.index(index.stretch_of(line.number)) for line in (lines[0], lines[-1]))
        stretches = index.stretches[begin : end + 1]
    return {
        "total": index.total,
        "phases": [
            {
                "attempt": stretch.number,
                "phase": stretch.title,
                "first": stretch.first,
                "last": stretch.last,
                "seconds": round(stretch.seconds, 1),
            }
            for stretch in stretches
        ],
        "lines": [[line.number, spans(line.text), line.cut] for line in lines],
    }


def search(index: LogIndex, needle: str, first: int = 1) -> tuple[list[Match], int | None]:
    """Lines from ``first`` on that contain a text, ignoring case and colours; and the line at which to continue.

    One call ends after MATCHES lines or SEARCHED_BYTES. The second value is None at the end of the log.
    """
    folded = needle[:LONGEST_NEEDLE].casefold()
    matching: list[Match] = []
    line_end, searched = "", 0  # of a line that goes on: its end
    begin = bisect_left(index.lasts, first)
    for at in range(begin, len(index.pieces), SEARCHED_PIECES):
        pieces = index.pieces[at : at + SEARCHED_PIECES]
        texts = dict(LogChunk.objects.filter(pk__in=[piece.pk for piece in pieces]).values_list("pk", "text"))
        for piece_index, piece in enumerate(pieces, at):
            line = index.firsts[piece_index]
            if len(matching) >= MATCHES or searched >= SEARCHED_BYTES:
                return matching, max(line, first)
            if piece_index and index.lasts[piece_index - 1] != line:
                line_end = ""
            searched += piece.size
            text = line_end + texts.get(piece.pk, "")
            if folded in plain(text).casefold():
                matching += matches(text, line, first, folded, {match.number for match in matching[-1:]})
            line_end = text.rpartition("\n")[2][-LINE_CHARACTERS:]
    return matching, None


def matches(text: str, line: int, first: int, needle: str, numbers: Container[int]) -> Iterator[Match]:
    """The lines of ``text`` that contain ``needle``.

    ``line``: the number of its first line; ``numbers``: of the lines found before.
    """
    for number, raw in enumerate(text.split("\n"), line):
        visible = plain(raw)
        column = visible.casefold().find(needle)
        if column >= 0 and number >= first and number not in numbers:
            end = column + len(needle)
            yield Match(
                number, visible[max(0, column - AROUND) : column], visible[column:end], visible[end : end + AROUND]
            )
