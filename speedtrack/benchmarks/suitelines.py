"""Find the line of a suite file that a mistake is about, since parsers of TOML do not report it."""

import re
from collections.abc import Sequence

Place = tuple[str | int, ...]

HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
INLINE_KEY = re.compile(r"[{,]\s*([A-Za-z0-9_-]+)\s*=")
IN_MESSAGE = re.compile(r"benchmark ([A-Za-z0-9_.-]+)|([a-z_]+(?:\.[a-z_]+)*)")
NAME = re.compile(r"""name\s*=\s*["']([^"']+)""")
QUOTES = ('"""', "'''")


def lines_by_place(text: str) -> dict[Place, int]:
    """By place: the line, counted from 1, on which each table and each key begins.

    Keys of inline tables, as suites write workloads, have the line of their table.
    """
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    quote = ""  # of the string of several lines that the line is inside of
    for number, line in enumerate(text.split("\n"), start=1):
        if quote:
            quote = "" if quote in line else quote
            continue
        if header := HEADER.match(line):
            table = table_of(header, counts)
            for end in range(1, len(table) + 1):
                found.setdefault(table[:end], number)
        elif key := KEY.match(line):
            place = (*table, *words_of(key[1]))
            found.setdefault(place, number)
            for inner in INLINE_KEY.findall(line):
                found.setdefault((*place, inner), number)
            quote = next((mark for mark in QUOTES if line.count(mark) == 1), "")
    return found


def table_of(header: re.Match[str], counts: dict[Place, int]) -> Place:
    """The place of a table from its header. A table of an array has its number, counted from 0, in its place."""
    place: Place = ()
    words = words_of(header[2])
    for position, word in enumerate(words, start=1):
        place = (*place, word)
        if position == len(words) and header[1] == "[[":
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place


def words_of(dotted: str) -> list[str]:
    return [word.strip().strip("\"'") for word in dotted.split(".")]


def line_of(text: str, place: Sequence[str | int], message: str = "") -> int | None:
    """The line of the longest part of a place that the text has.

    If that is the whole suite, the beginning of the message is searched for a place or the name of a benchmark.
    """
    known = lines_by_place(text)
    for end in range(len(place), 0, -1):
        if tuple(place[:end]) in known:
            return known[tuple(place[:end])]
    named = IN_MESSAGE.match(message)
    if named is None:
        return None
    if named[1]:
        return line_of_benchmark(text, named[1].rstrip(".:"))
    return known.get(tuple(named[2].split(".")))


def line_of_benchmark(text: str, name: str) -> int | None:
    """The line that gives a benchmark its name; for a rung, the line with the name of its ladder."""
    for number, line in enumerate(text.split("\n"), start=1):
        found = NAME.match(line.strip())
        if found and found[1] in (name, name.rpartition(".")[0]):
            return number
    return None
