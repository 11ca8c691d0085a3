"""Refuse requests with characters that PostgreSQL's text cannot hold, before anything looks them up or stores them.

The documents of runners are read and checked by ``runs/documents.py``.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict

from speedtrack.runs.documents import UNSTORABLE

GetResponse = Callable[[HttpRequest], HttpResponse]
PROGRAMS = ("/api/", "/hooks/")  # addresses that programs call


class StorableCharacters:
    """Answers 400 with the place, where the path, the query, a header, a cookie or a form cannot be stored."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.encoding and request.encoding.lower() != "utf-8":
            return refusal(request, "The content type names a character set other than UTF-8: send UTF-8.")
        return refused(request, address(request)) or self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, *arguments: Any) -> HttpResponse | None:
        """Views that are exempt from CSRF read no form: their body stays as it came, of which they may want all."""
        if request.method != "POST" or getattr(view, "csrf_exempt", False):
            return None
        return refused(request, {"form": texts(request.POST)})


def address(request: HttpRequest) -> dict[str, Iterable[str]]:
    """The texts of a request without its body, by place."""
    return {
        "path": [request.path_info],
        "query": texts(request.GET),
        "headers": request.headers.values(),
        "cookies": request.COOKIES.values(),
    }


def texts(query: QueryDict) -> list[str]:
    return [*query, *(value for values in query.lists() for value in values[1])]


def refused(request: HttpRequest, places: dict[str, Iterable[str]]) -> HttpResponse | None:
    for place, values in places.items():
        for value in values:
            if found := UNSTORABLE.search(str(value)):
                verb = "hold" if place.endswith("s") else "holds"
                code = f"U+{ord(found[0]):04X}"
                return refusal(request, f"The {place} {verb} a character that no text may hold ({code}): leave it out.")
    return None


def refusal(request: HttpRequest, sentence: str) -> HttpResponse:
    if request.path_info.startswith(PROGRAMS):
        return JsonResponse({"error": sentence}, status=400)
    return HttpResponse(f"{sentence}\n", status=400, content_type="text/plain; charset=utf-8")
