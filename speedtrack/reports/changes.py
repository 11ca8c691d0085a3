"""Changes of series: the document of each, as alerts, machines and pages show it."""

from collections.abc import Iterable
from typing import Annotated

from django.db.models import QuerySet
from pydantic import Field

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.judging.verdicts import look_of_change, sign_of_change, way_of, words_of
from speedtrack.reports.common import Document, From, Text, Time, read_columns

#: What documents of alerts show of their changes, of which there may be hundreds.
COLUMNS_OF_CHANGES = (
    *("kind", "reference", "status", "ratio", "low", "high", "from_zero", "note", "created", "settled_at"),
    *("alert__status", "branch__name", "before__sha", "commit__sha"),
    *("series__metric", "series__project__slug", "series__benchmark__name", "series__machine__name"),
)


def known_changes() -> QuerySet[ChangePoint]:
    """Change points with all that their documents show."""
    related = ("alert", "branch", "before", "commit", "series__project", "series__benchmark", "series__machine")
    changes: QuerySet[ChangePoint] = ChangePoint.objects.select_related(*related)
    return changes.defer("series__benchmark__definition", "series__benchmark__why", "series__machine__facts")


class JudgedDocument(Document):
    """What pages show of a change or an alert, by the one judge."""

    verdict: Annotated[str, From(lambda change: way_of(change.is_slowdown))] = Field(
        description="`worse` or `better`; of an alert: `better` if nothing got worse"
    )
    look: Annotated[str, From(look_of_change)] = Field(
        description="its colour: the verdict, or `settled`, which has none, once its alert is no work any more"
    )
    sign: Annotated[str, From(lambda change: sign_of_change(change.is_slowdown))] = Field(
        description="the verdict without colour: `!` or `✓`"
    )


class ChangePointDocument(JudgedDocument):
    """A series moved within a range of commits, (`before`, `commit`]."""

    id: int
    project: Annotated[str, From("series.project.slug")]
    series: Annotated[int, From("series_id")]
    benchmark: Annotated[Text, From("series.benchmark.name")]
    metric: Annotated[str, From("series.metric")]
    machine: Annotated[str, From("series.machine.name")]
    branch: Annotated[Text, From("branch.name")] = Field(description="the branch on which it was found")
    before: Annotated[str, From("before.sha")] = Field(description="the last commit known to run on the old level")
    commit: Annotated[str, From("commit.sha")] = Field(description="the first commit known to run on the new one")
    kind: str = Field(description="`step`, or `drift`: little by little")
    status: str = Field(
        description="`suspected`, `settling`, `confirmed`, `refuted`, `unsettled`, `history` or `machine`"
    )
    is_slowdown: bool
    words: Annotated[str, From(lambda change: words_of(way_of(change.is_slowdown), change.metric))] = Field(
        description="the verdict on this metric", examples=["slower", "more instructions"]
    )
    ratio: float | None = Field(description="size of the change: new level / old level")
    low: float | None = Field(description="lower end of the ratio's 95% interval")
    high: float | None
    from_zero: float | None = Field(description="the new level, where the old one is 0 and the ratio says nothing")
    note: Text
    created: Time
    settled_at: Time | None
    alert: Annotated[int | None, From("alert_id")] = Field(description="the alert that it belongs to")


#: What lists of them read.
CHANGES = read_columns(ChangePointDocument, "alert__status")


def ranked_changes(alert: Alert) -> list[ChangePoint]:
    return ranked(alert.change_points.all())


def ranked(changes: Iterable[ChangePoint]) -> list[ChangePoint]:
    return sorted(changes, key=lambda change: (change.rank, change.pk))
