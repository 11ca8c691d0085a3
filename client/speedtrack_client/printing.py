"""Print the output of a command: tables on a terminal, plain columns if the output is piped, or JSON."""

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

COLOURS = {"worse": "red", "better": "green", "uncertain": "yellow", "failed": "red", "running": "cyan"}
STEPS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


class OutputLost(Exception):
    """Standard output cannot be written to; the message has the reason."""


@contextmanager
def written() -> Iterator[None]:
    """Everything that the block writes to standard output arrives, or OutputLost is raised."""
    try:
        yield
    except OSError as e:
        raise OutputLost(e.strerror or str(e)) from e


class PlainConsole(Console):
    """rich's console, except that a closed pipe does not end the process with 1, which means a regression."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Printer:
    """Prints results on standard output, and messages on standard error."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.out = PlainConsole(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.err = PlainConsole(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def json(self, document: Any) -> None:
        with written():
            sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def line(self, text: str) -> None:
        if not self.as_json:
            with written():
                self.out.print(text)

    def say(self, text: str) -> None:
        """Print a message. It is lost if standard error is closed, because the exit code matters more."""
        with suppress(OSError, ValueError):
            self.err.print(text)

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table. Titles of columns with numbers begin with `>`."""
        if self.as_json or not rows:
            return
        with written():
            if self.out.is_terminal:
                self.out.print(rich_table(titles, rows), soft_wrap=False)
            else:
                sys.stdout.write(columns(titles, rows))

    @contextmanager
    def working(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show progress while the block runs: a moving line on a terminal, otherwise a line for each change."""
        if self.err.is_terminal:
            with self.err.status(Text(text)) as status:
                yield lambda now: status.update(Text(now))
            return
        last = [text]
        self.say(text)

        def say_change(now: str) -> None:
            if now != last[0]:
                last[0] = now
                self.say(now)

        yield say_change


def rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for title in titles:
        table.add_column(title.removeprefix(">"), justify="right" if title.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, COLOURS.get(cell, "")) for cell in row))
    return table


def columns(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table as text. Nothing is cut off, however long it is."""
    lines = [[title.removeprefix(">") for title in titles], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(titles))]
    numbers = [title.startswith(">") for title in titles]

    def shown(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, numbers, strict=True)
        )
        return "  ".join(cells).rstrip()

    return "".join(f"{shown(line)}\n" for line in lines)


def ago(moment: str | None) -> str:
    """How long ago a moment was, in one unit; "never" without one."""
    if not moment:
        return "never"
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    for step, name in STEPS:
        if seconds >= step:
            count = int(seconds // step)
            return f"{count} {name}{'s' * (count > 1)} ago"
    return "just now"


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def discard_output() -> None:
    """Prevent Python's error, and its exit code, at the end of the process if the output cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):  # an io.StringIO has no descriptor
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def replace_closed_streams() -> None:
    """Replace the streams that the caller has closed: in Python they are None."""
    sys.stdout = sys.stdout or ClosedStream()
    sys.stderr = sys.stderr or io.StringIO()
    sys.stdin = sys.stdin or io.StringIO()


class ClosedStream(io.StringIO):
    """Standard output that the caller has closed: writing to it fails, because the output is lost."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "standard output is closed")
