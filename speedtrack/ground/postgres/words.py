"""Lists of words that PostgreSQL stores as one text: an empty list takes 1 byte, where an empty array takes 13."""

from collections.abc import Iterable
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models

SEPARATOR = ","


def joined(words: Iterable[str]) -> str:
    """The words as they are stored. In SQL ``string_to_array(column, ',')`` makes them an array again."""
    return SEPARATOR.join(words)


class WordsField(models.Field):  # type: ignore[type-arg]
    """A list of words without commas. ``flags__words__contains``: the lookups of arrays follow ``words``."""

    def db_type(self, connection: Any) -> str:
        return "text"

    def from_db_value(self, value: str | None, *_: Any) -> list[str] | None:
        return value if value is None else self.to_python(value)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.split(SEPARATOR) if value else []
        return value

    def get_prep_value(self, value: Any) -> Any:
        return joined(value) if isinstance(value, list | tuple) else value


@WordsField.register_lookup
class Words(models.Transform):
    lookup_name = "words"
    template = f"string_to_array(%(expressions)s, '{SEPARATOR}')"
    output_field = ArrayField(models.TextField())
