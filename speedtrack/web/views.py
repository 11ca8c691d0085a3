"""The pages."""

from django.http import HttpRequest, HttpResponse


def healthz(request: HttpRequest) -> HttpResponse:
    """Is the process alive?"""
    return HttpResponse("ok\n", content_type="text/plain")
