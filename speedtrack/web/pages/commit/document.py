"""The page of a commit as JSON and as CSV: the results of one machine."""

from collections.abc import Iterator
from typing import Any

from speedtrack.reports.commits import CommitAlertDocument, CommitDetails, CommitResultDocument, CommitRunDocument
from speedtrack.runs.models import Run
from speedtrack.web.pages.commit.page import CommitPage
from speedtrack.web.requests.formats import rows_of

RESULT_COLUMNS = (
    *("benchmark", "metric", "unit", "value", "low", "high", "n", "flags"),
    *("commits_before", "value_before", "ratio", "ratio_low", "ratio_high", "answer", "verdict"),
)


def commit_document(page: CommitPage) -> CommitDetails:
    return CommitDetails.of(
        page.commit,
        position=page.position,
        summary=page.verdict.summary.sentence,
        branch=page.branch.name if page.branch else None,
        tags=page.tags,
        last_release=page.release.tag if page.release else None,
        machines=page.machines,
        machine=page.results.machine if page.results else None,
        results=list(map(CommitResultDocument.of, page.measured)),
        runs=[run_document(page, run) for run in page.runs],
        alerts=list(map(CommitAlertDocument.of, page.alerts)),
    )


def run_document(page: CommitPage, run: Run) -> CommitRunDocument:
    run.project, run.commit = page.project, page.commit
    return CommitRunDocument.of(run, why_waiting=page.waiting.get(run.pk, ""))


def csv_rows(document: CommitDetails) -> Iterator[list[Any]]:
    return rows_of(RESULT_COLUMNS, document.results)
