"""Long lists by page: which rows an address names, and where the pages before and after them are."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from django.http import QueryDict

MOST = 60  # rows of a table, or plots of a board, on one page

T = TypeVar("T")


class PageSpan(NamedTuple):
    """The rows of a list on a page: those after the first ``begin`` of all ``of``. ``most``: how many a page has."""

    begin: int
    of: int
    most: int

    @property
    def first(self) -> int:
        return self.begin + 1

    @property
    def last(self) -> int:
        return min(self.of, self.begin + self.most)

    @property
    def number(self) -> int:
        """The number of the page, from 1."""
        return self.begin // self.most + 1

    @property
    def previous_page(self) -> int | None:
        return self.number - 1 or None

    @property
    def next_page(self) -> int | None:
        return self.number + 1 if self.following else None

    @property
    def pages(self) -> int:
        return max(1, -(-self.of // self.most))

    @property
    def following(self) -> int:
        """How many rows the next page has."""
        return min(self.most, self.of - self.last)

    def among(self, rows: Sequence[T]) -> Sequence[T]:
        """These rows of all."""
        return rows[self.begin : self.last]


def span_of(page: int, count: int) -> PageSpan:
    """The rows of a page, counted from 1; of the last one if there are fewer pages."""
    first = PageSpan(0, count, MOST)
    return first._replace(begin=(min(page, first.pages) - 1) * MOST)


def one_page(count: int) -> PageSpan:
    """All rows as one page."""
    return PageSpan(0, count, max(1, count))


def page_of(query: QueryDict) -> int:
    """The number of the page that an address names, 1 unless it is a sensible number."""
    text = query.get("page", "")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 5 else 1
