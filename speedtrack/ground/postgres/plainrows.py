"""Long lists of rows as plain objects: the ORM takes longest to make its own of each row and of all it refers to."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, TypeVar, cast

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import BooleanField, F, Func, Model, QuerySet, Value

M = TypeVar("M", bound=Model)


def plain_rows(rows: "QuerySet[M]", columns: Iterable[str], joined: Collection[str] = ()) -> list[M]:
    """The rows with only these columns, named as for ``QuerySet.only``, and with the properties of their models.

    A column that is a property is not read: those that it is made from must be named. Others raise AttributeError.

    One statement reads the rows, then one for each model reads those that they refer to, by their ids: plans of joins
    may read whole tables. A row that several refer to is one object. ``joined``: relations that the first statement
    reads, as those to tables without history.
    """
    related = by_relation(columns)
    apart = {name: key_of(rows.model, name) for name in related if name not in joined}
    first = RowShape.of(rows.model, (*(path for path in columns if relation_of(path) not in apart), *apart.values()))
    read = [first.row(iter(values)) for values in rows.values_list(*first.paths)]
    for model, relations in by_model(rows.model, apart).items():
        behind = {path for name in relations for path in related[name]}
        set_related(read, {name: apart[name] for name in relations}, RowShape.of(model, tuple(sorted(behind))))
    return cast("list[M]", read)


def set_related(rows: Iterable[Any], keys: Mapping[str, str], shape: "RowShape") -> None:
    """Set relations of the rows; ``keys``: the attributes with the ids, by the relations' names."""
    ids = {getattr(row, key) for row in rows for key in keys.values()} - {None}
    related = shape.model._default_manager.filter(among("pk", ids)).values_list(*shape.paths) if ids else ()
    by_id = {row.pk: row for row in (shape.row(iter(values)) for values in related)}
    for row in rows:
        for name, key in keys.items():
            setattr(row, name, by_id.get(getattr(row, key)))


def among(column: str, values: Iterable[int] | Iterable[str]) -> "Among":
    """The condition that a column has one of these values, as one parameter: Django's ``in`` has one for each."""
    return Among(F(column), Value(list(values)))


def among_selected(column: str, ids: "QuerySet[Any]") -> "Among":
    """As ``among``, of the values that a query selects: it is read first, so that an index finds the rows.

    PostgreSQL reads all rows for ``in`` with a query beside another condition (``or``).
    """
    return Among(F(column), ArraySubquery(ids))


class Among(Func):
    """``among``, with an array of the column's type: those of other types are searched value by value."""

    template = "%(expressions)s::%(kind)s[])"
    arg_joiner = " = ANY ("
    output_field = BooleanField()

    def as_sql(self, compiler: Any, connection: Any, *rest: Any, **more: Any) -> Any:
        column, _ = self.get_source_expressions()
        return super().as_sql(compiler, connection, *rest, **more, kind=column.output_field.db_type(connection))


@dataclass(frozen=True)
class RowShape:
    """The columns that are read of a model, and those of the rows that it refers to, by the names of relations."""

    model: type[Model]
    names: tuple[str, ...]
    related: Mapping[str, "RowShape"]

    @staticmethod
    @cache
    def of(model: type[Model], columns: tuple[str, ...]) -> "RowShape":
        """The shape of rows with these columns, with the ids of the rows and of those that they refer to."""
        related = by_relation(columns)
        own = (path for path in columns if "__" not in path and not is_property(model, path))
        keys = (key_of(model, name) for name in related)
        further = {name: RowShape.of(model_behind(model, name), tuple(paths)) for name, paths in related.items()}
        return RowShape(model, tuple(dict.fromkeys([key_of(model), *own, *keys])), further)

    @cached_property
    def paths(self) -> list[str]:
        """The columns as ``QuerySet.values_list`` takes them, in the order of ``row``."""
        further = (f"{name}__{path}" for name, shape in self.related.items() for path in shape.paths)
        return [*self.names, *further]

    def row(self, values: Iterator[Any]) -> Any:
        """The row of these values; None if its id is null, because nothing refers to it."""
        row = self.type()
        row.__dict__ = columns = dict(zip(self.names, values, strict=False))  # behind are the values of related rows
        for name, shape in self.related.items():
            columns[name] = shape.row(values)
        return None if columns[self.names[0]] is None else row

    @cached_property
    def type(self) -> type:
        """A class with the properties of the model."""
        members = {name: member for name, member in vars(self.model).items() if is_property(self.model, name)}
        return type(f"Plain{self.model.__name__}", (), {**members, "pk": property(attrgetter(key_of(self.model)))})


def is_property(model: type[Model], name: str) -> bool:
    return isinstance(getattr(model, name, None), property)


def relation_of(path: str) -> str:
    return path.partition("__")[0]


def by_relation(columns: Iterable[str]) -> dict[str, list[str]]:
    """By relation: the columns behind it."""
    related: dict[str, list[str]] = defaultdict(list)
    for name, _, remaining in (column.partition("__") for column in columns):
        if remaining:
            related[name].append(remaining)
    return related


def by_model(model: type[Model], relations: Iterable[str]) -> dict[type[Model], list[str]]:
    """The relations of a model by the model that they lead to."""
    models: dict[type[Model], list[str]] = defaultdict(list)
    for name in relations:
        models[model_behind(model, name)].append(name)
    return models


def model_behind(model: type[Model], relation: str) -> type[Model]:
    field: Any = model._meta.get_field(relation)
    return cast("type[Model]", field.related_model)


def key_of(model: type[Model], relation: str = "") -> str:
    """The attribute with the id of a row, or of the row that it refers to: its own if that row refers to it.

    Of a key of several columns the first: no relation leads to such rows.
    """
    field: Any = model._meta.get_field(relation) if relation else model._meta.pk_fields[0]
    return str(field.attname) if field.concrete else key_of(model)
