"""A page of ladders as JSON and as CSV."""

from collections.abc import Iterator
from typing import Any

from speedtrack.runs.results.environments import shorten
from speedtrack.web.pages.ladders.lines import LadderLine
from speedtrack.web.pages.ladders.page import LaddersPage
from speedtrack.web.pages.ladders.rows import LadderCell


def ladders_document(page: LaddersPage) -> dict[str, Any]:
    return {
        "schema": "speedtrack.ladders/1",
        "ladder": page.ladder.name if page.ladder else None,
        "axis": page.ladder.axis if page.ladder else None,
        "machine": page.machine.name if page.machine else None,
        "metric": page.metric.name,
        "lines": [line_document(line, cells_of(page, number)) for number, line in enumerate(page.lines)],
    }


def cells_of(page: LaddersPage, number: int) -> list[tuple[float, LadderCell]]:
    """The cells of one line, each with its value of the axis."""
    return [(row.value, row.cells[number]) for row in page.rows]


def line_document(line: LadderLine, cells: list[tuple[float, LadderCell]]) -> dict[str, Any]:
    return {
        "project": line.commit.project.slug,
        "commit": line.commit.sha,
        "release": line.release,
        "ladder": line.ladder,
        "environment": environment_of(line) or None,
        "points": [
            {
                "value": value,
                "median": measurement.value,
                "low": measurement.low,
                "high": measurement.high,
                "flags": measurement.flags,
            }
            for value, cell in cells
            if (measurement := cell.measured)
        ],
        "out_of_reach": [{"value": value, "reason": cell.out_of_reach} for value, cell in cells if cell.out_of_reach],
        "elsewhere": [{"value": value, "reason": cell.elsewhere} for value, cell in cells if cell.elsewhere],
    }


def environment_of(line: LadderLine) -> str:
    return shorten(line.environment.digest) if line.environment else ""


def csv_rows(page: LaddersPage) -> Iterator[list[str]]:
    """A header, then one row per line and value."""
    axis = page.ladder.axis if page.ladder else "value"
    yield ["project", "commit", "release", "ladder", axis, page.metric.name, "low", "high", "n", "flags", "environment"]
    for number, line in enumerate(page.lines):
        for value, cell in cells_of(page, number):
            if measurement := cell.measured:
                start = [line.commit.project.slug, line.commit.sha, line.release, line.ladder, f"{value:g}"]
                numbers = [str(v) for v in (measurement.value, measurement.low, measurement.high, measurement.n)]
                yield [*start, *numbers, " ".join(measurement.flags), environment_of(line)]
