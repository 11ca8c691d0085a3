"""The most expensive pages of a shape, for a visitor and for a signed-in person."""

from collections.abc import Iterator
from pathlib import Path

from django.test import Client

from research.scale import bench
from research.scale.costs.pages import (
    PERSONAL,
    MeasuredProjects,
    PageCost,
    PageKind,
    client_of,
    cost_of_page,
    other_pages,
    pages_of_projects,
)
from research.scale.marks import read_part, write_part
from research.scale.shapes.parts import PARTS, SHAPES
from speedtrack.runs.models import Measurement

PART = "shapes"
CALLS = 3
TOP = """\
| shape | measurements | visitor's worst page: CPU ms, queries, kB | signed in |
|---|--:|---|---|"""


def run(shape: str, write: Path | None) -> None:
    """Measure every page of a shape twice, print the costs, and write the worst ones as a row of this document."""
    of_visitors = list(printed("a visitor", costs(shape, signed_in=False)))
    of_people = list(printed("signed in", costs(shape, signed_in=True)))
    row = f"| `{shape}` | {Measurement.objects.count():,} | {worst(of_visitors)} | {worst(of_people)} |"
    print(f"{TOP}\n{row}")
    if write:
        write_row(write, shape, row)


def printed(reader: str, rows: Iterator[PageCost]) -> Iterator[PageCost]:
    for row in rows:
        print(f"{reader}: {bench.page_row(row)}", flush=True)
        yield row


def costs(shape: str, signed_in: bool) -> Iterator[PageCost]:
    """Of the pages about each part's project, and once of those that are about all."""
    for number, name in enumerate(SHAPES[shape]):
        shape_part = PARTS[name]
        client = client_of(shape_part.person if signed_in else None)
        for page in [
            *pages_of_projects(MeasuredProjects(shape_part.slug, shape_part.slug)),
            *([] if number else other_pages()),
        ]:
            if page.addresses and (signed_in or page.name not in PERSONAL) and is_shown(client, page):
                yield cost_of_page(page, client, CALLS)


def is_shown(client: Client, page: PageKind) -> bool:
    """Not every shape has what every page needs, and not every person may see it."""
    return client.get(page.addresses[0]).status_code == 200


def worst(rows: list[PageCost]) -> str:
    """Name, CPU, statements and bytes of the page that takes most CPU; bold: a budget is missed."""
    (row,) = bench.heaviest(rows, 1)
    name, _, *figures = bench.page_row(row).strip("| ").split(" | ")
    return f"{name}: {', '.join(figures)}"


def write_row(path: Path, shape: str, row: str) -> None:
    """Put a row in its place in the table of this document."""
    rows = {line.split("`")[1]: line for line in read_part(path, PART).splitlines() if "`" in line}
    rows[shape] = row
    write_part(path, PART, "\n".join([TOP, *(rows[name] for name in SHAPES if name in rows)]))
