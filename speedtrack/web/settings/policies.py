"""A project's planning policies: list them, and make, change and remove one."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from speedtrack.operations import projects
from speedtrack.runs.requests import rules
from speedtrack.web import scope
from speedtrack.web.pages.settings import policies as page
from speedtrack.web.requests.operating import perform


@require_http_methods(["GET", "HEAD", "POST"])
def list_policies(request: HttpRequest, slug: str) -> HttpResponse:
    """All policies, and the form of the one that the query names (``branches``), or of a new one."""
    project = scope.project_or_404(slug)
    branches = request.GET.get("branches", "")
    form = page.PolicyForm(project, request.POST or None, rules.wanted_now(project, branches))
    if form.is_valid():
        policy = form.wanted()
        is_end = bool(request.POST.get("remove")) or request.POST.get("preview") == "remove"
        verb, inputs = (projects.remove_policy, policy.branches) if is_end else (projects.save_policy, policy)
        if perform(request, verb, project, inputs, otherwise="Nothing was changed"):
            return redirect(reverse("policies", args=[slug]))
    context = {"project": project, "form": form, "page": page.load(project), "branches": branches}
    return render(request, "web/policies.html", context)
