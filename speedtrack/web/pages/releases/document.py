"""Releases as JSON and CSV."""

from collections.abc import Iterator
from typing import Any

from speedtrack.judging.sides import ComparedRow
from speedtrack.web.pages.releases.page import ReleasesPage
from speedtrack.web.pages.releases.tables import ReleaseCell


def releases_document(page: ReleasesPage) -> dict[str, Any]:
    return {
        "schema": "speedtrack.releases/1",
        "project": page.project.slug,
        "machine": page.machine.name if page.machine else None,
        "metric": page.metric.name,
        "releases": [
            {"release": release.tag, "commit": release.commit.sha, "failure": release.failure or None}
            for release in page.releases
        ],
        "benchmarks": [
            {"name": table.name, "releases": [cell_document(cell) for cell in table.cells if cell.point]}
            for table in page.tables
        ],
    }


def cell_document(cell: ReleaseCell) -> dict[str, Any]:
    point = cell.point
    assert point
    return {
        "release": cell.release.tag,
        "median": point.value,
        "low": point.low,
        "high": point.high,
        "flags": point.flags,
        "against": [
            {"release": tag, "ratio": row.ratio, "low": row.low, "high": row.high, "verdict": row.verdict}
            for tag, row in ((cell.before, cell.since_before), (cell.first, cell.since_first))
            if row
        ],
    }


def csv_rows(page: ReleasesPage) -> Iterator[list[Any]]:
    """A header, then a row per benchmark and release, then one per release that was not measured, with its cause."""
    against = ["ratio", "low", "high", "verdict"]
    yield [
        *("project", "benchmark", "release", "commit", page.metric.name, "low", "high", "flags"),
        *(f"{name}_{column}" for name in ("before", "first") for column in ["release", *against]),
        "failure",
    ]
    for table in page.tables:
        for cell in table.cells:
            if point := cell.point:
                own = [page.project.slug, table.name, cell.release.tag, cell.release.commit.sha]
                yield [
                    *own,
                    *(point.value, point.low, point.high, " ".join(point.flags)),
                    *csv_cells(cell.before, cell.since_before),
                    *csv_cells(cell.first, cell.since_first),
                    "",
                ]
    for release in page.releases:
        if release.failure:
            yield [page.project.slug, "", release.tag, release.commit.sha, *[""] * 14, release.failure]


def csv_cells(tag: str, row: ComparedRow | None) -> list[Any]:
    return [tag, row.ratio, row.low, row.high, row.verdict] if row else [""] * 5
