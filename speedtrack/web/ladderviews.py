"""The pages whose axis is not time: ladders, and releases."""

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from speedtrack.text import plain_values
from speedtrack.web.pages import ladders as ladders_page
from speedtrack.web.pages import releases as releases_page
from speedtrack.web.views import csv_pieces


@require_safe
def releases(request: HttpRequest, slug: str) -> HttpResponse:
    page = releases_page.load(slug, request.GET)
    return render(request, "web/releases.html", {"page": page, "project": page.project})


@require_safe
def ladders(request: HttpRequest) -> HttpResponse:
    return render(request, "web/ladders.html", {"page": ladders_page.load(request.GET)})


@require_safe
def ladders_values(request: HttpRequest, form: str) -> HttpResponseBase:
    """The same as JSON or CSV."""
    if form not in ("json", "csv"):
        raise Http404(f"There is no format {form!r} of a ladder: there are json and csv.")
    page = ladders_page.load(request.GET)
    if form == "json":
        return JsonResponse(plain_values(ladders_page.ladders_document(page)))
    response = StreamingHttpResponse(csv_pieces(ladders_page.csv_rows(page)), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="ladder.csv"'
    return response
