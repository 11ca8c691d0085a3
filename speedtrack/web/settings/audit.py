"""The audit log of a project, and of the installation."""

from functools import partial

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from speedtrack.web import scope
from speedtrack.web.pages.settings import audit as page
from speedtrack.web.requests.formats import format_or_404, values_response


@require_safe
def list_entries(request: HttpRequest, slug: str | None = None) -> HttpResponse:
    """List the entries of a project; without one, those of all projects and of the installation."""
    project = scope.project_or_404(slug) if slug else None
    return render(request, "web/audit.html", {"project": project, "page": page.load(project, request.GET)})


@require_safe
def entries_values(request: HttpRequest, form: str, slug: str | None = None) -> HttpResponseBase:
    """The same as JSON or CSV."""
    format_or_404(form, "the audit log")
    project = scope.project_or_404(slug) if slug else None
    page.AuditFilters.of(request.GET)
    document, rows = partial(page.audit_document, project, request.GET), partial(page.csv_rows, project, request.GET)
    return values_response(form, f"{slug or 'speedtrack'}-audit", document, rows)
