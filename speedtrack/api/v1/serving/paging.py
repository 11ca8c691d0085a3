"""Lists in pages. A cursor holds the last key of a page, so added or deleted rows shift nothing."""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, QueryDict
from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field

from speedtrack.api.v1.serving.refusals import Invalid
from speedtrack.ground.postgres.plainrows import plain_rows
from speedtrack.ground.texts.text import UNSTORABLE

MOST = 1000
USUAL = 100
LARGEST_KEY = 2**63 - 1
LONGEST_CURSOR = 1000

T = TypeVar("T")
R = TypeVar("R", bound=Model)


class Paging(Schema):
    """The parameters of every list."""

    limit: Annotated[int, Field(ge=1, le=MOST, description="how many at most")] = USUAL
    cursor: Annotated[
        str,
        Field(
            max_length=LONGEST_CURSOR, description="where the page begins: take it from `next`, and keep it as it is"
        ),
    ] = ""


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    model_config = ConfigDict(frozen=True, json_schema_extra={"description": "A part of a list."})

    items: list[T]
    next: Annotated[str | None, Field(description="address of the next page; null after the last one")]


def page_of(
    request: HttpRequest,
    rows: "QuerySet[R]",
    paging: Paging,
    documents_of: Callable[[list[R]], Iterable[T]],
    by: str = "-pk",
    columns: Sequence[str] = (),
    joined: Sequence[str] = (),
    within: Sequence[str] = (),
) -> Page[T]:
    """One page of rows, made into documents by ``documents_of``.

    ``by``: the column to order by, as in ``order_by``; it must be unique among the rows. ``columns``, ``joined``: read
    the rows by ``plain_rows``, where a page of them as models takes too long. ``within``: columns of an index before
    ``by``, which are the same in all rows.
    """
    column, is_falling = by.removeprefix("-"), by.startswith("-")
    if paging.cursor:
        key = key_of(paging.cursor, is_text=column in ("name", "slug"))
        rows = rows.filter(**{f"{column}__{'lt' if is_falling else 'gt'}": key})
    selection = rows.order_by(*within, by)[: paging.limit + 1]
    candidates = plain_rows(selection, columns, joined) if columns else list(selection)
    shown_rows = candidates[: paging.limit]
    last = getattr(shown_rows[-1], column) if len(candidates) > paging.limit else None
    return Page(items=list(documents_of(shown_rows)), next=None if last is None else next_page(request, last))


def next_page(request: HttpRequest, key: Any) -> str:
    """The address of this list from after this key on."""
    query: QueryDict = request.GET.copy()
    query["cursor"] = base64.urlsafe_b64encode(json.dumps([key]).encode()).decode().rstrip("=")
    return f"{request.path_info}?{query.urlencode()}"


def key_of(cursor: str, is_text: bool) -> int | str:
    """The key in a cursor. Raises Invalid."""
    fault = Invalid(
        "this is no cursor of this list: begin without one, and take the next from `next`", parameter="cursor"
    )
    try:
        (key,) = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise fault from None
    if type(key) is not (str if is_text else int):
        raise fault
    if (isinstance(key, str) and UNSTORABLE.search(key)) or (isinstance(key, int) and not -1 <= key <= LARGEST_KEY):
        raise fault
    return key
