"""Statements by hand: values that are sent apart from the text, plans that are kept, rows as objects."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from typing import Any, Generic, TypeVar

from django.db import InterfaceError, OperationalError, connection, connections, models
from django.db.backends.postgresql.base import ServerBindingCursor
from psycopg.pq import Format

Row = TypeVar("Row", bound=models.Model)


@contextmanager
def apart() -> Iterator[None]:
    """Send the values of this block's statements separately from their text.

    Django writes them into the text, where bytes are twice as long, and this process holds several copies of it.
    """
    connection.ensure_connection()
    link = connection.connection
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


class CompiledQuery(Generic[Row]):
    """A query without values of the moment, which a process asks again and again and which mostly has no rows.

    Django compiles it once: that takes several times as long as PostgreSQL's answer.
    """

    def __init__(self, build: Callable[[], models.QuerySet[Row]]) -> None:
        self.build = build

    @cached_property
    def queryset(self) -> models.QuerySet[Row]:
        return self.build().order_by("pk")

    @cached_property
    def statement(self) -> tuple[str, tuple[Any, ...]]:
        return self.queryset.values_list("pk").query.sql_with_params()

    def ids(self) -> list[int]:
        """The ids of the rows, ascending."""
        with connection.cursor() as cursor:
            cursor.execute(*self.statement)
            return [pk for (pk,) in cursor.fetchall()]

    def rows(self, *related: str) -> list[Row]:
        """The rows by ascending id, with those that they refer to by these names."""
        ids = self.ids()
        if not ids:
            return []
        rows = self.queryset.model._base_manager.filter(pk__in=ids).order_by("pk")
        return list(rows.select_related(*related) if related else rows)


class QueryOfIds(Generic[Row]):
    """A query of rows by the ids of others, which Django builds and compiles once: that takes longer than the answer.

    ``build``: the query for as many ids, or lists of them (``plainrows.among``), as ``kinds`` has.
    """

    def __init__(self, build: Callable[..., models.QuerySet[Row]], *kinds: type[int] | type[list[int]]) -> None:
        self.build = build
        # Numbers that no query has of its own, in whose places the ids are sent.
        self.stand_ins: list[Any] = [number if kind is int else [number] for number, kind in enumerate(kinds, -(2**30))]

    @cached_property
    def compiled(self) -> tuple[models.QuerySet[Row], Any, str, list[Any]]:
        """The query, its compiler, its statement, and the values that are sent with this."""
        queryset = self.build(*self.stand_ins)
        compiler = queryset.query.get_compiler("default")
        statement, values = compiler.as_sql()
        assert all(value in values for value in self.stand_ins)
        return queryset, compiler, statement, list(values)

    def rows(self, *ids: int | list[int]) -> list[Row]:
        """The rows as the query has them, with related rows and annotations."""
        queryset, compiler, statement, values = self.compiled
        by_stand_in = list(zip(self.stand_ins, ids, strict=True))
        sent = tuple(next((own for stand_in, own in by_stand_in if value == stand_in), value) for value in values)
        own_compiler, query = copy(compiler), copy(queryset.query)
        own_compiler.connection = connections["default"]  # that of this thread
        vars(own_compiler)["as_sql"] = lambda *_, **__: (statement, sent)
        vars(query)["get_compiler"] = lambda *_, **__: own_compiler
        return list(type(queryset)(queryset.model, query))


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
