"""Lists of alerts, decisions on several, regrouping, mutes, sensitivity: read the address, call one verb, render.

A GET to the address of a form redirects to its page: whoever had to log in first comes back with a GET.
"""

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.accounts.access import Access, Refused
from speedtrack.alerts.models import Alert
from speedtrack.operations import triage
from speedtrack.operations.performing import Done
from speedtrack.operations.refusals import REFUSED
from speedtrack.web import scope
from speedtrack.web.pages.alerting import alert as alert_page
from speedtrack.web.pages.alerting import alerts as alerts_page
from speedtrack.web.pages.alerting import gains as gains_page
from speedtrack.web.pages.alerting import mutes as mutes_page
from speedtrack.web.pages.alerting import sensitivity as sensitivity_page
from speedtrack.web.pages.alerting.alerts import AlertListQuery
from speedtrack.web.pages.paging import page_of
from speedtrack.web.requests.formats import format_or_404, values_response
from speedtrack.web.requests.operating import actor_of, perform, undo_of, way_back
from speedtrack.web.requests.permissions import access_of

NOTE_LENGTH = 4000
MOST_DECIDED = 200  # alerts at once


@require_safe
def alerts(request: HttpRequest, slug: str | None = None) -> HttpResponse:
    """The alerts of a project, or of all projects."""
    project = scope.project_or_404(slug) if slug else None
    page = alerts_page.load(project, *filters_and_access(request))
    return render(request, "web/alerts.html", {"page": page, "project": project, "status": page.filters.status})


@require_safe
def alerts_values(request: HttpRequest, form: str, slug: str | None = None) -> HttpResponseBase:
    format_or_404(form, "alerts")
    document = alerts_page.load_document(scope.project_or_404(slug) if slug else None, *filters_and_access(request))
    name = f"{slug}-alerts" if slug else "alerts"
    return values_response(form, name, document.named, partial(alerts_page.csv_rows, document))


def filters_and_access(request: HttpRequest) -> tuple[AlertListQuery, Access]:
    return AlertListQuery.of(request.GET), access_of(request)


def decide_alerts(request: HttpRequest) -> HttpResponse:
    """Save one decision on several alerts; report what was not saved, and go back to the list."""
    back = way_back(request, reverse("all-alerts"))
    if request.method != "POST":
        return redirect("all-alerts")
    selections = [f"{selection}::".split(":")[:3] for selection in request.POST.getlist("alert")[:MOST_DECIDED]]
    seen_states = {int(pk): (status, former) for pk, status, former in selections if pk.isdecimal() and len(pk) < 19}
    if not seen_states:
        messages.error(request, "No alert is selected: tick some, or press x on a row.")
        return redirect(back)
    comment, action = request.POST.get("note", "")[:NOTE_LENGTH], request.POST.get("action", "")
    alerts_seen = (
        access_of(request).among(Alert.objects.filter(pk__in=seen_states)).select_related("project", "assignee")
    )
    for pk in sorted(seen_states.keys() - {alert.pk for alert in alerts_seen}):
        messages.error(request, f"Not saved, alert {pk}: it does not exist any more.")
    answers = [decide_alert(request, alert, *seen_states[alert.pk], action, comment) for alert in alerts_seen]
    changes = [result for result in answers if result and result.is_change]
    if changes:
        undo = "" if action == "undo" else " ".join(filter(None, map(undo_of, changes)))
        messages.success(request, f"Saved: {len(changes)} alert{'' if len(changes) == 1 else 's'}.", undo)
    if same := sum(result is not None and not result.is_change for result in answers):
        messages.info(request, f"{same} had that already.")
    return redirect(back)


def decide_alert(
    request: HttpRequest, alert: Alert, seen_status: str, former: str, action: str, comment: str
) -> Done | None:
    """Decide on one of several alerts; None if it was refused. ``former``: who gets it back by the action ``undo``."""
    inputs = {"assignee": former} if action == "undo" else {"status": action}
    try:
        return triage.decide(actor_of(request), alert, seen_status, note=comment, **inputs)
    except (*REFUSED, Refused) as e:
        messages.error(request, f"Not saved, alert {alert.pk}: {e}.")
        return None


def regroup(request: HttpRequest, pk: int, verb: Callable[..., Done], *inputs: object) -> HttpResponse:
    """Change which change points belong to an alert, for a person. GET: back to the alert's page."""
    if request.method == "POST":
        comment = request.POST.get("note", "")[:NOTE_LENGTH]
        perform(request, verb, alert_page.alert_or_404(pk), *inputs, comment, otherwise="Not saved")
    return redirect("alert", pk=pk)


def move_alert(request: HttpRequest, pk: int) -> HttpResponse:
    return regroup(request, pk, triage.move, request.POST.get("commit", "").strip())


def split_alert(request: HttpRequest, pk: int) -> HttpResponse:
    return regroup(request, pk, triage.split, [number_in(name) for name in request.POST.getlist("change")])


def merge_alerts(request: HttpRequest, pk: int) -> HttpResponse:
    return regroup(request, pk, triage.merge, number_in(request.POST.get("into", "")))


def number_in(text: str) -> int:
    """The number that was entered; 0, which numbers nothing, for anything else."""
    return int(text) if text.isdecimal() and len(text) < 19 else 0


@require_http_methods(["GET", "HEAD", "POST"])
def mutes(request: HttpRequest, slug: str) -> HttpResponse:
    """What is muted in a project, and a form to mute more."""
    if request.method == "POST":
        return add_mute(request, slug)
    page = mutes_page.load(scope.project_or_404(slug), request.GET)
    return render(request, "web/mutes.html", {"page": page, "project": page.project})


def add_mute(request: HttpRequest, slug: str) -> HttpResponse:
    names = {key: request.POST.get(key, "").strip() for key in ("benchmark", "metric", "machine")}
    days, reason = number_in(request.POST.get("days", "")), request.POST.get("reason", "")[:NOTE_LENGTH]
    perform(request, triage.mute, scope.project_or_404(slug), **names, reason=reason, days=days, otherwise="Not muted")
    return redirect("mutes", slug=slug)


def end_mute(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    mute = scope.project_or_404(slug).mutes.filter(pk=pk).first()
    if mute is None:
        raise Http404(f"{slug} has no mute {pk}.")
    if request.method == "POST":
        perform(request, triage.end_mute, mute)
    return redirect("mutes", slug=slug)


@require_safe
def sensitivity(request: HttpRequest, slug: str) -> HttpResponse:
    """The benchmarks that are too noisy, and how small a change all others show."""
    page = sensitivity_page.load_part(scope.project_or_404(slug), page_of(request.GET))
    return render(request, "web/sensitivity.html", {"page": page, "project": page.project})


@require_safe
def gains(request: HttpRequest, slug: str | None = None) -> HttpResponse:
    """What the commits of a month made better, in a project or in all."""
    project = scope.project_or_404(slug) if slug else None
    page = gains_page.load(project, request.GET.get("month", ""), access_of(request))
    return render(request, "web/gains.html", {"page": page, "project": project, "all": project is None})


@require_safe
def sensitivity_values(request: HttpRequest, slug: str, form: str) -> HttpResponseBase:
    format_or_404(form, "sensitivities")
    document = sensitivity_page.sensitivity_document(sensitivity_page.load(scope.project_or_404(slug)))
    return values_response(form, f"{slug}-sensitivity", document.named, partial(sensitivity_page.csv_rows, document))
