"""Queries of the ORM that are compiled once: compiling one takes longer than PostgreSQL's answer to it."""

import inspect
import re
from collections.abc import Callable, Hashable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Generic, TypeVar

from django.db import connections, models
from django.db.models.query import ModelIterable
from psycopg.sql import Literal

from speedtrack.ground.postgres.pgvalues import apart

Row = TypeVar("Row", bound=models.Model)
#: By type of a value: the placeholder with a number, which no query has for another reason.
PLACEHOLDERS: dict[Any, Callable[[int], Any]] = {
    int: lambda number: 2_147_480_000 + number,
    str: lambda number: f"\ue000{number}",
    list[int]: lambda number: [2_147_480_000 + number],
    list[str]: lambda number: [f"\ue000{number}"],
}


@dataclass(frozen=True)
class Statement:
    """A compiled query. ``names``: those of the values, in the order of its parameters."""

    compiler: Any
    sql: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class BoundQuery:
    """A statement with its values: all that Django asks of a query and its set to make the rows."""

    db: str
    statement: Statement
    values: Mapping[str, Any]
    _known_related_objects: Mapping[Any, Any]

    @property
    def query(self) -> "BoundQuery":
        return self

    def get_compiler(self, using: str) -> Any:
        """The compiler, which has nothing left to compile, on the connection of this thread."""
        statement = self.statement
        # Plain: psycopg chooses the type of an integer by its size.
        parameters = tuple(self.values[name] for name in statement.names)
        compiler = copy(statement.compiler)
        compiler.connection, compiler.as_sql = connections[using], lambda: (statement.sql, parameters)
        return compiler


class PreparedQuery(Generic[Row]):
    """A query that differs from call to call in its values alone; Django compiles it once per process.

    Once per version of PostgreSQL, to be exact: Django speaks to each in the SQL that it knows. PostgreSQL plans it
    once per connection (``pgvalues.apart``). So all but the values stands in its text: in a plan for any value, a
    condition such as ``status = 'queued'`` leads to a partial index only if PostgreSQL sees what is compared.

    ``build``: the query of these values, as a function whose parameters are annotated as PLACEHOLDERS has them. It is
    called once, with placeholders: it may compare them with columns, but not decide by them.
    """

    def __init__(self, build: Callable[..., models.QuerySet[Row]]) -> None:
        self.build = build
        self.statements: dict[int, Statement] = {}
        self.compiling = Lock()

    @cached_property
    def queryset(self) -> models.QuerySet[Row]:
        return self.build(**self.placeholders)

    @property
    def beside(self) -> tuple[Any, ...]:
        """What further statements read of the rows: ``prefetch_related``."""
        lookups: tuple[Any, ...] = getattr(self.queryset, "_prefetch_related_lookups")  # noqa: B009 (Django's own name)
        return lookups

    @cached_property
    def placeholders(self) -> dict[str, Any]:
        parameters = inspect.signature(self.build).parameters.values()
        return {value.name: PLACEHOLDERS[value.annotation](number) for number, value in enumerate(parameters)}

    @property
    def statement(self) -> Statement:
        """The query for the server of this thread's connection. Raises ValueError if it leaves out a value."""
        link: Any = connections[self.queryset.db]
        version: int = link.pg_version
        with self.compiling:  # which changes the query
            if version not in self.statements:
                self.statements[version] = self._compiled()
            return self.statements[version]

    def _compiled(self) -> Statement:
        name_of = {key_of(placeholder): name for name, placeholder in self.placeholders.items()}
        compiler = self.queryset.query.get_compiler(self.queryset.db)
        sql, parameters = compiler.as_sql()
        remaining, names = iter(parameters), []

        def written(match: re.Match[str]) -> str:
            """A value's marker as it is, and what is the same in each call as text."""
            if match[0] == "%%":
                return match[0]
            parameter = next(remaining)
            if (name := name_of.get(key_of(parameter))) is None:
                return Literal(parameter).as_string(compiler.connection.connection).replace("%", "%%")
            names.append(name)
            return match[0]

        sql = re.sub("%[%s]", written, sql)
        if missing := set(name_of.values()) - set(names):
            raise ValueError(f"the statement does not compare {', '.join(sorted(missing))} with anything")
        return Statement(compiler, sql, tuple(names))

    def rows(self, **values: Any) -> list[Row]:
        """The rows for these values, in the order of the query, with what it reads beside them."""
        bound: Any = self._bound(values)
        with apart():
            rows: list[Row] = list(ModelIterable(bound))
        models.prefetch_related_objects(rows, *self.beside)
        return rows

    def tuples(self, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query of ``values_list``."""
        bound = self._bound(values)
        with apart():
            return list(bound.get_compiler(bound.db).results_iter(tuple_expected=True))

    def _bound(self, values: Mapping[str, Any]) -> BoundQuery:
        return BoundQuery(self.queryset.db, self.statement, values, {})


class RareRows(Generic[Row]):
    """Rows that a process looks for again and again, and mostly does not find.

    So it reads their ids first, and the rows with what they refer to only if there are any. ``build``: the query.
    """

    def __init__(self, build: Callable[[], models.QuerySet[Row]]) -> None:
        def build_ids() -> models.QuerySet[Any]:
            return build().order_by("pk").values_list("pk")

        self.prepared: PreparedQuery[Any] = PreparedQuery(build_ids)

    def ids(self) -> list[int]:
        """The ids of the rows, ascending."""
        return [pk for (pk,) in self.prepared.tuples()]

    def rows(self, *related: str) -> list[Row]:
        """The rows by ascending id, with those that they refer to by these names."""
        ids = self.ids()
        if not ids:
            return []
        rows = self.prepared.queryset.model._base_manager.filter(pk__in=ids).order_by("pk")
        return list(rows.select_related(*related) if related else rows)


def key_of(value: Any) -> Hashable:
    """What two equal values of a placeholder's type have in common; None for values of other types."""
    return tuple(value) if isinstance(value, list) else value if isinstance(value, int | str) else None
