"""The page of a commit as CSV: the results of one machine."""

from collections.abc import Iterator
from typing import Any

from speedtrack.reports.commits import CommitDetails
from speedtrack.web.requests.formats import rows_of

RESULT_COLUMNS = (
    *("benchmark", "metric", "unit", "value", "low", "high", "n", "flags"),
    *("commits_before", "value_before", "ratio", "ratio_low", "ratio_high", "answer", "verdict"),
)


def csv_rows(document: CommitDetails) -> Iterator[list[Any]]:
    return rows_of(RESULT_COLUMNS, document.results)
