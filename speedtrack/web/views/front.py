"""Pages that lead to others: the machines, and the search."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from speedtrack.ground.texts.text import plain_values
from speedtrack.web.pages import search as search_page
from speedtrack.web.pages.running import machines as machines_page
from speedtrack.web.requests.permissions import access_of


@require_safe
def machines(request: HttpRequest) -> HttpResponse:
    return render(request, "web/machines.html", {"rows": machines_page.load(access_of(request))})


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    return render(request, "web/search.html", {"page": search_page.load(request.GET.get("q", ""), access_of(request))})


@require_safe
def search_values(request: HttpRequest) -> HttpResponse:
    """What the box in the head of each page suggests."""
    results = search_page.load(request.GET.get("q", ""), access_of(request), search_page.SUGGESTED)
    return JsonResponse(plain_values(search_page.search_document(results)))
