"""Lists in pages. A cursor holds the last key of a page, so added or deleted rows shift nothing."""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import Model, Q, QuerySet
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
    by: Sequence[str] = ("-pk",),
    columns: Sequence[str] = (),
    joined: Sequence[str] = (),
    within: Sequence[str] = (),
    fitting: "Callable[[QuerySet[R], int], int] | None" = None,
) -> Page[T]:
    """One page of rows, made into documents by ``documents_of``.

    ``by``: the columns to order by, as in ``order_by``, all of them falling or none; together they must be unique among
    the rows. ``columns``, ``joined``: read the rows by ``plain_rows``, where a page of them as models takes too long.
    ``within``: columns of an index before ``by``, which are the same in all rows. ``fitting``: how many of the rows,
    of so many at most, make a page, where some are much larger than others.
    """
    names, is_falling = [column.removeprefix("-") for column in by], by[0].startswith("-")
    if paging.cursor:
        kinds = [str if name in ("name", "slug") else int for name in names]
        rows = rows.filter(behind(names, keys_of(paging.cursor, kinds), "lt" if is_falling else "gt"))
    rows = rows.order_by(*within, *by)
    limit = fitting(rows, paging.limit) if fitting else paging.limit
    selection = rows[: limit + 1]
    candidates = plain_rows(selection, columns, joined) if columns else list(selection)
    shown_rows = candidates[:limit]
    last = shown_rows[-1] if len(candidates) > limit else None
    keys = [attrgetter(name.replace("__", "."))(last) for name in names] if last else []
    return Page(items=list(documents_of(shown_rows)), next=next_page(request, *keys) if last else None)


def behind(names: Sequence[str], keys: Sequence[int | str], comparison: str) -> Q:
    """The condition for the rows after the one with these keys; it bounds the first column, for an index of it."""
    name, *further = names
    if not further:
        return Q(**{f"{name}__{comparison}": keys[0]})
    beyond = Q(**{f"{name}__{comparison}": keys[0]}) | behind(further, keys[1:], comparison)
    return Q(**{f"{name}__{comparison}e": keys[0]}) & beyond


def next_page(request: HttpRequest, *keys: Any) -> str:
    """The address of this list from after the row with these keys on."""
    query: QueryDict = request.GET.copy()
    query["cursor"] = base64.urlsafe_b64encode(json.dumps(keys).encode()).decode().rstrip("=")
    return f"{request.path_info}?{query.urlencode()}"


def key_of(cursor: str) -> int:
    """The key in the cursor of a list that is ordered by one number. Raises Invalid."""
    return int(keys_of(cursor, [int])[0])


def keys_of(cursor: str, kinds: Sequence[type[int] | type[str]]) -> list[int | str]:
    """The keys in a cursor, which are of these kinds. Raises Invalid."""
    fault = Invalid(
        "this is no cursor of this list: begin without one, and take the next from `next`", parameter="cursor"
    )
    try:
        keys = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise fault from None
    if not isinstance(keys, list) or list(map(type, keys)) != kinds or not all(map(is_possible, keys)):
        raise fault
    return keys


def is_possible(key: int | str) -> bool:
    """Whether a column can have the key."""
    return not UNSTORABLE.search(key) if isinstance(key, str) else -1 <= key <= LARGEST_KEY
