"""Values of a JSON document that know their position, so that a refusal has a JSON pointer."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from speedtrack.outside.readers import ReadError

LONGEST_TEXT = 1000
LARGEST = 1e300
LATEST_MS = 253_402_300_799_000  # the end of the year 9999
NUMBER = re.compile(r"[-+]?\d{1,400}(\.\d{0,400})?([eE][-+]?\d{1,3})?")  # some tools write numbers as text


class ConflictingValues:
    """The value of a name that an object has several times with different values: it cannot be used, the rest can."""


KINDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "a truth value",
    type(None): "null",
    ConflictingValues: "there several times with different values",
}


@dataclass(frozen=True)
class Node:
    """One value and its JSON pointer."""

    value: Any
    pointer: str = ""

    @property
    def place(self) -> str:
        return self.pointer or "document"

    def refused(self, cause: str, remedy: str = "") -> ReadError:
        return ReadError(cause, self.place, remedy)

    def expected(self, kind: str) -> ReadError:
        return self.refused(f"it is {KINDS.get(type(self.value), 'a number')}, expected was {kind}")

    def __getitem__(self, key: str) -> "Node":
        members = self.object()
        if key not in members:
            raise self.refused(f"it has no {key!r}")
        return Node(members[key], f"{self.pointer}/{escaped(key)}")

    def get(self, key: str) -> "Node | None":
        """The member with this name; None if it is absent or null."""
        value = self.object().get(key)
        return None if value is None else Node(value, f"{self.pointer}/{escaped(key)}")

    def member(self, key: str) -> "Node | None":
        """The member with this name, which may be null; None if it is absent."""
        return self[key] if key in self.object() else None

    def has(self, *keys: str) -> bool:
        return isinstance(self.value, dict) and all(self.value.get(key) is not None for key in keys)

    def object(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.expected("an object")
        return self.value

    def members(self) -> Iterator[tuple[str, "Node"]]:
        for key, value in self.object().items():
            yield clean_text(key, self), Node(value, f"{self.pointer}/{escaped(key)}")

    def list(self) -> "list[Node]":
        if not isinstance(self.value, list):
            raise self.expected("a list")
        return [Node(value, f"{self.pointer}/{index}") for index, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.expected("a text")
        return clean_text(self.value, self)

    def word(self) -> str:
        """A string, a number or a boolean, as text."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return self.text() if isinstance(self.value, str) else f"{self.number():.12g}"

    def number(self) -> float:
        """A number that may have been measured; text is one if it is written like one."""
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not is_number and not (isinstance(self.value, str) and NUMBER.fullmatch(self.value.strip())):
            raise (
                self.refused(f"{self.value[:40]!r} is no number")
                if isinstance(self.value, str)
                else self.expected("a number")
            )
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        if math.isnan(number) or abs(number) > LARGEST:
            raise self.refused(f"{number} is no result of a measurement")
        return number

    def amount(self) -> float:
        """A number that is not negative, such as a time, a rate or a size."""
        if (number := self.number()) < 0:
            raise self.refused(f"{number:.6g} is negative")
        return number

    def count(self) -> int:
        number = self.amount()
        if number != int(number):
            raise self.refused(f"{number:.6g} is no whole number")
        return int(number)

    def moment(self) -> datetime:
        """A date in ISO 8601; without a zone it is UTC."""
        try:
            moment = datetime.fromisoformat(self.text())
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError) as wrong:
            raise self.refused(f"{self.value!r:.40} is no date", "write it as 2026-01-31T10:00:00+00:00") from wrong

    def milliseconds(self) -> datetime:
        """A date in milliseconds since 1970."""
        if (number := self.amount()) > LATEST_MS:
            raise self.refused(f"{number:.6g} is no date in milliseconds")
        return datetime.fromtimestamp(number / 1000, UTC)


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def clean_text(text: str, node: Node) -> str:
    """The text if it can be stored and shown."""
    if len(text) > LONGEST_TEXT:
        raise node.refused(f"a text of {len(text):,} characters", f"at most {LONGEST_TEXT:,}")
    if any((ord(letter) < 32 and letter not in "\t\n\r") or 0xD800 <= ord(letter) < 0xE000 for letter in text):
        raise node.refused("a text with a control character or half a character")
    return " ".join(text.split())
