"""The webhook calls of a project: look at them, replay and delete them."""

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.projects import deliveries
from speedtrack.projects.models import Project
from speedtrack.web import scope
from speedtrack.web.pages.settings import deliveries as page
from speedtrack.web.requests.permissions import note
from speedtrack.web.requests.previews import do_or_preview, is_sure


@require_http_methods(["GET", "HEAD", "POST"])
def list_deliveries(request: HttpRequest, slug: str) -> HttpResponse:
    """The calls; a POST does one of ACTIONS, or says what that would change."""
    project = scope.project_or_404(slug)
    if request.method == "POST":
        act(request, project)
        if not request.POST.get("preview"):
            return redirect("deliveries", slug=project.slug)
    context = {"project": project, "page": page.load(project, request.GET)}
    context |= {"selected": numbers_of(request.POST), "days": request.POST.get("days", "30")[:5]}
    context["sure"] = bool(request.POST.get("sure"))
    return render(request, "web/deliveries.html", context)


@require_safe
def show_delivery(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    project = scope.project_or_404(slug)
    return render(request, "web/delivery.html", {"project": project, "page": page.load_one(project, pk)})


def act(request: HttpRequest, project: Project) -> None:
    action = ACTIONS.get(request.POST.get("act", ""))
    try:
        if action is None:
            raise deliveries.NotPossible(f"choose one of {', '.join(ACTIONS)}")
        if message := do_or_preview(request, partial(action, project, request.POST)):
            note(request, f"delivery.{request.POST['act']}", message, project)
    except deliveries.NotPossible as e:
        messages.error(request, f"Not done: {e}.")


def replay(project: Project, form: QueryDict) -> str:
    numbers = numbers_of(form)
    if not numbers:
        raise deliveries.NotPossible("select one delivery or more")
    count = deliveries.replay(project, deliveries.calls_numbered(project, numbers))
    return f"{count} deliver{'y is' if count == 1 else 'ies are'} replayed: the repository is looked at within seconds."


def purge(project: Project, form: QueryDict) -> str:
    days = form.get("days", "").strip()
    if not is_number(days):
        raise deliveries.NotPossible("give a number of days")
    if not is_sure(form):
        raise deliveries.NotPossible("confirm that nothing brings them back")
    return f"{deliveries.purge(project, int(days))} are deleted."


def numbers_of(form: QueryDict) -> list[int]:
    return [int(number) for number in form.getlist("delivery") if is_number(number)]


def is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


ACTIONS: dict[str, Callable[[Project, QueryDict], str]] = {"replay": replay, "purge": purge}
