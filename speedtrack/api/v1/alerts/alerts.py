"""Alerts and change points: what changed, and what people decide about it."""

from bisect import bisect_right
from itertools import accumulate
from typing import Annotated, Any

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import Http404
from ninja import Path, Query, Router, Schema
from pydantic import Field

from speedtrack.accounts import access
from speedtrack.alerts.models import Alert, ChangePoint, Mute
from speedtrack.api.v1.measurements.measuring import SeriesFilters
from speedtrack.api.v1.serving.callers import ApiRequest, actor_of, project_or_404
from speedtrack.api.v1.serving.paging import Page, Paging, page_of
from speedtrack.api.v1.serving.writing import CREATED, OK, Answer, write
from speedtrack.operations import triage
from speedtrack.reports.alerts import (
    ALERTS,
    JOINED,
    AlertDecision,
    AlertDetails,
    AlertDocument,
    MuteDocument,
    MuteOrder,
    known_alerts,
)
from speedtrack.reports.changes import CHANGES, ChangePointDocument
from speedtrack.reports.common import Id, Time

router = Router(tags=["Alerts"])

MOST_CHANGES = 200  # of the alerts on a page together: what a document costs depends on them
STATUSES = "^(open|suspected|confirmed|expected|invalid|fixed)$"


class AlertFilters(Schema):
    """Which alerts."""

    status: Annotated[str | None, Field(pattern=STATUSES, description="`open`: suspected or confirmed")] = None
    improvement: Annotated[bool | None, Field(description="only improvements, or only others")] = None
    since: Annotated[Time | None, Field(description="raised at this time or later")] = None
    before: Annotated[Time | None, Field(description="raised before this time")] = None

    def of(self, rows: QuerySet[Alert]) -> QuerySet[Alert]:
        own: dict[str, Any] = {"created__gte": self.since, "created__lt": self.before, "improvement": self.improvement}
        if self.status == "open":
            own |= {"status__in": Alert.OPEN, "merged_into__isnull": True}
        else:
            own["status"] = self.status
        return rows.filter(**{column: value for column, value in own.items() if value is not None})


def visible_alerts(request: ApiRequest) -> QuerySet[Alert]:
    """The alerts that the caller may see, with all that their documents show."""
    return known_alerts().filter(project__in=access.visible(request.auth))


@router.get("alerts", response=Page[AlertDocument], summary="List alerts of all projects")
def list_all_alerts(request: ApiRequest, paging: Query[Paging], filters: Query[AlertFilters]) -> Page[AlertDocument]:
    """The newest first. Alerts of many changes make a page shorter than `limit`."""
    rows = filters.of(Alert.objects.with_range().filter(project__in=access.visible(request.auth)))
    return alerts_page(request, rows, paging)


@router.get("projects/{slug}/alerts", response=Page[AlertDocument], summary="List alerts of a project")
def list_alerts(
    request: ApiRequest, slug: str, paging: Query[Paging], filters: Query[AlertFilters]
) -> Page[AlertDocument]:
    """The newest first. Alerts of many changes make a page shorter than `limit`."""
    rows = filters.of(Alert.objects.with_range().filter(project=project_or_404(request, slug)))
    return alerts_page(request, rows, paging)


def alerts_page(request: ApiRequest, rows: QuerySet[Alert], paging: Paging) -> Page[AlertDocument]:
    return page_of(request, rows, paging, AlertDocument.list_of, columns=ALERTS, joined=JOINED, fitting=fitting)


def fitting(alerts: QuerySet[Alert], limit: int) -> int:
    """How many of the first alerts have no more than ``MOST_CHANGES`` changes together; at least one."""
    changes = ChangePoint.objects.filter(alert=OuterRef("pk")).order_by().values("alert").annotate(count=Count("pk"))
    counts = alerts.values_list(Subquery(changes.values("count")), flat=True)[:limit]
    totals: list[int] = list(accumulate(count or 0 for count in counts))
    return max(1, bisect_right(totals, MOST_CHANGES))


@router.get("alerts/{alert_id}", response=AlertDetails, summary="Read an alert with its history")
def read_alert(request: ApiRequest, alert_id: Path[Id]) -> AlertDetails:
    return AlertDetails.of(alert_or_404(request, alert_id))


def alert_or_404(request: ApiRequest, alert_id: int) -> Alert:
    alert = visible_alerts(request).filter(pk=alert_id).first()
    if alert is None:
        raise Http404(f"There is no alert {alert_id}, or its project is private.")
    return alert


@router.patch("alerts/{alert_id}", response=AlertDetails, summary="Decide on an alert")
@write
def decide(request: ApiRequest, alert_id: Path[Id], decision: AlertDecision) -> Answer:
    """Give an alert a status or an assignee, or leave a note. Needs the scope `triage` and the role triager."""
    triage.decide(actor_of(request), alert_or_404(request, alert_id), **decision.model_dump())
    return OK, AlertDetails.of(alert_or_404(request, alert_id))


class ChangePointFilters(SeriesFilters):
    """Which change points."""

    status: Annotated[
        str | None, Field(pattern="^(suspected|settling|confirmed|refuted|unsettled|history|machine)$")
    ] = None
    series: Annotated[int | None, Field(ge=1, le=2**31 - 1, description="of this series only")] = None
    since: Annotated[Time | None, Field(description="found at this time or later")] = None


@router.get("projects/{slug}/change-points", response=Page[ChangePointDocument], summary="List change points")
def list_change_points(
    request: ApiRequest, slug: str, paging: Query[Paging], filters: Query[ChangePointFilters]
) -> Page[ChangePointDocument]:
    """Where series moved, and by how much, the newest first; also suspicions and what measuring again refuted."""
    own: dict[str, Any] = {"status": filters.status, "series": filters.series, "created__gte": filters.since}
    conditions = {column: value for column, value in own.items() if value is not None}
    project = project_or_404(request, slug)
    rows = ChangePoint.objects.filter(filters.of("series__"), series__project=project, **conditions)
    return page_of(request, rows, paging, lambda changes: map(ChangePointDocument.of, changes), columns=CHANGES)


@router.get("projects/{slug}/mutes", response=Page[MuteDocument], summary="List mutes")
def list_mutes(
    request: ApiRequest,
    slug: str,
    paging: Query[Paging],
    all: Annotated[bool, Field(description="also those that have ended")] = False,
) -> Page[MuteDocument]:
    """What nobody is notified of, the newest first."""
    rows: QuerySet[Mute] = Mute.objects.all() if all else Mute.objects.in_force()
    mutes = rows.filter(project=project_or_404(request, slug)).select_related("project", "machine", "who")
    return page_of(request, mutes, paging, lambda page: map(MuteDocument.of, page))


@router.post("projects/{slug}/mutes", response={201: MuteDocument}, summary="Mute changes")
@write
def mute(request: ApiRequest, slug: str, order: MuteOrder) -> Answer:
    """From now on nobody is notified of these changes. Needs the scope `triage` and the role triager."""
    fields = order.model_dump() | {"machine": order.machine or ""}
    new_mute = triage.mute(actor_of(request), project_or_404(request, slug), **fields).row
    return CREATED, MuteDocument.of(Mute.objects.select_related("project", "machine", "who").get(pk=new_mute.pk))


@router.delete("mutes/{mute_id}", response=MuteDocument, summary="End a mute")
@write
def end_mute(request: ApiRequest, mute_id: Path[Id]) -> Answer:
    """Needs the scope `triage` and the role triager."""
    rows = Mute.objects.filter(project__in=access.visible(request.auth))
    mute_row = rows.select_related("project", "machine", "who").filter(pk=mute_id).first()
    if mute_row is None:
        raise Http404(f"There is no mute {mute_id}, or its project is private.")
    triage.end_mute(actor_of(request), mute_row)
    mute_row.refresh_from_db(fields=["ended_at"])
    return OK, MuteDocument.of(mute_row)
