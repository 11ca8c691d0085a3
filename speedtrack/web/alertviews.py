"""Lists of alerts, decisions on several, regrouping, mutes, sensitivity: read the address, call one verb, render.

A GET to the address of a form redirects to its page: whoever had to log in first comes back with a GET.
"""

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.accounts.models import Role
from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import muting, regrouping, triage
from speedtrack.alerts.triage.triage import Stale
from speedtrack.projects.models import Project
from speedtrack.web import scope
from speedtrack.web.pages.alerting import alert as alert_page
from speedtrack.web.pages.alerting import alerts as alerts_page
from speedtrack.web.pages.alerting import mutes as mutes_page
from speedtrack.web.pages.alerting import sensitivity as sensitivity_page
from speedtrack.web.pages.alerting.alerts import AlertsPage
from speedtrack.web.requests.formats import format_or_404, values_response
from speedtrack.web.requests.permissions import access_of, note

NOTE_LENGTH = 4000
MOST_DECIDED = 200  # alerts at once


@require_safe
def alerts(request: HttpRequest, slug: str | None = None) -> HttpResponse:
    """The alerts of a project, or of all projects."""
    project = scope.project_or_404(slug) if slug else None
    page = listed_alerts(request, project)
    return render(request, "web/alerts.html", {"page": page, "project": project, "status": page.filters.status})


@require_safe
def alerts_values(request: HttpRequest, form: str, slug: str | None = None) -> HttpResponseBase:
    format_or_404(form, "alerts")
    page = listed_alerts(request, scope.project_or_404(slug) if slug else None)
    document, rows = partial(alerts_page.alerts_document, page), partial(alerts_page.csv_rows, page)
    return values_response(form, f"{slug}-alerts" if slug else "alerts", document, rows)


def listed_alerts(request: HttpRequest, project: Project | None) -> AlertsPage:
    return alerts_page.load(project, alerts_page.AlertListQuery.of(request.GET), access_of(request))


def decide_alerts(request: HttpRequest) -> HttpResponse:
    """Save one decision on several alerts; report what was not saved, and go back to the list."""
    assert isinstance(request.user, User)
    back = request.POST.get("back", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None) or not back.startswith("/"):
        back = reverse("all-alerts")
    if request.method != "POST":
        return redirect("all-alerts")
    selections = [selection.partition(":") for selection in request.POST.getlist("alert")[:MOST_DECIDED]]
    statuses = {int(pk): status for pk, _, status in selections if pk.isdecimal() and len(pk) < 19}
    if not statuses:
        messages.error(request, "No alert is selected: tick some, or press x on a row.")
        return redirect(back)
    comment, action = request.POST.get("note", "")[:NOTE_LENGTH], request.POST.get("action", "")
    access = access_of(request)
    alerts_seen = access.among(Alert.objects.filter(pk__in=statuses)).select_related("project")
    projects = {alert.pk: alert.project for alert in alerts_seen if access.may(Role.TRIAGER, alert.project_id)}
    if denied_count := len(alerts_seen) - len(projects):
        messages.error(request, f"{denied_count} not saved: that needs the role {Role.TRIAGER} in their projects.")
    for pk in sorted(statuses.keys() - {alert.pk for alert in alerts_seen}):
        messages.error(request, f"Not saved, alert {pk}: it does not exist any more.")
    statuses = {pk: status for pk, status in statuses.items() if pk in projects}
    outcome = triage.decide_each(statuses, action, comment, request.user)
    for project in set(projects.values()) if outcome.changed else ():
        numbers = ", ".join(str(pk) for pk in statuses if projects[pk] == project)
        note(request, "alert.decide", f"alerts {numbers}", project, {"action": (None, action[:NOTE_LENGTH])})
    if outcome.changed:
        messages.success(request, f"Saved: {outcome.changed} alert{'' if outcome.changed == 1 else 's'}.")
    if outcome.unchanged:
        messages.info(request, f"{outcome.unchanged} had that already.")
    for sentence in outcome.refused:
        messages.error(request, f"Not saved, {sentence}.")
    return redirect(back)


def regroup(request: HttpRequest, pk: int, action: str, change: Callable[[Alert, str, User], str]) -> HttpResponse:
    """Change which change points belong to an alert, for a person; report what was done, or why not."""
    assert isinstance(request.user, User)
    alert = alert_page.alert_or_404(pk)
    if request.method != "POST":
        return redirect("alert", pk=pk)
    try:
        with transaction.atomic():
            outcome = change(alert, request.POST.get("note", "")[:NOTE_LENGTH], request.user)
            note(request, action, f"alert {pk}: {outcome}", alert.project)
        messages.success(request, outcome)
    except (Stale, ValueError) as e:
        messages.error(request, f"Not saved: {e}.")
    return redirect("alert", pk=pk)


def move_alert(request: HttpRequest, pk: int) -> HttpResponse:
    def change(alert: Alert, note: str, user: User) -> str:
        regrouping.move(alert, request.POST.get("commit", "").strip(), note, user)
        return "Moved."

    return regroup(request, pk, "alert.move", change)


def split_alert(request: HttpRequest, pk: int) -> HttpResponse:
    def change(alert: Alert, note: str, user: User) -> str:
        numbers = [int(name) for name in request.POST.getlist("change") if name.isdecimal() and len(name) < 19]
        return f"Split off as alert {regrouping.split(alert, numbers, note, user).pk}."

    return regroup(request, pk, "alert.split", change)


def merge_alerts(request: HttpRequest, pk: int) -> HttpResponse:
    def change(alert: Alert, note: str, user: User) -> str:
        name = request.POST.get("into", "")
        into = alert.project.alerts.filter(pk=int(name)).first() if name.isdecimal() and len(name) < 19 else None
        if into is None:
            raise ValueError(f"there is no alert {name!r}")
        regrouping.merge(alert, into, note, user)
        return f"Alert {alert.pk} was merged into this one."

    return regroup(request, pk, "alert.merge", change)


@require_http_methods(["GET", "HEAD", "POST"])
def mutes(request: HttpRequest, slug: str) -> HttpResponse:
    """What is muted in a project, and a form to mute more."""
    if request.method == "POST":
        return add_mute(request, slug)
    page = mutes_page.load(scope.project_or_404(slug), request.GET)
    return render(request, "web/mutes.html", {"page": page, "project": page.project})


def add_mute(request: HttpRequest, slug: str) -> HttpResponse:
    assert isinstance(request.user, User)
    project = scope.project_or_404(slug)
    try:
        form = mutes_page.read_mute_form(project, request.POST)
        mute = muting.mute(project, form, request.user)
        note(request, "mute.create", mute, project, {"days": (None, form.days)})
        messages.success(request, f"Muted: {mute}.")
    except ValueError as e:
        messages.error(request, f"Not muted: {e}.")
    return redirect("mutes", slug=slug)


def end_mute(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    assert isinstance(request.user, User)
    mute = scope.project_or_404(slug).mutes.filter(pk=pk).first()
    if mute is None:
        raise Http404(f"{slug} has no mute {pk}.")
    if request.method == "POST":
        has_ended = muting.end_mute(mute, request.user)
        if has_ended:
            note(request, "mute.end", mute, mute.project)
        messages.success(request, "The mute has ended." if has_ended else "It had ended already.")
    return redirect("mutes", slug=slug)


@require_safe
def sensitivity(request: HttpRequest, slug: str) -> HttpResponse:
    """The benchmarks that are too noisy, and how small a change all others show."""
    page = sensitivity_page.load(scope.project_or_404(slug))
    return render(request, "web/sensitivity.html", {"page": page, "project": page.project})


@require_safe
def sensitivity_values(request: HttpRequest, slug: str, form: str) -> HttpResponseBase:
    format_or_404(form, "sensitivities")
    document = sensitivity_page.sensitivity_document(sensitivity_page.load(scope.project_or_404(slug)))
    return values_response(form, f"{slug}-sensitivity", document.named, partial(sensitivity_page.csv_rows, document))
