"""Changes, and what people decide about them."""

from dataclasses import asdict
from typing import Any

from django.db.models import Prefetch, QuerySet
from pydantic import Field

from speedtrack.alerts.headlines import headline
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, Mute, Verdict
from speedtrack.alerts.pairs import counts
from speedtrack.alerts.pairs.sizes import settling_verdicts
from speedtrack.alerts.triage.restorations import restoration_in_words
from speedtrack.alerts.triage.triage import CHOICES
from speedtrack.reports.common import Document, Order, Sent, Text, Time, Whole


def known_changes() -> QuerySet[ChangePoint]:
    """Change points with all that their documents show."""
    related = ("branch", "before", "commit", "series__project", "series__benchmark", "series__machine")
    found: QuerySet[ChangePoint] = ChangePoint.objects.select_related(*related)
    return found.defer("series__benchmark__definition", "series__benchmark__why", "series__machine__facts")


def known_alerts() -> QuerySet[Alert]:
    """Alerts with all that their documents show."""
    related = ("project", "branch", "before", "commit", "assignee", "reverted_by", "fixed_by")
    rows: QuerySet[Alert] = Alert.objects.with_range().select_related(*related)
    return rows.prefetch_related(Prefetch("change_points", known_changes()))


class ChangePointDocument(Document):
    """A series moved within a range of commits, (`before`, `commit`]."""

    id: int
    project: str
    series: int
    benchmark: Text
    metric: str
    machine: str
    branch: Text = Field(description="the branch on which it was found")
    before: str = Field(description="the last commit known to run on the old level")
    commit: str = Field(description="the first commit known to run on the new one")
    kind: str = Field(description="`step`, or `drift`: little by little")
    status: str = Field(
        description="`suspected`, `settling`, `confirmed`, `refuted`, `unsettled`, `history` or `machine`"
    )
    is_slowdown: bool
    ratio: float | None = Field(description="size of the change: new level / old level")
    low: float | None = Field(description="lower end of the ratio's 95% interval")
    high: float | None
    note: Text
    created: Time
    settled_at: Time | None
    alert: int | None = Field(description="the alert that it belongs to")

    @staticmethod
    def of(one: ChangePoint) -> "ChangePointDocument":
        series = one.series
        return ChangePointDocument(
            id=one.pk,
            project=series.project.slug,
            series=series.pk,
            benchmark=series.benchmark.name,
            metric=series.metric,
            machine=series.machine.name,
            branch=one.branch.name,
            before=one.before.sha,
            commit=one.commit.sha,
            kind=one.kind,
            status=one.status,
            is_slowdown=one.is_slowdown,
            ratio=one.ratio,
            low=one.low,
            high=one.high,
            note=one.note,
            created=one.created,
            settled_at=one.settled_at,
            alert=one.alert_id,
        )


class AlertDocument(Document):
    """Work for a person: the changes that one range of commits, (`before`, `commit`], caused."""

    id: int
    project: str
    status: str = Field(description="`suspected`, `confirmed`, `expected`, `invalid` or `fixed`")
    is_open: bool = Field(description="nobody has settled it")
    is_improvement: bool = Field(description="nothing got worse")
    is_muted: bool = Field(description="it was raised silently")
    cause: Text = Field(description="the range in words")
    branch: Text = Field(description="the branch on which it was found")
    branches: list[str] = Field(description="the tracked branches that contain its newest commit")
    before: str
    commit: str
    subject: Text = Field(description="of the newest commit of its range")
    commits: int = Field(description="how many commits its range has")
    assignee: str | None
    created: Time
    reverted_by: str | None = Field(description="the commit whose message says that it reverts the cause")
    fixed_by: str | None = Field(description="the commit that restored the old level")
    merged_into: int | None
    summary: Text = Field(
        description="the largest change in each direction, slowdowns first",
        examples=["slower +5.0%: get-p1 and 2 more; faster −50.0%: set-p1"],
    )
    changes: list[ChangePointDocument] = Field(description="first slowdowns, the largest first")
    url: str

    @staticmethod
    def of(one: Alert) -> "AlertDocument":
        return AlertDocument(**alert_fields(one))


def alert_fields(one: Alert) -> dict[str, Any]:
    """The fields of an alert's document. ``one`` is loaded as ``known_alerts`` does."""
    changes = sorted(one.change_points.all(), key=lambda change: (change.rank, change.pk))
    return {
        "id": one.pk,
        "project": one.project.slug,
        "status": one.status,
        "is_open": one.status in Alert.OPEN and one.merged_into_id is None,
        "is_improvement": one.improvement,
        "is_muted": one.muted,
        "cause": one.cause,
        "branch": one.branch.name,
        "branches": one.containing,
        "before": one.before.sha,
        "commit": one.commit.sha,
        "subject": one.commit.subject,
        "commits": one.width,
        "assignee": one.assignee.get_username() if one.assignee else None,
        "created": one.created,
        "reverted_by": one.reverted_by.sha if one.reverted_by else None,
        "fixed_by": one.fixed_by.sha if one.fixed_by else None,
        "merged_into": one.merged_into_id,
        "summary": headline(changes),
        "changes": [ChangePointDocument.of(change) for change in changes],
        "url": f"/api/v1/alerts/{one.pk}",
    }


class AlertEventDocument(Document):
    """What happened to an alert."""

    kind: str
    at: Time
    who: str | None = Field(description="null: SpeedTrack did it by itself")
    before: str = Field(description="the status before; empty if it stayed")
    after: str
    note: Text

    @staticmethod
    def of(one: AlertEvent) -> "AlertEventDocument":
        who = one.who.get_username() if one.who else None
        return AlertEventDocument(kind=one.kind, at=one.at, who=who, before=one.before, after=one.after, note=one.note)


class FunctionCostDocument(Document):
    """A function of the server: its own instructions per request, without those of what it calls."""

    name: Text
    before: float
    after: float


class FunctionTableDocument(Document):
    """Which functions cost more or less under a benchmark, the largest difference first."""

    benchmark: Text
    inside: Text = Field(description="the function inside of which instructions were counted")
    before: float = Field(description="instructions per request in all")
    after: float
    functions: list[FunctionCostDocument]


class SettledChangeDocument(ChangePointDocument):
    """A change of an alert, with the pairs that settled it."""

    pairs: int | None = Field(description="of both ends of the range; null: none have shown the change")
    p: float | None = Field(description="the reciprocal of the evidence of these pairs")


class AlertDetails(AlertDocument):
    """An alert with its history, and what counts of instructions say about it."""

    changes: list[SettledChangeDocument] = Field(description="first slowdowns, the largest first")  # type: ignore[assignment]
    fixed_on: list[str] = Field(description="of a fixed alert: the tracked branches that contain the fix")
    which_moved: list[Text] = Field(
        description="by benchmark whose instructions are known: `more instructions`, or `the same instructions, slower`"
    )
    function_tables: list[FunctionTableDocument] = Field(description="of counted changes that were counted again")
    restoration: Text = Field(
        description="of an open alert of which some series are back on the old level: which are, and which are not"
    )
    history: list[AlertEventDocument] = Field(description="oldest first")

    @staticmethod
    def of(one: Alert) -> "AlertDetails":
        events = list(one.events.select_related("who").order_by("pk"))
        changes = sorted(one.change_points.all(), key=lambda change: (change.rank, change.pk))
        verdicts = settling_verdicts(changes)
        return AlertDetails(
            **alert_fields(one) | {"changes": [settled(change, verdicts.get(change.pk)) for change in changes]},
            fixed_on=one.branches_fixed()[0] if one.fixed_by_id else [],
            which_moved=counts.which_moved(changes),
            function_tables=[FunctionTableDocument(**asdict(table)) for table in counts.function_tables(changes)],
            restoration=restoration_in_words(events),
            history=[AlertEventDocument.of(event) for event in events],
        )


def settled(change: ChangePoint, verdict: Verdict | None) -> SettledChangeDocument:
    fields = ChangePointDocument.of(change).model_dump()
    return SettledChangeDocument(**fields, pairs=verdict.pairs if verdict else None, p=verdict.p if verdict else None)


class AlertDecision(Order):
    """What a person decides about an alert. What is absent stays."""

    seen: Sent = Field(
        max_length=20,
        description="the status that the decision rests on: if it is another one now, 409",
        examples=["confirmed"],
    )
    status: Sent | None = Field(
        None,
        max_length=20,
        description=f"`{'`, `'.join(CHOICES)}`; the second and third need a note",
        examples=["expected"],
    )
    assignee: Sent | None = Field(None, max_length=150, description="name of a user; empty: nobody")
    note: Sent = Field("", max_length=4000, examples=["The new checks are worth it."])


class MuteDocument(Document):
    """For a while nobody is notified of some changes."""

    id: int
    project: str
    benchmark: Text = Field(description="empty: all")
    metric: str = Field(description="empty: all")
    machine: str | None = Field(description="null: all")
    reason: Text
    until: Time
    created: Time
    who: str | None
    ended_at: Time | None = Field(description="when a person ended it early")
    url: str

    @staticmethod
    def of(one: Mute) -> "MuteDocument":
        return MuteDocument(
            id=one.pk,
            project=one.project.slug,
            benchmark=one.benchmark,
            metric=one.metric,
            machine=one.machine.name if one.machine else None,
            reason=one.reason,
            until=one.until,
            created=one.created,
            who=one.who.get_username() if one.who else None,
            ended_at=one.ended_at,
            url=f"/api/v1/mutes/{one.pk}",
        )


class MuteOrder(Order):
    """What is to be muted; a benchmark or a machine at least."""

    benchmark: Sent = Field("", max_length=100, description="empty: all", examples=["get-p1"])
    metric: Sent = Field("", max_length=60, description="empty: all of the benchmark")
    machine: Sent | None = Field(None, max_length=50, description="null: all")
    reason: Sent = Field(min_length=1, max_length=2000, examples=["The rack is being moved."])
    days: Whole = Field(ge=1, le=365, description="for how long", examples=[7])
