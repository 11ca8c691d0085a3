"""Bisections that people ask for: the list of a project with the form for a new one, a single one, and its end."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.alerts.models import Bisection
from speedtrack.operations import runs
from speedtrack.operations.performing import Actor, Done
from speedtrack.web.pages.alerting import bisection as bisection_page
from speedtrack.web.requests.operating import perform
from speedtrack.web.scope import project_or_404


@require_http_methods(["GET", "HEAD", "POST"])
def bisect(request: HttpRequest, slug: str) -> HttpResponse:
    """The bisections of a project, and the form that begins one."""
    if request.method == "POST":
        return begin(request, slug)
    page = bisection_page.load(slug, request.GET)
    return render(request, "web/bisect.html", {"page": page, "project": page.project})


def begin(request: HttpRequest, slug: str) -> HttpResponse:
    project = project_or_404(slug)

    def verb(actor: Actor) -> Done:
        return runs.begin_bisection(actor, project, bisection_page.read_form(project, request.POST).begin)

    if result := perform(request, verb, otherwise="Nothing was queued"):
        return redirect("bisection", pk=result.row.pk)
    if request.POST.get("preview"):
        return redirect(f"{request.path}?{bisection_page.preset_by(request.POST).urlencode()}")
    return redirect("bisect", slug=slug)


@require_safe
def bisection(request: HttpRequest, pk: int) -> HttpResponse:
    page = bisection_page.load_one(pk)
    return render(request, "web/bisection.html", {"page": page, "project": page.bisection.project})


@require_http_methods(["GET", "HEAD", "POST"])
def stop_bisection(request: HttpRequest, pk: int) -> HttpResponse:
    """End a bisection, and cancel what it has queued. GET: back to its page."""
    search = get_object_or_404(Bisection, pk=pk)
    if request.method == "POST":
        perform(request, runs.stop_bisection, search)
    return redirect("bisection", pk=pk)
