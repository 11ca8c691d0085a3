"""A commit with what one machine measured of it."""

from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.judging.verdicts import ORDER, words_of
from speedtrack.reports.common import Document, From, Text
from speedtrack.reports.projects import CommitDocument
from speedtrack.reports.readings.commits import CommitReading, CommitResults, answer_without
from speedtrack.reports.runs import RunDocument


class CommitResultDocument(Document):
    """What a series shows of a commit, against the commit that it measured before."""

    series: int
    benchmark: Text
    metric: str
    unit: str
    value: float | None
    low: float | None = Field(description="lower end of the value's 95% interval")
    high: float | None
    n: int
    flags: list[str] = Field(description="why the value is not to be trusted")
    commits_before: int | None = Field(
        description="how many commits lie between it and the one before, and one; null: not compared"
    )
    value_before: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    answer: str = Field(description="in words")
    verdict: str | None = Field(description="null: not compared")


COMPARED = ("commits_before", "value_before", "ratio", "ratio_low", "ratio_high", "verdict", "answer")


def result_values(results: CommitResults) -> list[dict[str, Any]]:
    """The values of the document of each result, by columns, as there may be thousands."""
    series, neighbours = results.series, results.neighbours
    judgements, points = neighbours.judgements, results.points(np.arange(len(results)))
    words = [[words_of(ruling, metric) for ruling in ORDER] for metric in judgements.metrics]
    columns = (neighbours.index, neighbours.distance, neighbours.old, judgements.ratio, judgements.low, judgements.high)
    compared = {
        index: (*numbers, ORDER[ruling], words[metric][ruling])
        for index, *numbers, ruling, metric in zip(
            *(column.tolist() for column in (*columns, judgements.ruling, judgements.metric)), strict=True
        )
    }
    names = series.names.benchmarks
    metrics = [{"metric": name, "unit": METRICS[name].unit} for name in series.names.metrics]
    own_columns = (series.series, series.name, series.metric, series.is_new)
    rows = enumerate(zip(*(column.tolist() for column in own_columns), strict=True))
    return [
        {"series": pk, "benchmark": names[name], **metrics[metric]}
        | {"value": point.value, "low": point.low, "high": point.high, "n": point.n, "flags": point.flags}
        | dict(zip(COMPARED, compared.get(index) or (*[None] * 6, answer_without(not is_new)), strict=True))
        for index, (pk, name, metric, is_new) in rows
        if (point := points.get(pk))
    ]


class CommitRunDocument(RunDocument):
    """A run of a commit."""

    why_waiting: Text = Field(description="why a queued run is not measured yet; empty if it does not wait")


class CommitAlertDocument(Document):
    """An alert that names a commit."""

    id: Annotated[int, From("alert.pk")]
    status: Annotated[str, From("alert.status")]
    roles: list[str] = Field(description="what the commit is to it, in words")


class CommitDetails(CommitDocument):
    """A commit with what one machine measured of it."""

    SCHEMA = "speedtrack.commit/2"
    summary: Text = Field(description="what it did in one sentence, over all machines")

    project: Annotated[str, From("project.slug")]
    branch: str | None = Field(description="the branch along which it is compared")
    tags: list[Text]
    last_release: str | None
    machines: list[str] = Field(description="those that measured it")
    machine: str | None = Field(description="the one whose results these are")
    results: list[CommitResultDocument]
    runs: list[CommitRunDocument] = Field(description="newest first")
    alerts: list[CommitAlertDocument]

    @classmethod
    def read(cls, commit: CommitReading) -> Self:
        return cls.of(
            commit.commit,
            project=commit.commit.project.slug,
            position=commit.position,
            summary=commit.summary.sentence,
            branch=commit.branch and commit.branch.name,
            tags=commit.tags,
            last_release=commit.release and commit.release.tag,
            machines=commit.machines,
            machine=commit.machine,
            results=result_values(commit.measured),
            runs=[CommitRunDocument.of(run, why_waiting=commit.waiting.get(run.pk, "")) for run in commit.runs],
            alerts=list(map(CommitAlertDocument.of, commit.alerts)),
        )
