"""Make text from builds, servers and commits safe to show: it may contain anything."""

import json
import re
from collections.abc import Sequence
from textwrap import shorten
from typing import Any

# Terminal escapes: control sequences, titles and links. The latter two end with their line at the latest.
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x9c|\x1b\\)?"
    r"|\x1b[@-Z\\-_]"
)
# The control characters C0 and C1 except tab and line feed, and the marks that change the direction of text.
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL's text can hold neither a zero byte nor half a surrogate pair
NAMED_MISTAKES = 10  # of a refused document; the others are counted
FORMULAS = ("=", "+", "-", "@", "\t")  # beginnings of what a spreadsheet would compute
UNSEEN_IN_JSON = re.compile(rf"{UNSEEN.pattern}|\\(?:u00|[bfr])")  # raw or as an escape


def visible(text: str) -> str:
    """The text without invisible characters that change its look."""
    return UNSEEN.sub("", text)


def storable(text: str) -> str:
    """The text without characters that PostgreSQL cannot hold."""
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def plain(log: str) -> str:
    """A log without terminal escapes and invisible characters."""
    if log.isprintable():  # most names and subjects have nothing to remove
        return log
    return visible(ESCAPES.sub("", log.replace("\r\n", "\n")))


def plain_values(document: Any) -> Any:
    """A JSON document with ``plain`` texts. Most contain nothing to remove, and are only searched."""
    text = json.dumps(document, ensure_ascii=False, default=str)
    return plain_parts(document) if UNSEEN_IN_JSON.search(text) else document


def plain_parts(document: Any) -> Any:
    if isinstance(document, str):
        return plain(document)
    if isinstance(document, dict):
        return {plain_parts(key): plain_parts(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [plain_parts(value) for value in document]
    return document


def plain_json(document: str) -> str:
    """The same for a document in PostgreSQL's text form. Most contain nothing to remove, and are only searched."""
    if not UNSEEN_IN_JSON.search(document):
        return document
    return json.dumps(plain_parts(json.loads(document)), separators=(",", ":"))


def shortened(text: str, longest: int) -> str:
    """The text on one line of at most so many characters, cut between words."""
    return shorten(text, longest, placeholder=" …", break_on_hyphens=False)


def listed(names: Sequence[str], most: int = 6) -> str:
    """The first names as a text, which ends with the number of the others."""
    text = ", ".join(names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text


def beyond_named(mistakes: int) -> list[str]:
    """The words with which a list of ``NAMED_MISTAKES`` of so many ends; none if it names all."""
    return [f"and {mistakes - NAMED_MISTAKES:,} more"] if mistakes > NAMED_MISTAKES else []


def csv_cell(value: str) -> str:
    """A value for a CSV file that no spreadsheet interprets as a formula."""
    text = plain(value)
    return f"'{text}" if text.startswith(FORMULAS) else text


def csv_cells(values: Sequence[str]) -> list[str]:
    """The same of each value of a column: most have nothing to change, and cost no call."""
    return [value if value.isprintable() and value[:1] not in FORMULAS else csv_cell(value) for value in values]
