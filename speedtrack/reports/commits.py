"""A commit with what one machine measured of it."""

from typing import Annotated, Self

from pydantic import Field

from speedtrack.reports.common import Document, From, Text
from speedtrack.reports.projects import CommitDocument
from speedtrack.reports.readings.commits import CommitReading
from speedtrack.reports.runs import RunDocument


class CommitResultDocument(Document):
    """What a series shows of a commit, against the commit that it measured before."""

    series: Annotated[int, From("series_id")]
    benchmark: Text
    metric: Annotated[str, From("metric.name")]
    unit: Annotated[str, From("metric.unit")]
    value: Annotated[float | None, From("point.value")]
    low: Annotated[float | None, From("point.low")] = Field(description="lower end of the value's 95% interval")
    high: Annotated[float | None, From("point.high")]
    n: Annotated[int, From("point.n")]
    flags: Annotated[list[str], From("point.flags")] = Field(description="why the value is not to be trusted")
    commits_before: Annotated[int | None, From("comparison.distance")] = Field(
        description="how many commits lie between it and the one before, and one; null: not compared"
    )
    value_before: Annotated[float | None, From("comparison.old")]
    ratio: Annotated[float | None, From("comparison.judgement.ratio")]
    ratio_low: Annotated[float | None, From("comparison.judgement.low")]
    ratio_high: Annotated[float | None, From("comparison.judgement.high")]
    answer: str = Field(description="in words")
    verdict: Annotated[str | None, From("comparison.judgement.verdict")] = Field(description="null: not compared")


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
            results=list(map(CommitResultDocument.of, commit.measured)),
            runs=[CommitRunDocument.of(run, why_waiting=commit.waiting.get(run.pk, "")) for run in commit.runs],
            alerts=list(map(CommitAlertDocument.of, commit.alerts)),
        )
