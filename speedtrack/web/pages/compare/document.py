"""A comparison as JSON and CSV: all rows that fit the filters."""

from collections.abc import Iterator
from typing import Any

from speedtrack.reports.comparing import ComparisonDocument, compared_values
from speedtrack.web.pages.compare.page import ComparePage

COLUMNS = ("benchmark", "metric", "base", "head", "ratio", "low", "high", "verdict", "pairs", "doubts", "flags")


def compare_document(page: ComparePage) -> ComparisonDocument:
    """The comparison; ``rows`` are all that fit the page's filters."""
    return ComparisonDocument.of(page.reading, rows=compared_values(page.rows))


def csv_rows(document: ComparisonDocument) -> Iterator[list[Any]]:
    yield list(COLUMNS)
    for row in document.model_dump(include={"rows"})["rows"]:
        values = row | {"base": row["base"]["value"], "head": row["head"]["value"]}
        yield [" ".join(values[name]) if isinstance(values[name], list) else values[name] for name in COLUMNS]
