"""Alerts, their history, and what people decide about them."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Self

from django.conf import settings
from django.db.models import Prefetch, QuerySet
from pydantic import Field

from speedtrack.alerts.headlines import headline
from speedtrack.alerts.hunks.findings import hunks_of
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.pairs import counts
from speedtrack.alerts.pairs.sizes import settling_verdicts
from speedtrack.alerts.triage.restorations import restoration_in_words
from speedtrack.alerts.triage.triage import CHOICES
from speedtrack.benchmarks.metrics import LONGEST_KEY
from speedtrack.benchmarks.models import LONGEST_NAME
from speedtrack.ground.postgres.plainrows import plain_rows
from speedtrack.judging.instructions import Work, is_time_only, sentences_of, works_of
from speedtrack.judging.layouts import layout_sentences
from speedtrack.judging.whole import whole_effect_of
from speedtrack.reports.causes import (
    FunctionTableDocument,
    HunkFindingDocument,
    LinesDocument,
    SettledChangeDocument,
    WholeEffectDocument,
    settled_changes,
)
from speedtrack.reports.changes import (
    COLUMNS_OF_CHANGES,
    ChangePointDocument,
    JudgedDocument,
    known_changes,
    ranked,
    ranked_changes,
)
from speedtrack.reports.common import Document, Filled, From, Order, Sent, Text, Time, Whole, read_columns
from speedtrack.reports.projects import CommitDocument
from speedtrack.reports.readings.lines import lines_of_alert

MOST_CANDIDATES = 10


def known_alerts() -> QuerySet[Alert]:
    """Alerts with all that their documents show."""
    related = ("project", "branch", "before", "commit__project", "assignee", "reverted_by", "fixed_by")
    rows: QuerySet[Alert] = Alert.objects.with_range().select_related(*related)
    return rows.prefetch_related(Prefetch("change_points", known_changes().only(*COLUMNS_OF_CHANGES)))


class AlertDocument(JudgedDocument):
    """Work for a person: the changes that one range of commits, (`before`, `commit`], caused."""

    id: int
    project: Annotated[str, From("project.slug")]
    status: str = Field(description="`suspected`, `confirmed`, `expected`, `invalid` or `fixed`")
    is_open: Annotated[bool, From(lambda alert: alert.status in Alert.OPEN and alert.merged_into_id is None)] = Field(
        description="nobody has settled it"
    )
    is_improvement: Annotated[bool, From("improvement")] = Field(description="nothing got worse")
    is_muted: Annotated[bool, From("muted")] = Field(description="it was raised silently")
    cause: Text = Field(description="the range in words")
    branch: Annotated[Text, From("branch.name")] = Field(description="the branch on which it was found")
    branches: Annotated[list[Text], From("containing")] = Field(
        description="the tracked branches that contain its newest commit"
    )
    before: Annotated[str, From("before.sha")]
    commit: Annotated[str, From("commit.sha")]
    subject: Annotated[Text, From("commit.subject")] = Field(description="of the newest commit of its range")
    commits: Annotated[int, From("width")] = Field(description="how many commits its range has")
    assignee: Annotated[Text | None, From("assignee.username")]
    created: Time
    reverted_by: Annotated[str | None, From("reverted_by.sha")] = Field(
        description="the commit whose message says that it reverts the cause"
    )
    fixed_by: Annotated[str | None, From("fixed_by.sha")] = Field(description="the commit that restored the old level")
    merged_into: Annotated[int | None, From("merged_into_id")]
    summary: Annotated[Text, From(lambda alert: headline(ranked_changes(alert)))] = Field(
        description="the largest change in each direction, slowdowns first",
        examples=["slower +5.0%: get-p1 and 2 more; faster −50.0%: set-p1"],
    )
    changes: Annotated[
        list[ChangePointDocument], From(lambda alert: list(map(ChangePointDocument.of, ranked_changes(alert))))
    ] = Field(description="first slowdowns, the largest first")
    instructions: Text = Field(
        description="of its largest change: `more instructions`, `fewer instructions` or `the same instructions` with "
        "their change, or `not countable, because …`; empty without changes"
    )
    is_time_only: bool = Field(description="the same instructions take other time, in all of its changes")
    url: Annotated[str, Filled("/api/v1/alerts/{0.pk}")]
    page_url: Annotated[str, From(lambda alert: f"{settings.URL}/alerts/{alert.pk}/")] = Field(
        description="address of its page"
    )

    @classmethod
    def list_of(cls, alerts: Iterable[Alert]) -> "list[AlertDocument]":
        """The documents of these alerts, whose ``ALERTS`` are loaded."""
        rows = list(alerts)
        changes = changes_of(rows)
        works = {work.change.pk: work for work in works_of([cp for own in changes.values() for cp in own])}
        return [listed_alert(alert, [works[cp.pk] for cp in changes[alert.pk]]) for alert in rows]


OF_CHANGES = ("summary", "changes", "instructions", "is_time_only")
#: What lists of them read, of ``Alert.objects.with_range()``.
ALERTS = read_columns(AlertDocument, "drift", given=OF_CHANGES)
JOINED = ("project", "branch", "assignee")


def changes_of(alerts: Sequence[Alert]) -> dict[int, list[ChangePoint]]:
    """By alert: its changes, the first of its document first."""
    by_pk = {alert.pk: alert for alert in alerts}
    changes: dict[int, list[ChangePoint]] = {pk: [] for pk in by_pk}
    rows = ChangePoint.objects.filter(alert__in=by_pk)
    for change in plain_rows(rows, (*read_columns(ChangePointDocument), "alert_id"), joined=["branch"]):
        assert change.alert_id is not None
        change.alert = by_pk[change.alert_id]
        changes[change.alert_id].append(change)
    return {pk: ranked(own) for pk, own in changes.items()}


def listed_alert(alert: Alert, works: Sequence[Work]) -> AlertDocument:
    """The document of an alert; ``works``: those of its changes, in their order."""
    changes = [work.change for work in works]
    documents = list(map(ChangePointDocument.of, changes))
    return AlertDocument.of(alert, summary=headline(changes), changes=documents, **facts_of(works))


def facts_of(works: Sequence[Work]) -> dict[str, Any]:
    """What instructions say about an alert, of whose changes these are, the largest first."""
    return {"instructions": works[0].words if works else "", "is_time_only": is_time_only(works)}


class AlertEventDocument(Document):
    """What happened to an alert."""

    id: int
    kind: str
    at: Time
    who: Annotated[Text | None, From("who.username")] = Field(description="null: SpeedTrack did it by itself")
    before: str = Field(description="the status before; empty if it stayed")
    after: str
    note: Text


class AlertDetails(AlertDocument):
    """An alert with its history, and what counts of instructions say about it."""

    SCHEMA = "speedtrack.alert/2"

    changes: list[SettledChangeDocument] = Field(description="first slowdowns, the largest first")  # type: ignore[assignment]
    candidates: list[CommitDocument] = Field(description="the newest commits of its range, newest first")
    fixed_on: list[Text] = Field(description="of a fixed alert: the tracked branches that contain the fix")
    which_moved: list[Text] = Field(
        description="by benchmark whose instructions are known: `more instructions`, or `the same instructions, slower`"
    )
    layouts: list[Text] = Field(
        description="which changes of time hold over random layouts of the program, and which may be layout"
    )
    function_tables: list[FunctionTableDocument] = Field(description="of counted changes that were counted again")
    lines: LinesDocument = Field(description="of the commit, those that touch functions whose count changed")
    whole_effect: WholeEffectDocument | None = Field(description="null: no single commit is named, or not asked for")
    hunks: list[HunkFindingDocument] = Field(description="by benchmark; empty: the hunks of its commit are not tried")
    restoration: Text = Field(
        description="of an open alert of which some series are back on the old level: which are, and which are not"
    )
    history: list[AlertEventDocument] = Field(description="oldest first")

    @classmethod
    def of(cls, row: Any, **given: Any) -> Self:
        """The document of an alert that was loaded as ``known_alerts`` does."""
        changes, events = ranked_changes(row), list(row.events.select_related("who").order_by("pk"))
        works, effect = works_of(changes), whole_effect_of(row)
        verdicts, findings = settling_verdicts(changes), hunks_of(row)
        tables = counts.function_tables(changes, verdicts)
        candidates = row.candidates().select_related("project").reverse()[:MOST_CANDIDATES]
        return super().of(
            row,
            changes=settled_changes(works, verdicts),
            candidates=list(map(CommitDocument.of, list(candidates) or [row.commit])),
            fixed_on=row.branches_fixed()[0] if row.fixed_by_id else [],
            which_moved=sentences_of(works),
            layouts=layout_sentences(works, verdicts),
            function_tables=list(map(FunctionTableDocument.of, tables)),
            lines=LinesDocument.of(lines_of_alert(row, tables, findings)),
            whole_effect=WholeEffectDocument.of(effect) if effect else None,
            hunks=list(map(HunkFindingDocument.of, findings)),
            restoration=restoration_in_words(events),
            history=list(map(AlertEventDocument.of, events)),
            **facts_of(works),
            **given,
        )


class AlertList(Document):
    """A page of a list of alerts."""

    SCHEMA = "speedtrack.alerts/2"

    counts: dict[str, int] = Field(description="by status: how many slowdowns there are; and how many improvements")
    after: str = Field(description="the cursor of the next page; empty on the last one")
    alerts: list[AlertDocument]


class AlertMessage(Document):
    """What happened to an alert, with the alert as it is now."""

    SCHEMA = "speedtrack.event/1"

    delivery: str = Field(description="the same for every attempt to deliver it")
    event: AlertEventDocument
    alert: AlertDetails


class MuteDocument(Document):
    """For a while nobody is notified of some changes."""

    id: int
    project: Annotated[str, From("project.slug")]
    benchmark: Text = Field(description="empty: all")
    metric: str = Field(description="empty: all")
    machine: Annotated[str | None, From("machine.name")] = Field(description="null: all")
    reason: Text
    until: Time
    created: Time
    who: Annotated[Text | None, From("who.username")]
    ended_at: Time | None = Field(description="when a person ended it early")
    url: Annotated[str, Filled("/api/v1/mutes/{0.pk}")]


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


class MuteOrder(Order):
    """What is to be muted; a benchmark or a machine at least."""

    benchmark: Sent = Field("", max_length=LONGEST_NAME, description="empty: all", examples=["get-p1"])
    metric: Sent = Field("", max_length=LONGEST_KEY, description="empty: all of the benchmark")
    machine: Sent | None = Field(None, max_length=50, description="null: all")
    reason: Sent = Field(min_length=1, max_length=2000, examples=["The rack is being moved."])
    days: Whole = Field(ge=1, le=365, description="for how long", examples=[7])
