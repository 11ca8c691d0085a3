"""Exports: the points of a project for programs."""

from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_safe
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from speedtrack.web.pages import exports
from speedtrack.web.requests.formats import csv_response, format_or_404
from speedtrack.web.scope import project_or_404

FORMS = ("csv", "json", "ndjson")


@require_safe
def export(request: HttpRequest, slug: str, form: str) -> HttpResponseBase:
    """All points of a branch, or those that the query chooses."""
    format_or_404(form, "an export", FORMS)
    choice = exports.choice_of(project_or_404(slug), request.GET)
    if form == "csv":
        return csv_response(f"{slug}-points", exports.csv_rows(choice))
    if form == "json":
        return attachment(exports.document(choice), "application/json", f"{slug}-points.json")
    return attachment(exports.ndjson(choice), "application/x-ndjson", f"{slug}-points.ndjson")


def attachment(pieces: Iterator[str], kind: str, name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(pieces, content_type=kind)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@require_safe
def openmetrics(request: HttpRequest, slug: str) -> HttpResponse:
    """The newest value of each series."""
    choice = exports.choice_of(project_or_404(slug), request.GET)
    return HttpResponse(exports.openmetrics(choice), content_type=CONTENT_TYPE_LATEST)
