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
    changes: QuerySet[ChangePoint] = ChangePoint.objects.select_related(*related)
    return changes.defer("series__benchmark__definition", "series__benchmark__why", "series__machine__facts")


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
    def of(point: ChangePoint) -> "ChangePointDocument":
        series = point.series
        return ChangePointDocument(
            id=point.pk,
            project=series.project.slug,
            series=series.pk,
            benchmark=series.benchmark.name,
            metric=series.metric,
            machine=series.machine.name,
            branch=point.branch.name,
            before=point.before.sha,
            commit=point.commit.sha,
            kind=point.kind,
            status=point.status,
            is_slowdown=point.is_slowdown,
            ratio=point.ratio,
            low=point.low,
            high=point.high,
            note=point.note,
            created=point.created,
            settled_at=point.settled_at,
            alert=point.alert_id,
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
    def of(alert: Alert) -> "AlertDocument":
        return AlertDocument(**alert_fields(alert))


def alert_fields(alert: Alert) -> dict[str, Any]:
    """The fields of an alert's document. ``alert`` is loaded as ``known_alerts`` does."""
    changes = sorted(alert.change_points.all(), key=lambda change: (change.rank, change.pk))
    return {
        "id": alert.pk,
        "project": alert.project.slug,
        "status": alert.status,
        "is_open": alert.status in Alert.OPEN and alert.merged_into_id is None,
        "is_improvement": alert.improvement,
        "is_muted": alert.muted,
        "cause": alert.cause,
        "branch": alert.branch.name,
        "branches": alert.containing,
        "before": alert.before.sha,
        "commit": alert.commit.sha,
        "subject": alert.commit.subject,
        "commits": alert.width,
        "assignee": alert.assignee.get_username() if alert.assignee else None,
        "created": alert.created,
        "reverted_by": alert.reverted_by.sha if alert.reverted_by else None,
        "fixed_by": alert.fixed_by.sha if alert.fixed_by else None,
        "merged_into": alert.merged_into_id,
        "summary": headline(changes),
        "changes": [ChangePointDocument.of(change) for change in changes],
        "url": f"/api/v1/alerts/{alert.pk}",
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
    def of(event: AlertEvent) -> "AlertEventDocument":
        name = event.who.get_username() if event.who else None
        return AlertEventDocument(
            kind=event.kind, at=event.at, who=name, before=event.before, after=event.after, note=event.note
        )


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
    def of(alert: Alert) -> "AlertDetails":
        events = list(alert.events.select_related("who").order_by("pk"))
        changes = sorted(alert.change_points.all(), key=lambda change: (change.rank, change.pk))
        verdicts = settling_verdicts(changes)
        return AlertDetails(
            **alert_fields(alert) | {"changes": [settled(change, verdicts.get(change.pk)) for change in changes]},
            fixed_on=alert.branches_fixed()[0] if alert.fixed_by_id else [],
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
    def of(mute: Mute) -> "MuteDocument":
        return MuteDocument(
            id=mute.pk,
            project=mute.project.slug,
            benchmark=mute.benchmark,
            metric=mute.metric,
            machine=mute.machine.name if mute.machine else None,
            reason=mute.reason,
            until=mute.until,
            created=mute.created,
            who=mute.who.get_username() if mute.who else None,
            ended_at=mute.ended_at,
            url=f"/api/v1/mutes/{mute.pk}",
        )


class MuteOrder(Order):
    """What is to be muted; a benchmark or a machine at least."""

    benchmark: Sent = Field("", max_length=100, description="empty: all", examples=["get-p1"])
    metric: Sent = Field("", max_length=60, description="empty: all of the benchmark")
    machine: Sent | None = Field(None, max_length=50, description="null: all")
    reason: Sent = Field(min_length=1, max_length=2000, examples=["The rack is being moved."])
    days: Whole = Field(ge=1, le=365, description="for how long", examples=[7])
