"""The pages: read the address, load the page by one module of ``pages``, render it."""

import csv
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import islice
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import condition, require_http_methods, require_safe

from speedtrack.alerts import triage
from speedtrack.alerts.triage import Decision, Stale
from speedtrack.runs import quarantine
from speedtrack.text import plain, plain_values
from speedtrack.web import scope
from speedtrack.web.pages import alert as alert_page
from speedtrack.web.pages import alerts as alerts_page
from speedtrack.web.pages import commit as commit_page
from speedtrack.web.pages import home as home_page
from speedtrack.web.pages import machine as machine_page
from speedtrack.web.pages import profiles as profiles_page
from speedtrack.web.pages import project as project_page
from speedtrack.web.pages import queue as queue_page
from speedtrack.web.pages import run as run_page
from speedtrack.web.pages.timeline import page as timeline_page
from speedtrack.web.pages.timeline import table as timeline_table
from speedtrack.web.pages.timeline.document import timeline_document
from speedtrack.web.pages.timeline.table import csv_rows
from speedtrack.web.pages.timeline.version import etag_of
from speedtrack.web.pages.timeline.view import DEFAULT_LAST, RANGES, View, view_of

NOTE_LENGTH = 4000
CSV_LINES = 500  # of a piece


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Is the process alive?"""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    return render(request, "web/home.html", {"page": home_page.load()})


@require_safe
def project(request: HttpRequest, slug: str) -> HttpResponse:
    page = project_page.load(scope.scope_of(slug, request.GET))
    project = page.scope.project
    hook_url = project_page.hook_url(project) if request.user.is_authenticated else None
    context = {"page": page, "scope": page.scope, "project": project, "hook_url": hook_url}
    return render(request, "web/project.html", context)


@require_safe
def timeline(request: HttpRequest, slug: str, benchmark: str, metric: str) -> HttpResponse:
    view = view_of(slug, benchmark, metric, request.GET)
    if request.GET.get("part") == "values":
        return render(request, "web/timeline_values.html", {"page": timeline_table.load(view)})
    page = timeline_page.load(view, request.GET.get("why", ""))
    context = {
        "page": page,
        "view": page.view,
        "scope": page.view.scope,
        "project": page.view.scope.project,
        "ranges": RANGES,
        "last": request.GET.get("last", str(DEFAULT_LAST)),
        "zoomed": any(key in request.GET for key in ("from", "to", "around")),
        "kept": [(key, value) for key, values in request.GET.lists() if key != "why" for value in values],
    }
    return render(request, "web/timeline.html", context)


@require_safe
def timeline_values(request: HttpRequest, slug: str, benchmark: str, metric: str, form: str) -> HttpResponseBase:
    """A timeline as JSON or CSV."""
    if form not in ("json", "csv"):
        raise Http404(f"There is no format {form!r} of a timeline: there are json and csv.")
    view = view_of(slug, benchmark, metric, request.GET)
    etag = etag_of(view, f"{form} {request.GET.urlencode()}")
    answer: Callable[[HttpRequest, View], HttpResponseBase] = timeline_json if form == "json" else timeline_csv
    response: HttpResponseBase = condition(lambda _: etag)(lambda request: answer(request, view))(request)
    response.headers["Cache-Control"] = "no-cache"  # to be kept, and used once the server has said that it is current
    return response


def timeline_json(request: HttpRequest, view: View) -> HttpResponse:
    whole = request.GET.get("points") == "all"
    return HttpResponse(timeline_document(view, whole), content_type="application/json")


def timeline_csv(request: HttpRequest, view: View) -> HttpResponseBase:
    response = StreamingHttpResponse(csv_pieces(csv_rows(view)), content_type="text/csv; charset=utf-8")
    name = f"{view.scope.project.slug}-{view.benchmark.name}-{view.scope.metric.name}.csv"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def csv_pieces(rows: Iterator[list[Any]]) -> Iterator[str]:
    """CSV in pieces of many lines: each piece is compressed and sent by itself."""
    while some := list(islice(rows, CSV_LINES)):
        piece = StringIO()
        csv.writer(piece).writerows(some)
        yield piece.getvalue()


@require_safe
def commit(request: HttpRequest, slug: str, sha: str) -> HttpResponse:
    asked = commit_page.Asked(*(request.GET.get(key) for key in ("branch", "machine", "metric")))
    page = commit_page.load(slug, sha, asked)
    return render(request, "web/commit.html", {"page": page, "project": page.project, "commit": page.commit})


@require_safe
def alerts(request: HttpRequest, slug: str | None = None) -> HttpResponse:
    """The alerts of a project, or of all projects."""
    project = scope.project_or_404(slug) if slug else None
    status = request.GET.get("status", "open")
    context = {"page": alerts_page.load(project, status), "project": project, "status": status}
    return render(request, "web/alerts.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def alert(request: HttpRequest, pk: int) -> HttpResponse:
    if request.method == "POST":
        return decide_alert(request, pk)
    found = alert_page.alert_or_404(pk)
    if found.merged_into_id:
        return redirect("alert", pk=found.merged_into_id)
    page = alert_page.load(found, request.user.is_authenticated, all_pairs=request.GET.get("pairs") == "all")
    section = profiles_page.section_of_alert(page.alert, request.GET.get("zoom", ""))
    context = {"page": page, "alert": page.alert, "project": page.alert.project, "section": section}
    return render(request, "web/alert.html", context)


@login_required
def decide_alert(request: HttpRequest, pk: int) -> HttpResponse:
    """Save a person's decision on an alert."""
    assert isinstance(request.user, User)
    found = alert_page.alert_or_404(pk)
    assignee = User.objects.filter(is_active=True, username=request.POST.get("assignee", "")).first()
    note = request.POST.get("note", "")[:NOTE_LENGTH]
    decision = Decision(request.POST.get("seen", ""), request.POST.get("status", ""), assignee, note)
    try:
        changed = triage.decide(found, decision, request.user)
        messages.success(request, "Saved." if changed else "Nothing was changed.")
    except (Stale, ValueError) as e:
        messages.error(request, f"Not saved: {e}")
    return redirect("alert", pk=pk)


@require_safe
def run(request: HttpRequest, pk: int) -> HttpResponse:
    page = run_page.load(pk)
    template = "web/run_live.html" if request.GET.get("part") == "live" else "web/run.html"
    section = profiles_page.section_of_run(page.run, request.GET.get("zoom", ""))
    return render(request, template, {"page": page, "run": page.run, "project": page.run.project, "section": section})


@require_safe
def run_log(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The whole log as plain text."""
    pieces = run_page.whole_log(run_page.run_or_404(pk), request.GET.get("phase"))
    return StreamingHttpResponse(pieces, content_type="text/plain; charset=utf-8")


@require_safe
def run_script(request: HttpRequest, pk: int) -> HttpResponse:
    """The script that repeats a measurement by hand; the query names its ``benchmark`` and ``side``."""
    text = run_page.named_script(pk, request.GET.get("benchmark"), request.GET.get("side"))
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@require_safe
def profile_folded(request: HttpRequest, pk: int) -> HttpResponse:
    """A profile's folded stacks as text, for other tools."""
    return HttpResponse(plain(profiles_page.stacks_text(pk)), content_type="text/plain; charset=utf-8")


@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    template = "web/queue_live.html" if request.GET.get("part") == "live" else "web/queue.html"
    return render(request, template, {"page": queue_page.load()})


@require_http_methods(["GET", "HEAD", "POST"])
def machine(request: HttpRequest, name: str) -> HttpResponse:
    if request.method == "POST":
        return lift_quarantine(request, name)
    page = machine_page.load(name)
    return render(request, "web/machine.html", {"page": page, "machine": page.machine})


@require_safe
def machine_values(request: HttpRequest, name: str) -> HttpResponse:
    return JsonResponse(plain_values(machine_page.machine_document(machine_page.load(name))))


@login_required
def lift_quarantine(request: HttpRequest, name: str) -> HttpResponse:
    """End a machine's quarantine, for a person."""
    assert isinstance(request.user, User)
    try:
        level = request.POST.get("level") == "new"
        quarantine.lift_by_hand(machine_page.machine_or_404(name), request.user, accept_level=level)
        messages.success(request, "The quarantine has ended.")
    except quarantine.NotQuarantined as e:
        messages.error(request, f"The quarantine was not ended: {e}.")
    return redirect("machine", name=name)
