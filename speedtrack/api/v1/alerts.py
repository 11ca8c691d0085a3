"""Alerts and change points: what changed, and what people decide about it."""

from typing import Annotated, Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import Http404
from ninja import Path, Query, Router, Schema
from pydantic import Field

from speedtrack.accounts import access, audit
from speedtrack.accounts.models import Role, Scope
from speedtrack.alerts.models import Alert, Mute
from speedtrack.alerts.triage import muting, triage
from speedtrack.alerts.triage.muting import MuteRequest
from speedtrack.alerts.triage.triage import Decision, NotAssignable
from speedtrack.api.v1.measuring import SeriesFilters
from speedtrack.api.v1.serving.callers import ApiRequest, project_or_404, require, user_of
from speedtrack.api.v1.serving.paging import Page, Paging, page_of
from speedtrack.api.v1.serving.refusals import Conflict, Invalid
from speedtrack.api.v1.serving.writing import CREATED, OK, Answer, write
from speedtrack.projects.models import Project
from speedtrack.reports.alerts import (
    AlertDecision,
    AlertDetails,
    AlertDocument,
    ChangePointDocument,
    MuteDocument,
    MuteOrder,
    known_alerts,
    known_changes,
)
from speedtrack.reports.common import Id, Time
from speedtrack.runs.models import Machine

router = Router(tags=["Alerts"])

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
    """The newest first."""
    return page_of(request, filters.of(visible_alerts(request)), paging, lambda alerts: map(AlertDocument.of, alerts))


@router.get("projects/{slug}/alerts", response=Page[AlertDocument], summary="List alerts of a project")
def list_alerts(
    request: ApiRequest, slug: str, paging: Query[Paging], filters: Query[AlertFilters]
) -> Page[AlertDocument]:
    """The newest first."""
    rows = filters.of(visible_alerts(request).filter(project=project_or_404(request, slug)))
    return page_of(request, rows, paging, lambda alerts: map(AlertDocument.of, alerts))


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
    alert = alert_or_404(request, alert_id)
    require(request, Role.TRIAGER, alert.project, Scope.TRIAGE)
    assignee = alert.assignee if decision.assignee is None else assignee_of(alert, decision.assignee)
    status = decision.status or decision.seen
    before = (alert.status, alert.assignee)
    try:
        is_changed = triage.decide(alert, Decision(decision.seen, status, assignee, decision.note), user_of(request))
    except ValueError as e:
        raise Invalid(str(e), field="note" if "note" in str(e) else "status") from None
    if is_changed:
        changes = {"status": (before[0], status), "assignee": (str(before[1] or ""), str(assignee or ""))}
        audit.note(
            request.auth, "alert.decide", alert, alert.project, {k: v for k, v in changes.items() if v[0] != v[1]}
        )
    return OK, AlertDetails.of(alert_or_404(request, alert_id))


def assignee_of(alert: Alert, name: str) -> User | None:
    """The person to whom an alert is to be assigned; None for an empty name. Raises Invalid."""
    try:
        return triage.assignee_named(alert, name)
    except NotAssignable as e:
        raise Invalid(str(e), field="assignee") from None


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
    rows = known_changes().filter(filters.of("series__"), series__project=project, **conditions)
    return page_of(request, rows, paging, lambda changes: map(ChangePointDocument.of, changes))


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
    project = project_or_404(request, slug)
    require(request, Role.TRIAGER, project, Scope.TRIAGE)
    mute_request = MuteRequest(order.benchmark, order.metric, machine_named(project, order), order.reason, order.days)
    check_muted(project, order)
    try:
        new_mute = muting.mute(project, mute_request, user_of(request))
    except ValueError as e:
        raise Invalid(str(e), field="benchmark" if order.reason.strip() else "reason") from None
    audit.note(
        request.auth, "mute.create", new_mute, project, {"days": (None, order.days), "reason": (None, order.reason)}
    )
    return CREATED, MuteDocument.of(Mute.objects.select_related("project", "machine", "who").get(pk=new_mute.pk))


def machine_named(project: Project, order: MuteOrder) -> Machine | None:
    if order.machine is None:
        return None
    machine = Machine.objects.filter(name=order.machine).first()
    if machine is None:
        raise Invalid(f"there is no machine {order.machine!r}", field="machine")
    return machine


def check_muted(project: Project, order: MuteOrder) -> None:
    """Raise Invalid for a benchmark or a metric that does not exist: the mute would match nothing."""
    if order.benchmark and not project.benchmarks.filter(name=order.benchmark).exists():
        raise Invalid(f"{project.slug} has no benchmark {order.benchmark!r}", field="benchmark")
    if order.metric and not project.series.filter(metric=order.metric).exists():
        raise Invalid(f"{project.slug} has no series of the metric {order.metric!r}", field="metric")


@router.delete("mutes/{mute_id}", response=MuteDocument, summary="End a mute")
@write
def end_mute(request: ApiRequest, mute_id: Path[Id]) -> Answer:
    """Needs the scope `triage` and the role triager."""
    rows = Mute.objects.filter(project__in=access.visible(request.auth))
    mute_row = rows.select_related("project", "machine", "who").filter(pk=mute_id).first()
    if mute_row is None:
        raise Http404(f"There is no mute {mute_id}, or its project is private.")
    require(request, Role.TRIAGER, mute_row.project, Scope.TRIAGE)
    if not muting.end_mute(mute_row, user_of(request)):
        raise Conflict("the mute has ended already")
    audit.note(request.auth, "mute.end", mute_row, mute_row.project)
    mute_row.refresh_from_db(fields=["ended_at"])
    return OK, MuteDocument.of(mute_row)
