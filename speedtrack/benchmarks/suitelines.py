"""Find the line of a mistake in a suite file, since parsers of TOML do not report it."""

import re
from collections.abc import Sequence

TomlPath = tuple[str | int, ...]

HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
INLINE_KEY = re.compile(r"[{,]\s*([A-Za-z0-9_-]+)\s*=")
IN_MESSAGE = re.compile(r"benchmark ([A-Za-z0-9_.-]+)|([a-z_]+(?:\.[a-z_]+)*)")
NAME = re.compile(r"""name\s*=\s*["']([^"']+)""")
QUOTES = ('"""', "'''")


def lines_by_place(text: str) -> dict[TomlPath, int]:
    """By position: the line, counted from 1, on which each table and each key begins.

    Keys of inline tables, such as workloads, have the line of their table.
    """
    lines: dict[TomlPath, int] = {}
    counts: dict[TomlPath, int] = {}
    table: TomlPath = ()
    quote = ""  # of the multi-line string that contains the line
    for number, line in enumerate(text.split("\n"), start=1):
        if quote:
            quote = "" if quote in line else quote
            continue
        if header := HEADER.match(line):
            table = table_of(header, counts)
            for end in range(1, len(table) + 1):
                lines.setdefault(table[:end], number)
        elif key := KEY.match(line):
            path = (*table, *words_of(key[1]))
            lines.setdefault(path, number)
            for inner in INLINE_KEY.findall(line):
                lines.setdefault((*path, inner), number)
            quote = next((mark for mark in QUOTES if line.count(mark) == 1), "")
    return lines


def table_of(header: re.Match[str], counts: dict[TomlPath, int]) -> TomlPath:
    """The position of a table from its header. For a table of an array it includes its index, counted from 0."""
    path: TomlPath = ()
    keys = words_of(header[2])
    for position, key in enumerate(keys, start=1):
        path = (*path, key)
        if position == len(keys) and header[1] == "[[":
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def words_of(dotted: str) -> list[str]:
    return [key.strip().strip("\"'") for key in dotted.split(".")]


def line_of(text: str, path: Sequence[str | int], message: str = "") -> int | None:
    """The line of the longest part of a position that the text has.

    If that is the whole suite, the beginning of the message is searched for a position or the name of a benchmark.
    """
    lines = lines_by_place(text)
    for end in range(len(path), 0, -1):
        if tuple(path[:end]) in lines:
            return lines[tuple(path[:end])]
    mention = IN_MESSAGE.match(message)
    if mention is None:
        return None
    if mention[1]:
        return line_of_benchmark(text, mention[1].rstrip(".:"))
    return lines.get(tuple(mention[2].split(".")))


def line_of_benchmark(text: str, name: str) -> int | None:
    """The line that gives a benchmark its name; for a rung, the line with the name of its ladder."""
    for number, line in enumerate(text.split("\n"), start=1):
        match = NAME.match(line.strip())
        if match and match[1] in (name, name.rpartition(".")[0]):
            return number
    return None
