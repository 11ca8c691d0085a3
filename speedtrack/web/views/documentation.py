"""Help: what the words of the pages mean, and the documentation."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from speedtrack.web.pages import documents


@require_safe
def help_index(request: HttpRequest) -> HttpResponse:
    return render(request, "web/help.html", {"page": documents.index()})


@require_safe
def help_page(request: HttpRequest, name: str) -> HttpResponse:
    return render(request, "web/document.html", {"page": documents.load(name), "groups": documents.GROUPS})
