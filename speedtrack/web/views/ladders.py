"""The pages whose axis is not time: ladders, and releases."""

from functools import partial

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from speedtrack.web.pages import releases as releases_page
from speedtrack.web.pages.ladders import page as ladders_page
from speedtrack.web.pages.ladders.document import csv_rows, ladders_document
from speedtrack.web.requests.formats import format_or_404, values_response
from speedtrack.web.requests.permissions import access_of


@require_safe
def releases(request: HttpRequest, slug: str) -> HttpResponse:
    page = releases_page.load(slug, request.GET)
    return render(request, "web/releases.html", {"page": page, "project": page.project})


@require_safe
def releases_values(request: HttpRequest, slug: str, form: str) -> HttpResponseBase:
    """The same as JSON or CSV."""
    format_or_404(form, "releases")
    page = releases_page.load(slug, request.GET)
    document, rows = partial(releases_page.releases_document, page), partial(releases_page.csv_rows, page)
    return values_response(form, f"{slug}-releases", document, rows)


@require_safe
def ladders(request: HttpRequest) -> HttpResponse:
    return render(request, "web/ladders.html", {"page": ladders_page.load(request.GET, access_of(request))})


@require_safe
def ladders_values(request: HttpRequest, form: str) -> HttpResponseBase:
    """The same as JSON or CSV."""
    format_or_404(form, "a ladder")
    page = ladders_page.load(request.GET, access_of(request))
    document, rows = partial(ladders_document, page), partial(csv_rows, page)
    return values_response(form, "ladder", document, rows)
