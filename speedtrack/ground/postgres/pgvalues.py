"""Statements by hand: values that are sent apart from the text, plans that are kept, rows as objects."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection, models
from django.db.backends.postgresql.base import ServerBindingCursor
from psycopg.pq import Format

Row = TypeVar("Row", bound=models.Model)


@contextmanager
def apart(database: Any = connection) -> Iterator[None]:
    """Send the values of this block's statements to a database separately from their text.

    Django writes them into the text, where bytes are twice as long, and this process holds several copies of it.
    """
    database.ensure_connection()
    link = database.connection
    usual = link.cursor_factory
    link.cursor_factory = ServerBindingCursor
    try:
        yield
    finally:
        link.cursor_factory = usual


def first_row(statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The first row of a statement that this process sends again and again.

    PostgreSQL keeps its plan for a session (``databases.PLANNED_ONCE``), so it must name its columns: a kept plan fails
    when a column is added to its ``*``.
    """
    with apart(), connection.cursor() as cursor:
        cursor.execute(statement, values)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row


def all_rows(statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of a statement. PostgreSQL plans it once per connection, like that of ``first_row``."""
    with apart(), connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def rows_of_arrays(statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Like ``all_rows``, in PostgreSQL's binary form: long arrays and bytes take it and this process half as long.

    Not for columns that Django reads in its own way, such as times and ``jsonb``: it knows their text alone.
    """
    with apart(), connection.cursor() as cursor:
        cursor.cursor.format = Format.BINARY
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def first_row_of_request(statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Like ``first_row``, of the first statement of a request. It only reads.

    It shows as well whether the connection still lives, so the round trip of Django's health check is saved.
    """
    setattr(connection, "health_check_done", True)  # noqa: B010 (Django's stubs lack it)
    try:
        return first_row(statement, values)
    except (InterfaceError, OperationalError):
        if connection.in_atomic_block or connection.is_usable():
            raise
        connection.close()
        return first_row(statement, values)


def row_of(statement: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Like ``first_row``, of a statement that always has a row."""
    row = first_row(statement, values)
    assert row is not None
    return row


def columns_of(model: type[models.Model], *, but: str) -> tuple[str, ...]:
    """The columns of a model except one, for statements by hand: JSON comes as text, and is decoded by hand."""
    return tuple(field.attname for field in model._meta.concrete_fields if field.name != but)


def partial_row(model: type[Row], **columns: object) -> Row:
    """A model instance with these columns set; other columns are loaded when they are read."""
    names = [field.attname for field in model._meta.concrete_fields if field.attname in columns]  # in Django's order
    return model.from_db("default", names, [columns[name] for name in names])


def array_text(values: Iterable[float | str | None]) -> str:
    """Numbers, or words without special characters, as an array in PostgreSQL's text form."""
    return "{" + ",".join("NULL" if value is None else str(value) for value in values) + "}"
