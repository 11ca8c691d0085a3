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

from research.scale.costs.pages import PERSONAL, MeasuredProjects, PageKind, client_of, other_pages, pages_of_projects
from research.scale.costs.work import undone
from research.scale.shapes.extents import SMALL, ShapeExtent
from research.scale.shapes.parts import PARTS, SHAPES, write_shape
from speedtrack.tests.plans import Reading, readings_of

LONGER = 4
GROWTH, SLACK = 1.5, 200  # then a statement may read so many times the rows, and so many more
#: Names and titles of pages that read more of longer histories, by the reason; a part before them limits it to that.
REASONS: dict[str, tuple[str, ...]] = {
    "they show the whole history, or as much as was asked for": (
        *("api:read_points the API's JSON, N commits", "timeline N commits x N machines", "gains", "all-gains"),
        *(f"timeline-values {form}, N commits" for form in ("CSV", "JSON", "SVG")),
        "timeline-values JSON, N commits x N machines",
    ),
    "their lists, or windows of days, hold more than the short history": (
        *("releases", "releases-values", "releases-feed"),
        *("alerts", "alerts-feed", "alerts-values", "all-alerts", "all-alerts-feed", "all-alerts-values"),
        *("api:list_alerts N rows", "machine", "machine-values"),
        *("project a grid of N benchmarks", "project-values"),  # up to eight alerts, with their changes
        *("commit N series", "commit-values N series"),  # the first of the short history has no changes
        *("search words of subjects", "search-values words of subjects", "search-values a sha"),
    ),
    "they count or estimate the runs that wait, or those of the last day": (
        *("machines", "machine-settings", "queue N waiting", "run that waits"),
        *("project-settings", "project-untrack", "metrics"),
    ),
    "they explain a commit by at most 240 points before it, of which the short history has fewer": ("timeline-why",),
    "they read all change points of their lines, to find those on the way": (
        *("timeline-values JSON, lines of N branches", "timeline-picture"),
    ),
    "they look at all change points of a project that has at most changes.FEW": ("home", "changes-feed"),
    "they pass over the runs that wait, the newest of their project": ("away: api:list_measurements N rows",),
    "known faults: they read more rows of a longer history than they show": ("api:list_change_points N rows",),
}
EXCEPTIONS = {page for pages in REASONS.values() for page in pages}


def test_no_page_reads_more_rows_of_a_longer_history(clean_tables: None, suites: None) -> None:
    short = rows_by_page(SMALL)
    long = rows_by_page({name: extent.longer(LONGER) for name, extent in SMALL.items()})
    growing = {name: grown for name in short.keys() & long.keys() if (grown := growth(short[name], long[name]))}
    named = {name for name in growing if not EXCEPTIONS & {name, page_of(name)}}
    unforeseen = [description(name, growing[name]) for name in sorted(named)]
    assert not unforeseen, "\n\n".join(unforeseen)


def rows_by_page(extents: Mapping[str, ShapeExtent]) -> dict[str, list[Reading]]:
    """What each statement of each page reads in a database of all parts, as large as that."""
    with undone():
        write_shape(SHAPES["kind"], extents, seed=1)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        return {name: readings_of(visit) for name, visit in visits()}


def visits() -> Iterator[tuple[str, partial[object]]]:
    """The name of each page, and how it is got: by a visitor if it needs no account."""
    visitor, operator = client_of(None), client_of("")
    for name in SHAPES["kind"]:
        part = PARTS[name]
        member = client_of(part.person) if part.person else visitor
        for page in pages_of_projects(MeasuredProjects(part.slug, part.slug)):
            if page.addresses:
                yield f"{name}: {name_of(page)}", partial(get, operator if page.name in PERSONAL else member, page)
    for page in other_pages():
        yield f"all: {name_of(page)}", partial(get, operator if page.name in PERSONAL else visitor, page)


def name_of(page: PageKind) -> str:
    """Its name and title, the same in a longer history."""
    return re.sub(r"\d[\d,]*", "N", f"{page.name} {page.title}".strip())


def get(client: Client, page: PageKind) -> object:
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


def page_of(name: str) -> str:
    """The name and title of a page, without the part of the database."""
    return name.partition(": ")[2]


def description(name: str, statements: dict[str, tuple[int, int]]) -> str:
    lines = [f"  {short} -> {long} rows: {sql[:1000]}" for sql, (short, long) in statements.items()]
    return "\n".join([name, *lines])
