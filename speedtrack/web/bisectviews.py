"""Bisections that people ask for: the list of a project with the form for a new one, a single one, and its end."""

from functools import partial

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.models import Bisection
from speedtrack.alerts.triage.measuring import NotMeasurable
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.web.pages.alerting import bisection as bisection_page
from speedtrack.web.requests.permissions import note
from speedtrack.web.requests.previews import do_or_preview
from speedtrack.web.scope import project_or_404


@require_http_methods(["GET", "HEAD", "POST"])
def bisect(request: HttpRequest, slug: str) -> HttpResponse:
    """The bisections of a project, and the form that begins one."""
    if request.method == "POST":
        return begin(request, slug)
    page = bisection_page.load(slug, request.GET)
    return render(request, "web/bisect.html", {"page": page, "project": page.project})


def begin(request: HttpRequest, slug: str) -> HttpResponse:
    user = request.user
    assert isinstance(user, User)
    project = project_or_404(slug)
    searches: list[Bisection] = []
    try:
        form = bisection_page.read_form(project, request.POST)

        def verb() -> str:
            searches.append(form.begin(user))
            return bisecting.bisection_in_words(searches[-1])

        is_done = do_or_preview(request, verb)
    except (NotMeasurable, DefinitionError) as e:
        messages.error(request, f"Nothing was queued: {e}.")
        return redirect("bisect", slug=slug)
    if not is_done:
        return redirect(f"{request.path}?{bisection_page.preset_by(request.POST).urlencode()}")
    search = searches[-1]
    note(request, "bisection.begin", f"bisection {search.pk}: {search.before.short}..{search.commit.short}", project)
    return redirect("bisection", pk=search.pk)


@require_safe
def bisection(request: HttpRequest, pk: int) -> HttpResponse:
    page = bisection_page.load_one(pk)
    return render(request, "web/bisection.html", {"page": page, "project": page.bisection.project})


@require_http_methods(["GET", "HEAD", "POST"])
def stop_bisection(request: HttpRequest, pk: int) -> HttpResponse:
    """End a bisection, and cancel what it has queued. GET: back to its page."""
    search = get_object_or_404(Bisection, pk=pk)
    if request.method == "POST":
        stop = partial(bisecting.stop, search, f"stopped by {request.user.get_username()}")
        if do_or_preview(request, stop):
            note(request, "bisection.stop", f"bisection {pk}", search.project)
    return redirect("bisection", pk=pk)
