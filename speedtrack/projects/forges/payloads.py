"""The body of a call as a document. It is signed, but anybody who may push can write most of its texts."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from speedtrack.ground.texts.text import storable
from speedtrack.projects.forges.bodies import Body

MOST_READ = 2_000_000  # bytes of a body that are read as JSON; a push of thousands of commits is longer
MOST_FIELDS = 20  # of a form; GitHub's has one
LONGEST_NUMBER = 2**53  # the largest that JSON carries exactly
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
SHA = re.compile(r"[0-9a-f]{7,64}")


class UnreadableBody(Exception):
    """The body is not a document; the message has the reason."""


@dataclass(frozen=True)
class Payload:
    """A JSON value of unknown shape. Absent values, and values of another type, read as empty."""

    value: Any

    def at(self, *path: str) -> "Payload":
        value = self.value
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return Payload(value)

    def text(self, *path: str, longest: int = 250) -> str:
        """The text at a path, cut to ``longest`` characters, without characters that PostgreSQL cannot store."""
        value = self.at(*path).value
        return storable(value[:longest]) if isinstance(value, str) else ""

    def sha(self, *path: str) -> str:
        """The commit id at a path; it may be abbreviated."""
        digits = self.text(*path).lower()
        return digits if SHA.fullmatch(digits) else ""

    def number(self, *path: str) -> int:
        """The positive whole number at a path; 0 for anything else."""
        value = self.at(*path).value
        return value if type(value) is int and 0 < value <= LONGEST_NUMBER else 0

    def is_true(self, *path: str) -> bool:
        return self.at(*path).value is True

    def items(self, *path: str, most: int = 5) -> "list[Payload]":
        """The first items of the list at a path."""
        value = self.at(*path).value
        return [Payload(item) for item in value[:most]] if isinstance(value, list) else []

    def time(self, *path: str) -> datetime | None:
        """The time at a path:

        ISO 8601, GitLab's ``2026-01-02 03:04:05 UTC``, or Bitbucket's milliseconds since 1970.
        """
        value = self.at(*path).value
        try:
            if type(value) is int:
                return datetime.fromtimestamp(value / 1000, UTC)
            when = datetime.fromisoformat(str(value).replace(" UTC", "+00:00"))
        except (ValueError, OverflowError, OSError):
            return None
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return when if when > EARLIEST else None


def read_payload(body: Body, content_type: str) -> Payload:
    """The JSON of a body, or of the field ``payload`` of a form. Raises UnreadableBody."""
    if body.size > MOST_READ:
        raise UnreadableBody(f"its body has {body.size:,} bytes, and only {MOST_READ:,} are read")
    try:
        text = body.read().decode()
    except UnicodeDecodeError as e:
        raise UnreadableBody(f"its body is not UTF-8 (byte {e.start + 1})") from None
    if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        text = form_payload(text)
    try:
        return Payload(json.loads(text))
    except RecursionError:
        raise UnreadableBody("its JSON is nested too deeply") from None
    except ValueError as e:
        raise UnreadableBody(f"its body is not JSON: {str(e)[:100]}") from None


def form_payload(text: str) -> str:
    """The text of the form's field that holds the document. Raises UnreadableBody."""
    try:
        fields = parse_qs(text, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise UnreadableBody(f"its form has more than {MOST_FIELDS} fields") from None
    if "payload" not in fields:
        raise UnreadableBody("its form has no field `payload`")
    return fields["payload"][0]
