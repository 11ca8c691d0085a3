"""The settings of the whole installation, to be read only."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from speedtrack.web.pages.settings import installation as page


@require_safe
def installation(request: HttpRequest) -> HttpResponse:
    return render(request, "web/installation.html", {"topics": page.load()})
