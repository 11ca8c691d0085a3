"""A project's planning policies: list them, and make, change and remove one."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.runs.planning.policies import BadPolicy
from speedtrack.runs.requests import rules
from speedtrack.web import scope
from speedtrack.web.pages.settings import policies as page
from speedtrack.web.requests.permissions import note
from speedtrack.web.requests.previews import do_or_preview


@require_http_methods(["GET", "HEAD", "POST"])
def list_policies(request: HttpRequest, slug: str) -> HttpResponse:
    """All policies, and the form of the one that the query names (``branches``), or of a new one."""
    project = scope.project_or_404(slug)
    branches = request.GET.get("branches", "")
    form = page.PolicyForm(project, request.POST or None, rules.wanted_now(project, branches))
    if form.is_valid():
        try:
            is_end = bool(request.POST.get("remove")) or request.POST.get("preview") == "remove"
            subject = form.wanted().branches or "all other branches"
            if is_end:
                is_done = do_or_preview(request, lambda: rules.remove_policy(project, form.wanted().branches))
            else:
                is_done = do_or_preview(request, lambda: rules.save_policy(project, form.wanted()))
            if is_done:
                fields = {} if is_end else {"fields": (None, ", ".join(form.changed_data))}
                note(request, "policy.remove" if is_end else "policy.save", subject, project, fields)
        except (BadPolicy, DefinitionError) as e:
            messages.error(request, f"Nothing was changed: {e}.")
        else:
            if not request.POST.get("preview"):
                return redirect(reverse("policies", args=[slug]))
    context = {"project": project, "form": form, "page": page.load(project), "branches": branches}
    return render(request, "web/policies.html", context)
