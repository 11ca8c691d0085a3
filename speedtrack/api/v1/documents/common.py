"""What documents are made of."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from speedtrack.text import UNSTORABLE, plain

Text = Annotated[str, BeforeValidator(plain)]  #: text of others, without what moves a terminal's cursor
LARGEST_ID = 2**63 - 1


def in_utc(time: datetime) -> datetime:
    """Raises ValueError for a time that only its zone keeps within the years that there are."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this lies outside of the years 1 to 9999") from None


Time = Annotated[AwareDatetime, AfterValidator(in_utc)]  #: RFC 3339, in UTC


class Document(BaseModel):
    """What the API answers."""

    model_config = ConfigDict(frozen=True)


class Order(BaseModel):
    """What somebody sends: an unknown field is an error, as it would be a misspelt one."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Tried(Order):
    """An order that may be tried first."""

    dry_run: bool = Field(
        False, description="change nothing, and answer what would be changed and queued, and how long that takes"
    )


def storable(text: str) -> str:
    """Raises ValueError for a text that PostgreSQL cannot hold."""
    if UNSTORABLE.search(text):
        raise ValueError("a zero byte or half a surrogate pair cannot be stored: leave it out")
    return text


Sent = Annotated[str, BeforeValidator(lambda text: storable(text) if isinstance(text, str) else text)]
Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]


def number(value: object) -> object:
    """Raises ValueError for what pydantic would make a number of, though JSON has numbers of its own."""
    if isinstance(value, str | bool):
        raise ValueError("give a number such as 5, without quotes: a text or true is none")
    return value


NotText = BeforeValidator(number)  #: after limits, where the number is a part of the field's type
Whole = Annotated[int, NotText]  #: in a body
WholeId = Annotated[Id, NotText]
