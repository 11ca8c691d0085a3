"""No page reads more rows as histories grow, by PostgreSQL's own counters for each statement of each page.

A number of statements says nothing about that: one that reads a whole table is one.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from django.db import connection
from django.test import Client

from research.scale.costs.pages import PERSONAL, Page, Subject, client_of, other_pages, pages_of_projects
from research.scale.costs.work import undone
from research.scale.shapes.extents import SMALL, Extent
from research.scale.shapes.parts import PARTS, SHAPES, write_shape
from speedtrack.tests.plans import Reading, readings_of

LONGER = 4
GROWTH, SLACK = 1.5, 200  # then a statement may read so many times the rows, and so many more
WHOLE = "it shows the whole history, or as much as was asked for"
#: Pages that read more of longer histories: the beginnings of their names and titles, and why that is right.
EXCEPTIONS: dict[str, str] = {
    "api:read_points": WHOLE,
    "timeline-values CSV": WHOLE,
    "timeline-values JSON, N commits": WHOLE,
    "timeline-values SVG": WHOLE,
    "timeline N commits": WHOLE,
}


def test_no_page_reads_more_rows_of_a_longer_history(suites: None) -> None:
    short = rows_by_page(SMALL)
    long = rows_by_page({name: extent.longer(LONGER) for name, extent in SMALL.items()})
    growing = {name: grown for name in short.keys() & long.keys() if (grown := growth(short[name], long[name]))}
    unforeseen = [description(name, growing[name]) for name in sorted(growing) if not reasons(name)]
    assert not unforeseen, "\n\n".join(unforeseen)
    assert EXCEPTIONS.keys() - {start for name in growing for start in reasons(name)} == set(), (
        "these need no exception"
    )


def rows_by_page(extents: Mapping[str, Extent]) -> dict[str, list[Reading]]:
    """What each statement of each page reads in a database of all parts, as large as that."""
    with undone():
        write_shape(SHAPES["kind"], extents, seed=1)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        return {name: readings_of(visit) for name, visit in visits()}


def visits() -> Iterator[tuple[str, partial[object]]]:
    """The name of each page, and how it is got: by a visitor if it needs no account."""
    visitor, operator = client_of(None), client_of("")
    for name, part in PARTS.items():
        member = client_of(part.person) if part.person else visitor
        for page in pages_of_projects(Subject(part.slug, part.slug)):
            if page.addresses:
                yield f"{name}: {name_of(page)}", partial(get, operator if page.name in PERSONAL else member, page)
    for page in other_pages():
        yield f"all: {name_of(page)}", partial(get, operator if page.name in PERSONAL else visitor, page)


def name_of(page: Page) -> str:
    """Its name and title, the same in a longer history."""
    return re.sub(r"\d[\d,]*", "N", f"{page.name} {page.title}".strip())


def get(client: Client, page: Page) -> object:
    response: Any = client.get(page.addresses[0].replace("limit=1000", "limit=50"))
    return list(response.streaming_content) if response.streaming else response


def growth(short: list[Reading], long: list[Reading]) -> dict[str, tuple[int, int]]:
    """The statements that read more rows of the longer history: how many of each."""
    before, after = by_statement(short), by_statement(long)
    return {sql: (before[sql], rows) for sql, rows in after.items() if rows > GROWTH * before[sql] + SLACK}


def by_statement(readings: list[Reading]) -> Counter[str]:
    """The rows that each statement reads, however many values its lists have."""
    rows: Counter[str] = Counter()
    for reading in readings:
        rows[re.sub(r"%s(, %s)+", "%s", " ".join(reading.sql.split()))] += reading.rows
    return rows


def reasons(name: str) -> list[str]:
    """The exceptions that this page falls under."""
    return [start for start in EXCEPTIONS if name.partition(": ")[2].startswith(start)]


def description(name: str, statements: dict[str, tuple[int, int]]) -> str:
    lines = [f"  {short} -> {long} rows: {sql[:1000]}" for sql, (short, long) in statements.items()]
    return "\n".join([name, *lines])
