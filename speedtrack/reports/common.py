"""The base classes and types of all documents."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from speedtrack.ground.texts.text import UNSTORABLE, plain

Text = Annotated[str, BeforeValidator(plain)]  #: text of others, without what moves a terminal's cursor
LARGEST_ID = 2**63 - 1


def in_utc(time: datetime) -> datetime:
    """The time in UTC. Raises ValueError if its zone moves it out of the years that can be stored."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this lies outside of the years 1 to 9999") from None


Time = Annotated[AwareDatetime, AfterValidator(in_utc)]  #: RFC 3339, in UTC


@dataclass(frozen=True)
class From:
    """Where a field comes from: a path from the row, such as ``commit.sha``, or a function of the row.

    A path ends with None where a part of it is None.
    """

    source: str | Callable[[Any], Any]

    @cached_property
    def read(self) -> Callable[[Any], Any]:
        """The function that reads the field of a row."""
        return self.source if callable(self.source) else reader_of(self.source)


def reader_of(path: str) -> Callable[[Any], Any]:
    """The function that reads a path; where each part is there, by C, since documents have many fields."""
    get, names = attrgetter(path), path.split(".")

    def read(row: Any) -> Any:
        try:
            return get(row)
        except AttributeError:  # a part of the path is None, or lacks an attribute
            return value_behind(names, row)

    return read


def value_behind(names: Sequence[str], row: Any) -> Any:
    """The value at the end of a path from the row; None where a part of it is None."""
    for name in names:
        if row is None:
            return None
        row = getattr(row, name)
    return row


@dataclass(frozen=True)
class Filled:
    """A text that contains attributes of the row, such as ``/api/v1/runs/{0.pk}``."""

    template: str

    def read(self, row: Any) -> str:
        return self.template.format(row)


class Document(BaseModel):
    """The base of documents that pages, the API and messages answer.

    ``SCHEMA``: the published name of the document, if it has one; no other document has the same name.
    """

    model_config = ConfigDict(frozen=True)
    SCHEMA: ClassVar[str] = ""

    @classmethod
    def of(cls, row: Any, **given: Any) -> Self:
        """The document of a row.

        A field without a mark is the attribute of its name, or has its default. Fields that are ``given`` are not read.
        """
        return cls(**fields_of(cls, frozenset(given))(row), **given)

    def named(self) -> dict[str, Any]:
        """The document as values of JSON, with its schema."""
        return {"schema": self.SCHEMA, **self.model_dump(mode="json")}


@cache
def fields_of(document: type[Document], given: frozenset[str]) -> Callable[[Any], dict[str, Any]]:
    """The function that reads the fields of a document from a row, except those that are given.

    One ``attrgetter`` reads all paths, unless a part of one is missing.
    """
    readers = {name: source.read for name, source in sources(document).items() if name not in given}
    paths = paths_of(document, given)
    get = attrgetter(*paths.values()) if len(paths) > 1 else None
    functions = {name: reader for name, reader in readers.items() if name not in paths}

    def fields(row: Any) -> dict[str, Any]:
        if get is None:
            return {name: reader(row) for name, reader in readers.items()}
        try:
            values = dict(zip(paths, get(row), strict=True))
        except AttributeError:  # a part of a path is None, or lacks an attribute
            return {name: reader(row) for name, reader in readers.items()}
        return values | {name: reader(row) for name, reader in functions.items()}

    return fields


def paths_of(document: type[Document], given: Collection[str] = ()) -> dict[str, str]:
    """By field that is the end of a path from the row and is not given: the path."""
    marks = ((name, mark) for name, mark in sources(document).items() if name not in given)
    return {name: mark.source for name, mark in marks if isinstance(mark, From) and isinstance(mark.source, str)}


@cache
def sources(document: type[Document]) -> dict[str, From | Filled]:
    """Where each field of a document comes from."""
    marks: dict[str, From | Filled] = {}
    for name, field in document.model_fields.items():
        mark = next((mark for mark in field.metadata if isinstance(mark, From | Filled)), None)
        if mark or field.is_required():
            marks[name] = mark or From(name)
    return marks


def read_columns(document: type[Document], *of_functions: str, given: Collection[str] = ()) -> tuple[str, ...]:
    """The columns that a document reads of its rows and of what they refer to, as ``QuerySet.only`` takes them.

    ``of_functions``: those that the functions in its marks read; ``given``: fields that are not read of the row.
    """
    return (*of_functions, *(path.replace(".", "__") for path in paths_of(document, given).values()))


class Order(BaseModel):
    """The base of documents that clients send. An unknown field is an error, because it may be a misspelt one."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Tried(Order):
    """The base of orders that may be tried first."""

    dry_run: bool = Field(
        False, description="change nothing, and answer what would be changed and queued, and how long that takes"
    )


def storable(text: str) -> str:
    """The text unchanged. Raises ValueError if PostgreSQL cannot hold it."""
    if UNSTORABLE.search(text):
        raise ValueError("a zero byte or half a surrogate pair cannot be stored: leave it out")
    return text


Sent = Annotated[str, BeforeValidator(lambda text: storable(text) if isinstance(text, str) else text)]
Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]


def number(value: object) -> object:
    """Return the number unchanged. Raises ValueError for a string or a boolean, which pydantic would convert."""
    if isinstance(value, str | bool):
        raise ValueError("give a number such as 5, without quotes: a text or true is none")
    return value


NotText = BeforeValidator(number)  #: after limits, where the number is a part of the field's type
Whole = Annotated[int, NotText]  #: in a body
WholeId = Annotated[Id, NotText]
