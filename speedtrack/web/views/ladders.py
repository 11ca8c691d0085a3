"""The pages whose axis is not time: ladders, releases, and the story of one."""

from functools import partial

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from speedtrack.web.pages.ladders import page as ladders_page
from speedtrack.web.pages.ladders.document import csv_rows, ladders_document
from speedtrack.web.pages.releases import document as releases_document
from speedtrack.web.pages.releases import page as releases_page
from speedtrack.web.pages.story import page as story_page
from speedtrack.web.pages.story.markdown import markdown_of
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
    page = releases_page.load(slug, request.GET, everything=True)
    document, rows = partial(releases_document.releases_document, page), partial(releases_document.csv_rows, page)
    return values_response(form, f"{slug}-releases", document, rows)


@require_safe
def story(request: HttpRequest, slug: str) -> HttpResponse:
    """What a release made slower and faster than another one, and whose commits did."""
    page = story_page.load(slug, request.GET, access_of(request))
    text = markdown_of(page, request.get_full_path())
    return render(request, "web/story.html", {"page": page, "project": page.project, "text": text})


@require_safe
def story_text(request: HttpRequest, slug: str) -> HttpResponse:
    """The same as Markdown."""
    page = story_page.load(slug, request.GET, access_of(request))
    query = f"?{request.GET.urlencode()}" if request.GET else ""
    text = markdown_of(page, reverse("story", args=[slug]) + query)
    return HttpResponse(text, content_type="text/markdown; charset=utf-8")


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
