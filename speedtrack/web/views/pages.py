"""The pages: read the address, load the page by one module of ``pages``, render it."""

from functools import partial

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.ground.texts.text import plain, plain_values
from speedtrack.operations import machines, triage
from speedtrack.reports.commits import CommitDetails
from speedtrack.reports.machines import machine_details
from speedtrack.reports.readings.commits import read
from speedtrack.reports.runs import RunDetails
from speedtrack.runs.requests import tracking
from speedtrack.web.pages import beginning
from speedtrack.web.pages import home as home_page
from speedtrack.web.pages import mine as my_pushes
from speedtrack.web.pages.alerting import alert as alert_page
from speedtrack.web.pages.alerting import annotations
from speedtrack.web.pages.commit import document as commit_document
from speedtrack.web.pages.commit import page as commit_page
from speedtrack.web.pages.paging import page_of
from speedtrack.web.pages.project import board as board_page
from speedtrack.web.pages.project import page as project_page
from speedtrack.web.pages.running import duels, tries
from speedtrack.web.pages.running import log as log_page
from speedtrack.web.pages.running import machine as machine_page
from speedtrack.web.pages.running import profiles as profiles_page
from speedtrack.web.pages.running import queue as queue_page
from speedtrack.web.pages.running import run as run_page
from speedtrack.web.pages.running.live import stream_of_queue
from speedtrack.web.pages.settings import notifications
from speedtrack.web.requests.formats import format_or_404, plain_response, values_response
from speedtrack.web.requests.operating import perform
from speedtrack.web.requests.permissions import access_of, permit_of
from speedtrack.web.scope import scope_of

NOTE_LENGTH = 4000


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    access = access_of(request)
    if request.GET.get("part") == "mine":
        return render(request, "web/home_mine.html", {"mine": my_pushes.load(access)})
    page = home_page.load(access)
    return render(request, "web/home.html", {"page": page, "mine": my_pushes.load(access, page.machines.version)})


@require_safe
def home_values(request: HttpRequest) -> HttpResponse:
    access = access_of(request)
    document = home_page.home_document(home_page.project_cards(access))
    return JsonResponse(plain_values({**document, "mine": my_pushes.mine_document(access)}))


@require_safe
def project(request: HttpRequest, slug: str) -> HttpResponse:
    if request.GET.get("part") == "begins":
        scope = scope_of(slug, request.GET)
        context = {"project": scope.project, "begins": beginning.load(scope, is_watched=True)}
        return render(request, "web/project_begins.html", context)
    if request.GET.get("part") == "rows":
        scope, grid = project_page.rows_of(slug, request.GET)
        return render(request, "web/project_rows.html", {"grid": grid, "scope": scope, "is_part": True})
    page = project_page.load(slug, request.GET)
    project = page.scope.project
    hook_url = tracking.hook_url(project) if permit_of(request).maintain else None
    context = {"page": page, "scope": page.scope, "project": project, "hook_url": hook_url}
    context |= {"begins": beginning.load(page.scope), "stream": stream_of_queue()}
    context["try_form"] = tries.TryForm(project)
    context["bell"] = notifications.bell_of(request.user, project)
    return render(request, "web/project.html", context)


@require_safe
def board(request: HttpRequest, slug: str) -> HttpResponse:
    page = board_page.load(slug, request.GET)
    template = "web/board_live.html" if request.GET.get("part") == "live" else "web/board.html"
    return render(request, template, {"page": page, "scope": page.scope, "project": page.scope.project})


@require_safe
def project_values(request: HttpRequest, slug: str, form: str) -> HttpResponseBase:
    format_or_404(form, "a grid")
    scope, grid = project_page.rows_of(slug, request.GET, all_rows=form == "csv")
    document = partial(project_page.project_document, scope, grid, request.GET)
    return values_response(form, slug, document, partial(project_page.csv_rows, scope, grid))


@require_safe
def commit(request: HttpRequest, slug: str, sha: str) -> HttpResponse:
    if request.GET.get("part") == "verdict":
        verdict = commit_page.verdict_of(commit_page.commit_or_404(slug, sha))
        return render(request, "web/commit_verdict.html", {"verdict": verdict, "is_part": True})
    page_query = commit_page.CommitPageQuery.of(request.GET)
    page = commit_page.load(slug, sha, page_query)
    context = {"page": page, "project": page.project, "commit": page.commit}
    context["annotations"] = annotations.of_commit(page.commit) if page.is_annotated else []
    return render(request, "web/commit.html", context)


@require_safe
def commit_values(request: HttpRequest, slug: str, sha: str, form: str) -> HttpResponseBase:
    format_or_404(form, "a commit")
    reading = read(commit_page.commit_or_404(slug, sha), request.GET.get("branch"), request.GET.get("machine"))
    document = CommitDetails.read(reading)
    rows = partial(commit_document.csv_rows, document)
    return values_response(form, f"{slug}-{reading.commit.short}", document.named, rows)


@require_http_methods(["GET", "HEAD", "POST"])
def alert(request: HttpRequest, pk: int) -> HttpResponse:
    if request.method == "POST":
        return decide_alert(request, pk)
    alert_record = alert_page.alert_or_404(pk)
    if alert_record.merged_into_id:
        return redirect("alert", pk=alert_record.merged_into_id)
    page = alert_page.load(alert_record, permit_of(request).triage, alert_page.shown_by(request.GET.get("pairs", "")))
    section = profiles_page.section_of_alert(page.alert, request.GET.get("zoom", ""))
    duel = duels.duel_among((run for evidence in page.evidence for run in evidence.runs), access_of(request))
    context = {"page": page, "alert": page.alert, "project": page.alert.project, "section": section, "duel": duel}
    return render(request, "web/alert.html", context)


@require_safe
def alert_values(request: HttpRequest, pk: int) -> HttpResponse:
    alert_record = alert_page.alert_or_404(pk, alert_page.REPORTED_ALERT)
    if alert_record.merged_into_id:
        return redirect("alert-values", pk=alert_record.merged_into_id)
    return plain_response(alert_page.alert_document(alert_record))


def decide_alert(request: HttpRequest, pk: int) -> HttpResponse:
    """Save a person's decision on an alert."""
    seen_status, status, assignee, comment = (
        request.POST.get(key, "") for key in ("seen", "status", "assignee", "note")
    )
    fields = {"assignee": assignee, "note": comment[:NOTE_LENGTH]}
    perform(request, triage.decide, alert_page.alert_or_404(pk), seen_status, status, **fields, otherwise="Not saved")
    return redirect("alert", pk=pk)


@require_safe
def run(request: HttpRequest, pk: int) -> HttpResponse:
    if request.GET.get("part") == "duel":
        return render(request, "web/duel_live.html", {"duel": duels.Duel(run_page.run_or_404(pk))})
    page = run_page.load(pk, access_of(request), page_of(request.GET))
    template = "web/run_live.html" if request.GET.get("part") == "live" else "web/run.html"
    section = profiles_page.section_of_run(page.run, request.GET.get("zoom", ""))
    return render(request, template, {"page": page, "run": page.run, "project": page.run.project, "section": section})


@require_safe
def run_values(request: HttpRequest, pk: int, form: str) -> HttpResponseBase:
    format_or_404(form, "a run")
    document = RunDetails.of(run_page.run_or_404(pk))
    return values_response(form, f"run-{pk}", document.named, partial(run_page.csv_rows, document))


@require_safe
def run_log(request: HttpRequest, pk: int) -> HttpResponse:
    page = log_page.load(pk, request.GET, access_of(request))
    return render(request, "web/log.html", {"page": page, "run": page.run, "project": page.run.project})


@require_safe
def run_log_lines(request: HttpRequest, pk: int) -> HttpResponse:
    return JsonResponse(log_page.log_document(pk, request.GET))


@require_safe
def run_log_text(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The whole log as plain text."""
    pieces = log_page.whole_log(run_page.run_or_404(pk), request.GET.get("phase"))
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
    return render(request, template, {"page": queue_page.load(access_of(request))})


@require_http_methods(["GET", "HEAD", "POST"])
def machine(request: HttpRequest, name: str) -> HttpResponse:
    if request.method == "POST":
        return lift_quarantine(request, name)
    page = machine_page.load(name, access_of(request))
    return render(request, "web/machine.html", {"page": page, "machine": page.machine})


@require_safe
def machine_values(request: HttpRequest, name: str, form: str) -> HttpResponseBase:
    format_or_404(form, "a machine")
    document = machine_details(machine_page.machine_or_404(name), access_of(request))
    return values_response(form, name, document.named, partial(machine_page.csv_rows, document))


def lift_quarantine(request: HttpRequest, name: str) -> HttpResponse:
    """End a machine's quarantine, for a person."""
    level = request.POST.get("level") == "new"
    perform(request, machines.lift, machine_page.machine_or_404(name), level, otherwise="The quarantine was not ended")
    return redirect("machine", name=name)
