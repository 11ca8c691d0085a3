"""Lines of mails: of ASCII for headers, of 80 columns for texts."""

import textwrap

from speedtrack.benchmarks import numbers

SUBJECT_LENGTH = 120
COLUMNS = 80  # of the text; longer addresses stay whole


def ascii_line(text: str) -> str:
    """The text as one line of ASCII without control characters, of at most SUBJECT_LENGTH."""
    simple = text.replace(numbers.MINUS, "-").replace("×", "x").encode("ascii", "replace").decode()
    line = " ".join("".join(c if c.isprintable() else " " for c in simple).split())
    return line if len(line) <= SUBJECT_LENGTH else line[: SUBJECT_LENGTH - 3] + "..."


def at_80_columns(text: str) -> str:
    """The text with long lines wrapped and indented like their first line; a long URL stays whole."""
    return "\n".join(piece for line in text.splitlines() for piece in wrapped_line(line)) + "\n"


def wrapped_line(line: str) -> list[str]:
    if len(line) <= COLUMNS:
        return [line if line == "-- " else line.rstrip()]  # the signature separator ends in a space
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line.strip(),
        COLUMNS,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
