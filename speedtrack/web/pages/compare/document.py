"""A comparison as JSON and CSV: all rows that fit the filters."""

from collections.abc import Iterator
from typing import Any

from speedtrack.reports.comparing import (
    ComparedDocument,
    ComparedSideDocument,
    ComparisonDetails,
    DifferenceDocument,
    TotalDocument,
)
from speedtrack.web.pages.compare.page import ComparePage

COLUMNS = ("benchmark", "metric", "base", "head", "ratio", "low", "high", "verdict", "pairs", "doubts", "flags")


def compare_document(page: ComparePage) -> ComparisonDetails:
    base, head = (page.sides.base, page.sides.head) if page.sides else (None, None)
    return ComparisonDetails.of(
        page.found,
        rows=list(map(ComparedDocument.of, page.rows)),
        project=page.project.slug,
        base=base and base.commit.sha,
        head=head and head.commit.sha,
        machine=head and head.machine and head.machine.name,
        base_side=base and ComparedSideDocument.of(base),
        head_side=head and ComparedSideDocument.of(head),
        notes=page.sides.notes if page.sides else [],
        differences=list(map(DifferenceDocument.of, page.differences)),
        totals=list(map(TotalDocument.of, page.totals)),
    )


def csv_rows(document: ComparisonDetails) -> Iterator[list[Any]]:
    yield list(COLUMNS)
    for row in document.rows:
        values = row.model_dump() | {"base": row.base.value, "head": row.head.value}
        yield [" ".join(values[name]) if isinstance(values[name], list) else values[name] for name in COLUMNS]
