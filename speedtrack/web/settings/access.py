"""Give a project's repository a credential, or take it away."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from speedtrack.operations import projects
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.runs.requests import changing
from speedtrack.web import scope
from speedtrack.web.pages.settings.project_access import AccessForm
from speedtrack.web.pages.settings.project_settings import ProjectForm
from speedtrack.web.requests.operating import perform
from speedtrack.web.settings.projects import settings_page


@sensitive_post_parameters("token", "deploy_key")
@require_POST
def change_access(request: HttpRequest, slug: str) -> HttpResponse:
    """Store the entered credential if the repository accepts it; with ``remove``, delete the stored one."""
    project = scope.project_or_404(slug)
    if request.POST.get("remove"):
        perform(request, projects.forget_credential, project)
        return redirect("project-settings", slug=slug)
    form = AccessForm(request.POST)
    try:
        credential = form.credential(project.url)
        if credential:
            changing.ask_remote(Remote(project.url, credential))
    except RepositoryError as e:
        form.add_error(None, f"Not kept: {e}.")
    else:
        if credential:
            perform(request, projects.keep_credential, project, credential)
            return redirect("project-settings", slug=slug)
        if form.is_valid():
            form.add_error(None, "Not kept: enter a token, or a deploy key with the keys of its host.")
    return settings_page(request, project, ProjectForm(project, None), access=form)
