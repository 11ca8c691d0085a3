"""Two commits against each other."""

from pydantic import Field

from speedtrack.judging.points import SidePoint
from speedtrack.judging.pulls import PairedJudgement
from speedtrack.judging.sides import ComparedRow
from speedtrack.reports.common import Document, Order, Sent, Text, Time

VERDICT = Field(
    description="of the head against the base: `worse`, `better`, `same`, `uncertain`, `flagged` (a flag voids a "
    "side), `same program` (built bit for bit alike) or `not comparable` (measured in different series)"
)


class SideDocument(Document):
    """What was measured of one commit."""

    value: float | None = Field(description="in the unit of the metric")
    low: float | None = Field(description="lower end of its 95% interval")
    high: float | None
    series: int

    @staticmethod
    def of(point: SidePoint) -> "SideDocument":
        return SideDocument(value=point.value, low=point.low, high=point.high, series=point.series_id)


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
    pairs: int = Field(description="how many pairs the verdict rests on; 0: on separate measurements")
    doubts: list[str] = Field(description="what differs besides the commit: `machine`, `environment`, `definition`")
    flags: list[str] = Field(description="why the values are not to be trusted")
    base: SideDocument
    head: SideDocument

    @staticmethod
    def of(row: ComparedRow) -> "ComparedDocument":
        return ComparedDocument(
            benchmark=row.benchmark,
            metric=row.metric.name,
            unit=row.metric.unit,
            better=row.metric.better.value,
            verdict=row.verdict,
            ratio=row.ratio,
            low=row.low,
            high=row.high,
            pairs=row.pairs,
            doubts=[str(doubt) for doubt in row.doubts],
            flags=row.flags,
            base=SideDocument.of(row.base),
            head=SideDocument.of(row.head),
        )


class OneSided(Document):
    """A benchmark and metric that only one of both commits has."""

    benchmark: Text
    metric: str


class ComparisonDocument(Document):
    """The comparison of two commits by every benchmark that both have; what differs comes first, the largest first."""

    project: str
    base: str = Field(description="commit id")
    head: str
    machine: str | None = Field(description="null: no machine measured either")
    rows: list[ComparedDocument]
    only_base: list[OneSided]
    only_head: list[OneSided]


class PairedComparisonOrder(Order):
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
    benchmarks: list[Sent] = Field([], max_length=100, description="only these; none: the suite's usual ones")
    machine: Sent | None = Field(None, max_length=50, description="only on this one; null: on those of the project")
    reason: Sent = Field("", max_length=500, description="for the audit log")


class PairedRow(Document):
    """One benchmark and metric on one machine."""

    machine: str
    benchmark: Text
    metric: str
    unit: str
    better: str
    verdict: str = VERDICT
    ratio: float = Field(description="head / base")
    low: float = Field(description="lower end of the ratio's 95% interval")
    high: float
    pairs: int

    @staticmethod
    def of(row: PairedJudgement) -> "PairedRow":
        judgement = row.judgement
        return PairedRow(
            machine=row.machine,
            benchmark=row.benchmark,
            metric=judgement.metric.name,
            unit=judgement.metric.unit,
            better=judgement.metric.better.value,
            verdict=judgement.verdict,
            ratio=judgement.ratio,
            low=judgement.low,
            high=judgement.high,
            pairs=judgement.pairs,
        )


class PairedRun(Document):
    """A paired run of a comparison."""

    id: int
    machine: str
    status: str = Field(description="`queued`, `leased`, `running`, `succeeded`, `failed` or `cancelled`")
    error: Text
    url: str


class PairedComparisonDocument(Document):
    """A head that is measured in pairs against its merge base."""

    id: int
    project: str
    state: str = Field(
        description="`fetching` (its commits), `queued`, `running`, `done`, or `failed` (`error` says why)",
        examples=["done"],
    )
    is_ended: bool = Field(description="it will not change any more: stop asking")
    verdict: str | None = Field(
        description="the worst of its rows: `worse`, else `uncertain`, `better`, `same` or `same program`; null while "
        "it is measured"
    )
    head: str | None = Field(description="commit id; null until it is known")
    base: str | None = Field(description="commit id of the merge base")
    error: Text
    created: Time
    runs: list[PairedRun]
    rows: list[PairedRow] = Field(description="first what differs; those of ended runs")
    url: str
