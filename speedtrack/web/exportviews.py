"""Exports: the points of a project for programs."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.views.decorators.http import require_safe
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from speedtrack.accounts import access, tokens
from speedtrack.accounts.models import Scope
from speedtrack.accounts.tokens import UnknownToken
from speedtrack.clientaddress import client_address
from speedtrack.projects.models import Project
from speedtrack.text import UNSTORABLE
from speedtrack.web.pages import exports
from speedtrack.web.requests.formats import csv_response, format_or_404

FORMS = ("csv", "json", "ndjson")


def to_programs(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Make a view that people read with their session, and programs with a token in the header Authorization."""

    @require_safe
    @wraps(view)
    def checked(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponseBase:
        try:
            response = view(request, *arguments, **named)
        except UnknownToken as e:
            response = HttpResponse(f"{e}\n", status=401, content_type="text/plain; charset=utf-8")
            response.headers["WWW-Authenticate"] = 'Bearer realm="SpeedTrack"'
        patch_vary_headers(response, ["Authorization", "Cookie"])
        if "Authorization" in request.headers or request.user.is_authenticated:
            patch_cache_control(response, private=True)
        return response

    return checked


def project_seen(request: HttpRequest, slug: str) -> Project:
    """The project, if the caller may read it. Raises Http404 and UnknownToken."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer":  # such as a password that is for a proxy
        caller = access.person(request.user)
    elif UNSTORABLE.search(token):
        raise UnknownToken("the header must be `Authorization: Bearer stpt_...`, with a token of your settings")
    else:
        caller = tokens.find(token.strip(), client_address(request))
    found = access.visible(caller).filter(slug=slug).first() if Scope.READ in caller.scopes else None
    if found is None:
        raise Http404(f"There is no project {slug!r}.")
    return found


@to_programs
def export(request: HttpRequest, slug: str, form: str) -> HttpResponseBase:
    """All points of a branch, or those that the query chooses."""
    format_or_404(form, "an export", FORMS)
    filters = exports.filters_of(project_seen(request, slug), request.GET)
    if form == "csv":
        return csv_response(f"{slug}-points", exports.csv_rows(filters))
    if form == "json":
        return attachment(exports.document(filters), "application/json", f"{slug}-points.json")
    return attachment(exports.ndjson(filters), "application/x-ndjson", f"{slug}-points.ndjson")


def attachment(pieces: Iterator[str], kind: str, name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(pieces, content_type=kind)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@to_programs
def openmetrics(request: HttpRequest, slug: str) -> HttpResponse:
    """The newest value of each series."""
    filters = exports.filters_of(project_seen(request, slug), request.GET)
    return HttpResponse(exports.openmetrics(filters), content_type=CONTENT_TYPE_LATEST)
