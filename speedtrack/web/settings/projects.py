"""Track a repository, and change, untrack and track again what is tracked."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.accounts.operations import named
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects import hooks
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.models import Project
from speedtrack.projects.remotes import Remote
from speedtrack.runs.requests import changing, firstlook, tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.web import scope
from speedtrack.web.pages.settings import project_settings as page
from speedtrack.web.pages.settings.project_access import AccessForm
from speedtrack.web.pages.settings.project_settings import ProjectForm, TrackForm
from speedtrack.web.requests.permissions import access_of, note, permit_of
from speedtrack.web.requests.previews import do_or_preview, is_sure


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
    """Begin to track a repository; or show what that would queue, and return nothing. Raises as ``begin_tracking``."""
    if request.POST.get("preview"):
        do_or_preview(request, lambda: firstlook.begin_as_fetched(tracking_request))
        return None
    assert isinstance(request.user, User)
    project = changing.begin_tracking(tracking_request, request.user)
    note(request, "project.track", project.url, project)
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
            changes = form.save()
        except RepositoryError as e:
            form.add_error("url", str(e))
        else:
            if changes:
                note(request, "project.change", changes, project)
            messages.success(request, f"Saved: {changes}." if changes else "Nothing was changed.")
            return redirect("project-settings", slug=slug)
    return settings_page(request, project, form)


def settings_page(request: HttpRequest, project: Project, form: ProjectForm, **additions: object) -> HttpResponse:
    """``additions``: the ``access`` form; the ``secret``, shown this once; what was ``entered`` to replace it."""
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
    days, secret = request.POST.get("days", str(hooks.FORMER_DAYS)), request.POST.get("given", "").strip()
    try:
        if not is_sure(request.POST):
            raise hooks.UnfitSecret("confirm that the forge gets the new secret while the former one is valid")
        if not (days.isascii() and days.isdecimal() and len(days) < 5):
            raise hooks.UnfitSecret("give a number of days")
        secrets: list[str] = []
        message = do_or_preview(request, lambda: replace_secret(project, int(days), secret, secrets))
        if not message:
            return settings_page(request, project, ProjectForm(project, None), entered=request.POST)
        note(request, "hook.rotate", project, project, {"days": (None, int(days))})
    except hooks.UnfitSecret as e:
        messages.error(request, f"Not changed: {e}.")
        return settings_page(request, project, ProjectForm(project, None), entered=request.POST)
    if secret:
        return redirect("project-settings", slug=slug)
    return settings_page(request, project, ProjectForm(project, None), secret=secrets[-1])


def replace_secret(project: Project, days: int, secret: str, secrets: list[str]) -> str:
    """Replace the webhook's secret. Return a message.

    The new secret is added to ``secrets``, because no message may contain it.
    """
    secrets.append(hooks.rotate(project, days, secret))
    former = f"valid for {days} day{'s' * (days != 1)}" if days else "refused"
    return f"{project.name} has a new secret; the former one is {former}."


@require_http_methods(["GET", "HEAD", "POST"])
def untrack(request: HttpRequest, slug: str) -> HttpResponse:
    """Say what untracking keeps and ends, and do it once the name is typed."""
    project = scope.project_or_404(slug)
    error = ""
    if request.method == "POST" and request.POST.get("slug", "").strip() != project.slug:
        error = f"Not untracked: type {project.slug}, exactly."
    elif request.POST.get("preview"):
        do_or_preview(request, lambda: f"{changing.untrack(project)} waiting runs would be cancelled")
    elif request.method == "POST":
        cancelled = changing.untrack(project)
        note(request, "project.untrack", project, project)
        again = f"{reverse('project-settings', args=[slug])}"
        messages.success(
            request,
            f"{project.name} is no longer tracked; {cancelled} waiting runs were cancelled. "
            f"“Track again” at {again} undoes it.",
        )
        return redirect("settings")
    context = {"project": project, "page": page.load(project), "error": error, "entered": request.POST}
    return render(request, "web/untrack.html", context)


@require_POST
def change_tracking(request: HttpRequest, slug: str, action: str) -> HttpResponse:
    """Do one of ACTIONS with a project."""
    project = scope.project_or_404(slug)
    if action not in ACTIONS:
        raise Http404(f"There is no action {action!r}: there are {', '.join(ACTIONS)}.")
    try:
        if action == "track-again" and not permit_of(request).own:
            raise RepositoryError("this needs the role owner, as untracking does")
        branch = request.POST.get("branch", "").strip()
        message = ACTIONS[action](project, branch)
        note(request, named("project", action), branch or project, project)
        messages.success(request, message)
    except RepositoryError as e:
        messages.error(request, f"Not done: {e}.")
    return redirect("project-settings", slug=slug)


def track_again(project: Project, branch: str) -> str:
    changing.track_again(project)
    return f"{project.name} is tracked again. Its webhook has a new address and needs a new secret."


def add_branch(project: Project, branch: str) -> str:
    if not branch:
        raise RepositoryError("name a branch")
    new_branch = changing.add_branch(project, branch, page.FIRST_COMMITS)
    return f"Branch {new_branch} is tracked: it is fetched within seconds. “Stop” in its row undoes it."


def drop_branch(project: Project, branch: str) -> str:
    tracked_branch = project.branches.filter(name=branch).first()
    if tracked_branch is None:
        raise RepositoryError(f"{project.slug} has no branch {branch!r}")
    changing.drop_branch(tracked_branch)
    return f"New commits of {tracked_branch} are no longer measured; its history stays. “Track” in its row undoes it."


def end_former_secret(project: Project, branch: str) -> str:
    had_former = hooks.end_former(project)
    return "Calls that are signed with the former secret are refused." if had_former else "There was no former secret."


def keep_address(project: Project, branch: str) -> str:
    Project.objects.filter(pk=project.pk).update(renamed_to="")
    return f"{project.name} keeps its address {project.url}."


ACTIONS: dict[str, Callable[[Project, str], str]] = {
    "end-former-secret": end_former_secret,
    "keep-address": keep_address,
    "track-again": track_again,
    "add-branch": add_branch,
    "drop-branch": drop_branch,
}
