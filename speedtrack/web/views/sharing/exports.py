"""Exports: the points of a project for programs."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.views.decorators.http import require_safe
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from speedtrack.web import scope
from speedtrack.web.pages.sharing import exportedpoints, exports
from speedtrack.web.requests.formats import format_or_404

FORMS = ("csv", "json", "ndjson")


def to_programs(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Make a view that people read with their session, and programs with a token in the header Authorization."""

    @require_safe
    @wraps(view)
    def checked(request: HttpRequest, *arguments: Any, **keywords: Any) -> HttpResponseBase:
        response = view(request, *arguments, **keywords)
        patch_vary_headers(response, ["Authorization", "Cookie"])
        if "Authorization" in request.headers or request.user.is_authenticated:
            patch_cache_control(response, private=True)
        return response

    return checked


@to_programs
def export(request: HttpRequest, slug: str, form: str) -> HttpResponseBase:
    """All points of a branch, or those that the query chooses."""
    format_or_404(form, "an export", FORMS)
    filters = exports.filters_of(scope.project_or_404(slug), request.GET)
    if form == "csv":
        return attachment(exportedpoints.csv_lines(filters), "text/csv; charset=utf-8", f"{slug}-points.csv")
    if form == "json":
        return attachment(exportedpoints.document(filters), "application/json", f"{slug}-points.json")
    return attachment(exportedpoints.ndjson(filters), "application/x-ndjson", f"{slug}-points.ndjson")


def attachment(pieces: Iterator[str], kind: str, name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(pieces, content_type=kind)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@to_programs
def openmetrics(request: HttpRequest, slug: str) -> HttpResponse:
    """The newest value of each series."""
    filters = exports.filters_of(scope.project_or_404(slug), request.GET)
    return HttpResponse(exports.openmetrics(filters), content_type=CONTENT_TYPE_LATEST)
