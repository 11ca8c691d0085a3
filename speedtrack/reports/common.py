"""The base classes and types of all documents."""

from datetime import UTC, datetime
from typing import Annotated

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


class Document(BaseModel):
    """The base of documents that the API answers."""

    model_config = ConfigDict(frozen=True)


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
