"""The log of a run: its phases with a window of lines, or the lines that contain a text."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from speedtrack.accounts.access import Access
from speedtrack.ground.texts.text import plain
from speedtrack.runs.models import LogChunk, Run
from speedtrack.runs.results import logs
from speedtrack.runs.results.logs import LogIndex, LogStretch, Match, StoredLine
from speedtrack.web.pages.running.live import stream_of_run
from speedtrack.web.pages.running.run import deletions_in_words, run_or_404

PHASES = 200  # that are listed
LARGEST_NUMBER = 10**9


@dataclass(frozen=True)
class ShownStretch:
    """A phase with the lines of it that are shown."""

    stretch: LogStretch
    lines: list[StoredLine] = field(default_factory=list)

    @property
    def earlier(self) -> int | None:
        """The last of its lines before the shown ones; None if there is none."""
        is_more = self.lines and self.lines[0].number > self.stretch.first
        return self.lines[0].number - 1 if is_more else None

    @property
    def later(self) -> int | None:
        """The first of its lines after the shown ones; None if there is none."""
        is_more = self.lines and self.lines[-1].number < self.stretch.last
        return self.lines[-1].number + 1 if is_more else None


@dataclass(frozen=True)
class LogPage:
    """``left_out``: the number of phases that are not listed; ``go_on``: the line at which a search continues."""

    run: Run
    total: int
    attempts: int
    stretches: list[ShownStretch]
    left_out: int
    end: int
    needle: str
    matches: list[Match]
    go_on: int | None
    stream: str
    deleted: list[str]

    @property
    def is_end_shown(self) -> bool:
        return self.end > self.total


@dataclass(frozen=True)
class LogPageQuery:
    """The parameters of the address.

    They select lines from ``first`` on or before ``before``, the last lines of a phase, or lines with a text.
    """

    first: int | None
    before: int | None
    phase: str
    needle: str

    @classmethod
    def of(cls, query: QueryDict) -> "LogPageQuery":
        first, before = (number_of(query.get(name)) for name in ("from", "before"))
        return cls(first, before, query.get("phase", ""), query.get("q", "").strip())

    def window(self, index: LogIndex) -> tuple[int, int]:
        """The first line to show, and the line after the last one."""
        if self.first is None and (
            phase := next((stretch for stretch in index.stretches[::-1] if stretch.phase == self.phase), None)
        ):
            return max(index.start_before(phase.last + 1), phase.first), phase.last + 1
        if self.first is not None and self.before is None:
            first = max(1, min(self.first, index.total))
            return first, index.end_after(first)
        end = min(self.before or index.total + 1, index.total + 1)
        return max(index.start_before(end), self.first or 1), end


def number_of(text: str | None) -> int | None:
    """The line number in a text; None if it has none."""
    if not text or not text.isascii() or not text.isdecimal():
        return None
    return min(int(text[:10]), LARGEST_NUMBER) or None


def load(pk: int, query: QueryDict, access: Access) -> LogPage:
    run, page_query = run_or_404(pk), LogPageQuery.of(query)
    index = logs.index_of(pk)
    first, end = page_query.window(index)
    matches, go_on = logs.search(index, page_query.needle, page_query.first or 1) if page_query.needle else ([], None)
    return LogPage(
        run=run,
        total=index.total,
        attempts=len({stretch.number for stretch in index.stretches}),
        stretches=[] if page_query.needle else by_stretch(index, logs.read(index, first, end)),
        left_out=max(0, len(index.stretches) - PHASES),
        end=end,
        needle=page_query.needle,
        matches=matches,
        go_on=go_on,
        stream="" if run.done else stream_of_run(run, access),
        deleted=[] if index.total else deletions_in_words(run, ["logs"]),
    )


def by_stretch(index: LogIndex, lines: list[StoredLine]) -> list[ShownStretch]:
    """The newest phases, and those whose lines are shown."""
    shown_stretches = []
    for position, stretch in enumerate(index.stretches):
        begin, end = (
            bisect_left(lines, number, key=lambda line: line.number) for number in (stretch.first, stretch.last + 1)
        )
        if begin < end or position >= len(index.stretches) - PHASES:
            shown_stretches.append(ShownStretch(stretch, lines[begin:end]))
    return shown_stretches


def log_document(pk: int, query: QueryDict) -> dict[str, Any]:
    """A window of lines as JSON."""
    run, index = run_or_404(pk), logs.index_of(pk)
    first, end = LogPageQuery.of(query).window(index)
    return {"live": not run.done, **logs.document(index, logs.read(index, first, end))}


def whole_log(run: Run, phase: str | None) -> Iterator[str]:
    """The log of all attempts, in pieces."""
    chunks = LogChunk.objects.filter(attempt__run=run).order_by("attempt_id", "seq").select_related("attempt")
    if phase:
        chunks = chunks.filter(phase=phase)
    before: tuple[int, str] | None = None
    for chunk in chunks.iterator(chunk_size=16):
        now = (chunk.attempt.number, chunk.phase)
        if now != before:
            yield f"{'' if before is None else chr(10)}--- attempt {now[0]}, {plain(now[1])} ---\n"
        before = now
        yield plain(chunk.text)
    if before is None:
        yield "".join(f"{sentence}\n" for sentence in deletions_in_words(run, ["logs"]))
