"""The page of a commit as JSON and as CSV: the results of one machine."""

from collections.abc import Iterator
from typing import Any

from speedtrack.web.pages.commit.page import CommitPage
from speedtrack.web.pages.commit.results import SeriesResult
from speedtrack.web.requests.formats import rows_of

RESULT_COLUMNS = (
    *("benchmark", "metric", "unit", "value", "low", "high", "n", "flags"),
    *("commits_before", "value_before", "ratio", "ratio_low", "ratio_high", "answer", "verdict"),
)


def commit_document(page: CommitPage) -> dict[str, Any]:
    """The page as JSON."""
    commit = page.commit
    return {
        "schema": "speedtrack.commit/1",
        "project": page.project.slug,
        "sha": commit.sha,
        "subject": commit.subject,
        "author": commit.author_name,
        "committed_at": commit.committed_at,
        "parents": commit.parents,
        "branch": page.branch.name if page.branch else None,
        "tags": page.tags,
        "last_release": page.release.tag if page.release else None,
        "machines": page.machines,
        "machine": page.results.machine if page.results else None,
        "results": [result_document(result) for result in page.measured],
        "runs": [
            {"id": run.pk, "status": run.status, "reason": run.reason, "machine": run.machine.name}
            | ({"why_waiting": page.waiting[run.pk]} if run.pk in page.waiting else {})
            for run in page.runs
        ],
        "alerts": [
            {"id": mention.alert.pk, "status": mention.alert.status, "roles": mention.roles} for mention in page.alerts
        ],
    }


def result_document(result: SeriesResult) -> dict[str, Any]:
    point, neighbour = result.point, result.comparison
    judgement = neighbour.judgement if neighbour else None
    against = (
        (neighbour.distance, neighbour.old, judgement.ratio, judgement.low, judgement.high)
        if neighbour and judgement
        else [None] * 5
    )
    values = (
        point.value,
        point.low,
        point.high,
        point.n,
        point.flags,
        *against,
        result.answer,
        judgement and judgement.verdict,
    )
    return dict(zip(RESULT_COLUMNS, (result.benchmark, result.metric.name, result.metric.unit, *values), strict=True))


def csv_rows(page: CommitPage) -> Iterator[list[Any]]:
    return rows_of(RESULT_COLUMNS, map(result_document, page.measured))
