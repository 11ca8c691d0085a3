"""Lines of logs with their programs' colours, as text with the names of styles and nothing else.

A colour ends with its line, so any part of a log can be shown without the lines before it. Background colours are left
out, because no palette is readable on all of them.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from speedtrack.ground.texts.text import plain

Span = tuple[str, str]  #: a text without control characters, and its styles: words with blanks, or ""

#: Select Graphic Rendition (ECMA-48, 8.3.117), the only control sequence that is interpreted, not removed.
RENDITION = re.compile(r"(?:\x1b\[|\x9b)([0-9;:]{0,64})m")
HUES = ("soft", "red", "green", "yellow", "blue", "magenta", "cyan", "")  # white is the usual text colour
ADDED = {1: "bold", 2: "soft", 3: "italic", 4: "underlined"}
FOREGROUND, PLAIN_FOREGROUND, EXTENDED = 38, 39, (38, 48, 58)
INDEXED, DIRECT = 5, 2  # after EXTENDED: a palette number follows, or red, green and blue


def spans(line: str) -> list[Span]:
    """A line's final form on a terminal: text that a carriage return has overwritten is left out."""
    line = line.rstrip("\r").rpartition("\r")[2]
    if line.isprintable():
        return [(line, "")] if line else []
    return [(text, styles) for raw, styles in pieces(line) if (text := plain(raw))]


def pieces(line: str) -> Iterator[Span]:
    styles: frozenset[str] = frozenset()
    at = 0
    for match in RENDITION.finditer(line):
        yield line[at : match.start()], " ".join(sorted(styles))
        styles, at = after(styles, match[1]), match.end()
    yield line[at:], " ".join(sorted(styles))


@lru_cache(1000)
def after(styles: frozenset[str], parameters: str) -> frozenset[str]:
    """The styles after a rendition. Unknown parameters change nothing."""
    numbers = [int(parameter[:9] or 0) for parameter in re.split("[;:]", parameters)]
    while numbers:
        number = numbers.pop(0)
        if number in EXTENDED:
            hue, numbers = extended(numbers)
            styles = coloured(styles, hue) if number == FOREGROUND else styles
        elif number == 0:
            styles = frozenset()
        elif number in ADDED:
            styles |= {ADDED[number]}
        elif number == 22:
            styles -= {"bold", "soft"}
        elif number in (23, 24):
            styles -= {ADDED[number - 20]}
        elif 30 <= number <= 37 or 90 <= number <= 97:
            styles = coloured(styles, HUES[number % 10])
        elif number == PLAIN_FOREGROUND:
            styles = coloured(styles, "")
    return styles


def extended(numbers: list[int]) -> tuple[str, list[int]]:
    """The hue of an extended colour ("" for one without a name here), and the numbers after it."""
    kind = numbers[0] if numbers else 0
    if kind == INDEXED and len(numbers) > 1:
        return HUES[numbers[1] % 8] if numbers[1] < 16 else "", numbers[2:]
    return "", numbers[4:] if kind == DIRECT else numbers[1:]


def coloured(styles: frozenset[str], hue: str) -> frozenset[str]:
    return styles.difference(HUES) | ({hue} if hue else set())
