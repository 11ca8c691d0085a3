"""Bisections by hand: the list of a project with the form that begins one, one of them, and its end."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.alerts import bisecting
from speedtrack.alerts.measuring import NotMeasurable
from speedtrack.alerts.models import Bisection
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.web.pages import bisection as bisection_page
from speedtrack.web.requests.permissions import note
from speedtrack.web.scope import project_or_404


@require_http_methods(["GET", "HEAD", "POST"])
def bisect(request: HttpRequest, slug: str) -> HttpResponse:
    """The bisections of a project, and the form that begins one."""
    if request.method == "POST":
        return begin(request, slug)
    page = bisection_page.load(slug, request.GET)
    return render(request, "web/bisect.html", {"page": page, "project": page.project})


def begin(request: HttpRequest, slug: str) -> HttpResponse:
    assert isinstance(request.user, User)
    project = project_or_404(slug)
    try:
        asked = bisection_page.read_form(project, request.POST)
        made = bisecting.start(
            asked.before, asked.commit, asked.machine, asked.names, metric=asked.metric, asked_by=request.user
        )
    except (NotMeasurable, DefinitionError) as e:
        messages.error(request, f"Nothing was queued: {e}.")
        return redirect("bisect", slug=slug)
    note(request, "bisection.begin", f"bisection {made.pk}: {made.before.short}..{made.commit.short}", project)
    return redirect("bisection", pk=made.pk)


@require_safe
def bisection(request: HttpRequest, pk: int) -> HttpResponse:
    page = bisection_page.load_one(pk)
    return render(request, "web/bisection.html", {"page": page, "project": page.bisection.project})


@require_http_methods(["GET", "HEAD", "POST"])
def stop_bisection(request: HttpRequest, pk: int) -> HttpResponse:
    """End a bisection, and cancel what it has queued. GET: back to its page."""
    found = get_object_or_404(Bisection, pk=pk)
    if request.method == "POST":
        bisecting.stop(found, f"stopped by {request.user.get_username()}")
        note(request, "bisection.stop", f"bisection {pk}", found.project)
        messages.success(request, "The bisection has ended.")
    return redirect("bisection", pk=pk)
