"""The pages by which people ask for measurements: of ranges of commits, single runs, and heads of pull requests."""

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.errors import RepositoryError
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.models import Approval
from speedtrack.runs.planning import pullrequests
from speedtrack.runs.requests import byhand
from speedtrack.web import scope
from speedtrack.web.pages.running import run as run_page
from speedtrack.web.pages.settings import measure as page
from speedtrack.web.pages.settings import pulls as pulls_page
from speedtrack.web.requests.permissions import note
from speedtrack.web.requests.previews import do_or_preview

ACTIONS: dict[str, Callable[[int], str]] = {
    "retry": byhand.retry_run,
    "cancel": byhand.cancel_run,
    "raise": byhand.raise_run,
}


@require_http_methods(["GET", "HEAD", "POST"])
def measure(request: HttpRequest, slug: str) -> HttpResponse:
    """Queue commits by hand, or say what that would queue."""
    project = scope.project_or_404(slug)
    form = page.MeasureForm(project, request.POST or None, request.GET.dict())
    if form.is_valid():
        try:
            commit_range = form.asked()
            if do_or_preview(request, partial(queue_asked, commit_range)):
                note(request, "run.queue", commit_range.expression, project)
        except (NoSuchThing, RepositoryError, DefinitionError) as e:
            messages.error(request, f"Nothing was queued: {e}.")
        else:
            if not request.POST.get("preview"):
                return redirect("queue")
    return render(request, "web/measure.html", {"project": project, "form": form})


def queue_asked(commit_range: page.AskedRange) -> str:
    # Without fetching: a thread of the web server may not wait for minutes.
    selection = byhand.choose(
        commit_range.slug,
        commit_range.expression,
        commit_range.benchmarks,
        commit_range.machine,
        commit_range.extended,
        commit_range.releases,
        thinning=commit_range.thinning,
        fetches=False,
    )
    count = byhand.queue_by_hand(selection)
    return f"{count} run{'' if count == 1 else 's'} of {len(selection.ranks)} commits queued"


@require_POST
def act_on_run(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """Do one of ACTIONS with a run, or say what that would change."""
    if action not in ACTIONS:
        raise Http404(f"There is no action {action!r}: there are {', '.join(ACTIONS)}.")
    run = run_page.run_or_404(pk)
    try:
        if do_or_preview(request, partial(ACTIONS[action], run.pk)):
            note(request, f"run.{action}", f"run {pk} of {run.commit.short}", run.project)
    except NoSuchThing as e:
        messages.error(request, f"Not done: {e}.")
    return redirect("run", pk=pk)


@require_safe
def list_pulls(request: HttpRequest, slug: str) -> HttpResponse:
    project = scope.project_or_404(slug)
    return render(request, "web/pulls.html", {"project": project, "page": pulls_page.load(project)})


@require_POST
def approve_pull(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Let the machines measure the head that the page showed, or say what that would change."""
    assert isinstance(request.user, User)
    pull = pulls_page.pull_or_404(scope.project_or_404(slug), number)
    head = request.POST.get("head", "")[:64]
    approve = pullrequests.approve_as_fetched if request.POST.get("preview") else pullrequests.approve
    verb = partial(approve, pull, head, request.user)
    try:
        if do_or_preview(request, lambda: approved(verb())):
            note(request, "pull.approve", f"{pull} at {head}", pull.project)
    except pullrequests.NotApprovable as e:
        messages.error(request, f"Not approved: {e}.")
    return redirect("pulls", slug=slug)


def approved(approval: Approval) -> str:
    return f"{approval} is approved: its pairs are queued as soon as it is fetched."
