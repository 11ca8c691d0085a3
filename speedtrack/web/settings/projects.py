"""Track a repository, change its settings, untrack it and track it again."""

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.operations import projects
from speedtrack.operations.performing import Actor, BadInput, Done
from speedtrack.projects import hooks
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.projects.models import Project
from speedtrack.runs.requests import changing, tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.web import scope
from speedtrack.web.pages.settings import project_settings as page
from speedtrack.web.pages.settings.project_access import AccessForm
from speedtrack.web.pages.settings.project_settings import ProjectForm, TrackForm
from speedtrack.web.requests.operating import actor_of, is_sure, perform, tell
from speedtrack.web.requests.permissions import access_of


@require_safe
def list_projects(request: HttpRequest) -> HttpResponse:
    return render(request, "web/settings_projects.html", {"projects": page.load_list(access_of(request))})


@require_http_methods(["GET", "HEAD", "POST"])
def track(request: HttpRequest) -> HttpResponse:
    """Track a repository, and show its webhook with the secret, this once. Or say what tracking would queue."""
    form, access = TrackForm(request.POST or None, request.GET.dict()), AccessForm(request.POST or None)
    if form.is_valid() and access.is_valid():
        try:
            credential = access.credential(form.cleaned_data["url"])
            if access.is_valid() and (project := track_or_preview(request, form.request(credential))):
                return tracked_page(request, project)
        except changing.Taken as e:
            form.add_error("name", str(e))
        except (RepositoryError, DefinitionError) as e:
            form.add_error("suite" if isinstance(e, DefinitionError) else "url", str(e))
    return render(request, "web/track.html", {"form": form, "access": access})


def tracked_page(request: HttpRequest, project: Project) -> HttpResponse:
    """The secret is in this answer only: it is stored in no session or message."""
    hook = tracking.hook_of(project, is_new=True)
    response = render(request, "web/tracked.html", {"project": project, "hook": hook})
    response["Cache-Control"] = "no-store"
    return response


def track_or_preview(request: HttpRequest, tracking_request: TrackingRequest) -> Project | None:
    """Begin to track a repository; or show what that would queue, and return nothing. Raises as ``projects.track``."""
    result = projects.track(actor_of(request), tracking_request)
    if result.outlook:
        tell(request, result)
    project: Project | None = result.row
    return project


@require_POST
def check_address(request: HttpRequest) -> HttpResponse:
    """A part of a page: whether the repository answers, and with which branches."""
    url, access = request.POST.get("url", "").strip()[:500], AccessForm(request.POST)
    try:
        credential = access.credential(url)
        if access.errors:
            return render(request, "web/track_check.html", {"error": first_error(access)})
        remote = changing.ask_remote(Remote(url, credential))
    except RepositoryError as e:
        return render(request, "web/track_check.html", {"error": str(e)})
    project = Project.objects.filter(url=remote.url).first()
    return render(request, "web/track_check.html", {"remote": remote, "known": project})


def first_error(form: AccessForm) -> str:
    return next(str(error) for errors in form.errors.values() for error in errors)


@require_http_methods(["GET", "HEAD", "POST"])
def project_settings(request: HttpRequest, slug: str) -> HttpResponse:
    project = scope.project_or_404(slug)
    form = ProjectForm(project, request.POST or None)
    if form.is_valid():
        try:
            tell(request, projects.change(actor_of(request), project, form.values, form.is_unrelated))
            return redirect("project-settings", slug=slug)
        except RepositoryError as e:
            form.add_error("url", str(e))
    return settings_page(request, project, form)


def settings_page(request: HttpRequest, project: Project, form: ProjectForm, **additions: object) -> HttpResponse:
    """``additions``: the ``access`` form; the ``secret``, shown this once; the ``entered`` replacement."""
    context = {"project": project, "form": form, "page": page.load(project), "access": AccessForm(None)} | additions
    response = render(request, "web/project_settings.html", context)
    response["Cache-Control"] = "no-store"
    return response


@require_POST
def rotate_secret(request: HttpRequest, slug: str) -> HttpResponse:
    """Give the webhook a new secret, and show it in the answer: it is stored in no session or message.

    Or say what that would change.
    """
    project = scope.project_or_404(slug)
    entered_secret = request.POST.get("given", "").strip()
    result = perform(
        request, lambda actor: confirmed_rotation(actor, project, entered_secret, request.POST), otherwise="Not changed"
    )
    if result is None:
        return settings_page(request, project, ProjectForm(project, None), entered=request.POST)
    if entered_secret:
        return redirect("project-settings", slug=slug)
    return settings_page(request, project, ProjectForm(project, None), secret=result.secret)


def confirmed_rotation(actor: Actor, project: Project, entered_secret: str, form: QueryDict) -> Done:
    days = form.get("days", str(hooks.FORMER_DAYS))
    if not is_sure(form):
        raise BadInput("confirm that the forge gets the new secret while the former one is valid")
    if not (days.isascii() and days.isdecimal() and len(days) < 5):
        raise BadInput("give a number of days")
    return projects.rotate_secret(actor, project, int(days), entered_secret)


@require_http_methods(["GET", "HEAD", "POST"])
def untrack(request: HttpRequest, slug: str) -> HttpResponse:
    """Say what untracking keeps and ends, and do it once the name is typed."""
    project = scope.project_or_404(slug)
    error = ""
    if request.method == "POST" and request.POST.get("slug", "").strip() != project.slug:
        error = f"Not untracked: type {project.slug}, exactly."
    elif request.method == "POST" and perform(request, projects.untrack, project):
        return redirect("settings")
    context = {"project": project, "page": page.load(project), "error": error, "entered": request.POST}
    return render(request, "web/untrack.html", context)


@require_POST
def change_tracking(request: HttpRequest, slug: str, action: str) -> HttpResponse:
    """Do one of ACTIONS with a project."""
    project = scope.project_or_404(slug)
    if action not in ACTIONS:
        raise Http404(f"There is no action {action!r}: there are {', '.join(ACTIONS)}.")
    perform(request, lambda actor: ACTIONS[action](actor, project, request.POST.get("branch", "").strip()))
    return redirect("project-settings", slug=slug)


ACTIONS: dict[str, Callable[[Actor, Project, str], Done]] = {
    "end-former-secret": lambda actor, project, branch: projects.end_former_secret(actor, project),
    "keep-address": lambda actor, project, branch: projects.keep_address(actor, project),
    "follow-branch": lambda actor, project, branch: projects.follow_branch(actor, project),
    "track-again": lambda actor, project, branch: projects.track_again(actor, project),
    "add-branch": projects.add_branch,
    "drop-branch": projects.drop_branch,
}
