"""The webhook calls of a project: look at them, replay and delete them."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.operations import projects
from speedtrack.operations.performing import Actor, BadInput, Done
from speedtrack.projects.models import Project
from speedtrack.web import scope
from speedtrack.web.pages.settings import deliveries as page
from speedtrack.web.requests.operating import is_sure, perform


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
    action = ACTIONS.get(request.POST.get("act", ""), unknown)
    perform(request, lambda actor: action(actor, project, request.POST))


def unknown(actor: Actor, project: Project, form: QueryDict) -> Done:
    raise BadInput(f"choose one of {', '.join(ACTIONS)}")


def replay(actor: Actor, project: Project, form: QueryDict) -> Done:
    return projects.replay(actor, project, numbers_of(form))


def purge(actor: Actor, project: Project, form: QueryDict) -> Done:
    days = form.get("days", "").strip()
    if not is_number(days):
        raise BadInput("give a number of days")
    if not is_sure(form):
        raise BadInput("confirm that nothing brings them back")
    return projects.purge(actor, project, int(days))


def numbers_of(form: QueryDict) -> list[int]:
    return [int(number) for number in form.getlist("delivery") if is_number(number)]


def is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


ACTIONS: dict[str, Callable[[Actor, Project, QueryDict], Done]] = {"replay": replay, "purge": purge}
