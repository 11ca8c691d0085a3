"""The pages by which people ask for measurements: of ranges of commits, single runs, and heads of pull requests."""

from functools import partial

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.operations import runs
from speedtrack.runs.requests import byhand
from speedtrack.runs.requests.byhand import RunSelection
from speedtrack.web import scope
from speedtrack.web.pages.running import run as run_page
from speedtrack.web.pages.settings import measure as page
from speedtrack.web.pages.settings import pulls as pulls_page
from speedtrack.web.requests.operating import perform


@require_http_methods(["GET", "HEAD", "POST"])
def measure(request: HttpRequest, slug: str) -> HttpResponse:
    """Queue commits by hand, or say what that would queue."""
    project = scope.project_or_404(slug)
    form = page.MeasureForm(project, request.POST or None, request.GET.dict())
    if form.is_valid():
        commit_range = form.asked()
        select = partial(selection_of, commit_range)
        result = perform(request, runs.queue, project, select, commit_range.expression, otherwise="Nothing was queued")
        if result:
            return redirect("queue")
    return render(request, "web/measure.html", {"project": project, "form": form})


def selection_of(commit_range: page.AskedRange) -> RunSelection:
    # Without fetching: a thread of the web server may not wait for minutes.
    return byhand.choose(
        commit_range.slug,
        commit_range.expression,
        commit_range.benchmarks,
        commit_range.machine,
        commit_range.extended,
        commit_range.releases,
        thinning=commit_range.thinning,
        fetches=False,
    )


@require_POST
def act_on_run(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """Do one of RUN_ACTIONS with a run, or say what that would change."""
    if action not in runs.RUN_ACTIONS:
        raise Http404(f"There is no action {action!r}: there are {', '.join(runs.RUN_ACTIONS)}.")
    perform(request, runs.RUN_ACTIONS[action], run_page.run_or_404(pk))
    return redirect("run", pk=pk)


@require_safe
def list_pulls(request: HttpRequest, slug: str) -> HttpResponse:
    project = scope.project_or_404(slug)
    return render(request, "web/pulls.html", {"project": project, "page": pulls_page.load(project)})


@require_POST
def approve_pull(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Let the machines measure the head that the page showed, or say what that would change."""
    pull = pulls_page.pull_or_404(scope.project_or_404(slug), number)
    perform(request, runs.approve, pull, request.POST.get("head", "")[:64], otherwise="Not approved")
    return redirect("pulls", slug=slug)
