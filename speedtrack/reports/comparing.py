"""Two commits against each other."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from speedtrack.judging.sidecolumns import SideColumns
from speedtrack.judging.sides import ComparedRows
from speedtrack.judging.verdicts import ORDER, Basis
from speedtrack.reports.common import Document, Filled, From, Order, Sent, Text, Time, Tried
from speedtrack.reports.readings.sides import BothSides

VERDICT = Field(
    description="of the head against the base: `worse`, `better`, `same`, `uncertain`, `flagged` (a flag voids a "
    "side), `same program` (built bit for bit alike) or `not comparable` (measured in different series)"
)


def every(document: type[Document], path: str) -> From:
    """A list of documents, of the rows at a path."""
    rows = From(path)
    return From(lambda reading: list(map(document.of, rows.read(reading))))


class SideDocument(Document):
    """What was measured of one commit."""

    value: float | None = Field(description="in the unit of the metric")
    low: float | None = Field(description="lower end of its 95% interval")
    high: float | None
    series: int


class ComparedDocument(Document):
    """One benchmark and metric of both commits."""

    benchmark: Text
    metric: str
    unit: str
    better: str
    verdict: str = VERDICT
    ratio: float | None = Field(description="head / base")
    low: float | None = Field(description="lower end of the ratio's 95% interval")
    high: float | None
    basis: str = Field(
        description="what the verdict rests on: `change` (a confirmed one), `pairs`, `stored` (compared when it was "
        "measured) or `samples` (compared now)"
    )
    pairs: int = Field(description="how many pairs the verdict rests on; 0: on separate measurements")
    doubts: list[str] = Field(description="what differs besides the commit: `machine`, `environment`, `definition`")
    flags: list[str] = Field(description="why the values are not to be trusted")
    base: SideDocument
    head: SideDocument


def compared_values(rows: ComparedRows) -> list[dict[str, Any]]:
    """The values of the document of each row, by columns, as there may be thousands."""
    judgements, base, head = rows.judgements, side_values(rows.base), side_values(rows.head)
    metrics = [
        {"metric": metric.name, "unit": metric.unit, "better": metric.better.value} for metric in judgements.metrics
    ]
    shared = {"basis": Basis.STORED, "pairs": 0, "doubts": (), "flags": ()}
    columns = (judgements.ratio, judgements.low, judgements.high, judgements.metric, judgements.ruling)
    values: list[dict[str, Any]] = [
        {"benchmark": benchmark, **metrics[metric], "verdict": ORDER[ruling], "ratio": ratio, "low": low, "high": high}
        | {**shared, "base": old, "head": new}
        for benchmark, old, new, ratio, low, high, metric, ruling in zip(
            rows.names, base, head, *(column.tolist() for column in columns), strict=True
        )
    ]
    for index, judgement in judgements.evident.items():
        values[index] |= {"basis": judgement.basis, "pairs": judgement.pairs, "doubts": judgement.doubts}
    flagged = np.flatnonzero(rows.base.is_flagged.astype(bool) | rows.head.is_flagged.astype(bool))
    for index, row in zip(flagged.tolist(), rows.chosen(flagged), strict=True):
        values[index]["flags"] = row.flags
    return values


def side_values(side: SideColumns) -> list[dict[str, Any]]:
    """The values of the document of each point of a side."""
    columns = (column.tolist() for column in (side.value, side.low, side.high, side.series))
    return [
        {"value": value, "low": low, "high": high, "series": pk} for value, low, high, pk in zip(*columns, strict=True)
    ]


class OneSided(Document):
    """A benchmark and metric that only one of both commits has."""

    benchmark: Text
    metric: str


def one_sided(rows: Iterable[tuple[str, str]]) -> list[OneSided]:
    return [OneSided(benchmark=benchmark, metric=metric) for benchmark, metric in rows]


class NearCommitDocument(Document):
    """A measured commit near one that was not measured."""

    commit: Annotated[str, From("commit.sha")]
    apart: int = Field(description="how many commits after it; below zero: before it")


class ComparedSideDocument(Document):
    """One side of a comparison."""

    project: Annotated[str, From("project.slug")]
    name: str = Field(description="as it was asked for")
    commit: Annotated[str, From("commit.sha")]
    behind: int = Field(description="on a page, how many commits before the head of the branch that was asked for")
    machine: Annotated[str | None, From("machine.name")] = Field(description="null: it was not measured")
    nearest_measured: Annotated[
        list[NearCommitDocument], From(lambda side: list(map(NearCommitDocument.of, side.nearest)))
    ]


class DifferenceDocument(Document):
    """What differs between both sides besides the commits."""

    what: Annotated[Text, From("title")]
    facts: Annotated[list[list[Text]], From(lambda difference: list(map(list, difference.facts)))] = Field(
        description="each with its value before and after"
    )


class TotalDocument(Document):
    """All rows of one metric."""

    metric: Annotated[str, From("metric.name")]
    mean_ratio: Annotated[
        list[float | None] | None,
        From(lambda total: total.mean and [total.mean.ratio, *(total.interval or (None, None))]),
    ] = Field(description="geometric mean of head / base, with the ends of its 95% interval; one value has none")
    benchmarks: int = Field(description="how many the mean rests on")
    benchmarks_in_all: Annotated[int, From("of")]
    verdict: str
    verdicts: Annotated[dict[str, int], From("counts")] = Field(description="verdict -> how many rows have it")
    doubtful: int


class ComparisonDocument(Document):
    """Two commits by every benchmark that both have: first what differs, of this the metrics that may raise alerts."""

    SCHEMA = "speedtrack.compare/2"

    project: Annotated[str, From("project.slug")]
    base: Annotated[str | None, From("sides.base.commit.sha")] = Field(
        description="commit id; null: the project has no measured history"
    )
    head: Annotated[str | None, From("sides.head.commit.sha")]
    machine: Annotated[str | None, From("sides.head.machine.name")] = Field(
        description="that measured the head; null: no machine measured it, or not the one that was asked for"
    )
    summary: Annotated[Text, From("summary.sentence")] = Field(description="what differs, in one sentence")
    base_side: Annotated[ComparedSideDocument | None, From(lambda reading: side_of(reading.sides, "base"))]
    head_side: Annotated[ComparedSideDocument | None, From(lambda reading: side_of(reading.sides, "head"))]
    notes: Annotated[list[Text], From(lambda reading: reading.sides.notes if reading.sides else [])] = Field(
        description="what was asked for and is not shown"
    )
    differences: Annotated[list[DifferenceDocument], every(DifferenceDocument, "differences")]
    totals: Annotated[list[TotalDocument], every(TotalDocument, "between.totals")] = Field(
        description="by metric, of all rows"
    )
    rows: Annotated[list[ComparedDocument], From(lambda reading: compared_values(reading.between.rows))]
    only_base: Annotated[list[OneSided], From(lambda reading: one_sided(reading.between.only_base))]
    only_head: Annotated[list[OneSided], From(lambda reading: one_sided(reading.between.only_head))]


def side_of(sides: BothSides | None, end: Literal["base", "head"]) -> ComparedSideDocument | None:
    return ComparedSideDocument.of(getattr(sides, end)) if sides else None


class PairsOrder(Order):
    """What both orders of paired comparisons may choose."""

    benchmarks: list[Sent] = Field([], max_length=100, description="only these; none: the suite's usual ones")
    machine: Sent | None = Field(None, max_length=50, description="only on this one; null: on those of the project")
    reason: Sent = Field("", max_length=500, description="for the audit log")


class PairedComparisonOrder(PairsOrder):
    """Two commits to be measured against each other: the head against its merge base with the base."""

    head: Sent = Field(
        min_length=1, max_length=250, description="a commit id, branch or tag of the repository", examples=["main"]
    )
    base: Sent | None = Field(
        None,
        min_length=1,
        max_length=250,
        description="likewise; null: the project's default branch",
        examples=["main~1"],
    )


class PatchOrder(Tried, PairsOrder):
    """A patch to be measured against the commit that it was made from."""

    diff: Sent = Field(
        min_length=1,
        max_length=500_000,
        description="as `git diff` or `git format-patch` print it",
        examples=["--- /dev/null\n+++ b/tried.txt\n@@ -0,0 +1 @@\n+a new file\n"],
    )
    base: Sent | None = Field(
        None,
        min_length=1,
        max_length=250,
        description="a commit id, branch or tag that the server has; null: the project's default branch",
        examples=["main"],
    )


class PairedRow(Document):
    """One benchmark and metric on one machine."""

    machine: str
    benchmark: Text
    metric: Annotated[str, From("judgement.metric.name")]
    unit: Annotated[str, From("judgement.metric.unit")]
    better: Annotated[str, From("judgement.metric.better.value")]
    verdict: Annotated[str, From("judgement.verdict")] = VERDICT
    ratio: Annotated[float, From("judgement.ratio")] = Field(description="head / base")
    low: Annotated[float, From("judgement.low")] = Field(description="lower end of the ratio's 95% interval")
    high: Annotated[float, From("judgement.high")]
    pairs: Annotated[int, From("judgement.pairs")]


class PairedRun(Document):
    """A paired run of a comparison."""

    id: int
    machine: Annotated[str, From("machine.name")]
    status: str = Field(description="`queued`, `leased`, `running`, `succeeded`, `failed` or `cancelled`")
    error: Text
    url: Annotated[str, Filled("/api/v1/runs/{0.pk}")]


class PairedComparisonDocument(Document):
    """A head that is measured in pairs against its merge base."""

    id: int
    project: str
    state: str = Field(
        description="`unapproved`, `fetching` (its commits), `queued`, `running`, `done`, `failed` (`error` says why)",
        examples=["done"],
    )
    is_ended: bool = Field(description="it will not change any more: stop asking")
    verdict: str | None = Field(
        description="the worst of its rows: `worse`, else `uncertain`, `better`, `same`, `same program` or `flagged`; "
        "null while it is measured"
    )
    head: str | None = Field(description="commit id; null until it is known")
    base: str | None = Field(description="commit id of the merge base")
    error: Text
    created: Time
    runs: list[PairedRun]
    rows: list[PairedRow] = Field(description="first what differs; those of ended runs")
    summary: Text = Field(description="the verdict, or what becomes of it, in one sentence; empty in lists")
    url: str
    page: str = Field(description="the path of its page")
