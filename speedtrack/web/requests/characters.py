"""Refuse requests with characters that PostgreSQL cannot store in text, before a view looks them up or stores them.

``runs/documentfields.py`` checks the documents of runners.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from speedtrack.ground.texts.text import UNSTORABLE
from speedtrack.web.requests.errors import is_program, program_response

GetResponse = Callable[[HttpRequest], HttpResponse]


class StorableCharacters:
    """Middleware that answers 400 if the path, the query, a header, a cookie or a form cannot be stored.

    The answer names the place.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.encoding and request.encoding.lower() != "utf-8":
            return refuse(request, "The content type names a character set other than UTF-8: send UTF-8.")
        return refuse_unstorable(request, request_texts(request)) or self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, *arguments: Any) -> HttpResponse | None:
        """Check the form. Views that are exempt from CSRF read the raw body: it is left to them."""
        if request.method != "POST" or getattr(view, "csrf_exempt", False):
            return None
        return refuse_unstorable(request, {"form": query_texts(request.POST)})


def request_texts(request: HttpRequest) -> dict[str, Iterable[str]]:
    """The strings that a request carries outside of its body, keyed by where they stand."""
    return {
        "path": [request.path_info],
        "query": query_texts(request.GET),
        "headers": request.headers.values(),
        "cookies": request.COOKIES.values(),
    }


def query_texts(query: QueryDict) -> list[str]:
    return [*query, *(value for values in query.lists() for value in values[1])]


def refuse_unstorable(request: HttpRequest, texts: dict[str, Iterable[str]]) -> HttpResponse | None:
    for source, values in texts.items():
        for value in values:
            if match := UNSTORABLE.search(str(value)):
                verb = "hold" if source.endswith("s") else "holds"
                code = f"U+{ord(match[0]):04X}"
                return refuse(request, f"The {source} {verb} a character that cannot be stored ({code}): leave it out.")
    return None


def refuse(request: HttpRequest, sentence: str) -> HttpResponse:
    if is_program(request):
        return program_response(request, 400, sentence)
    return HttpResponse(f"{sentence}\n", status=400, content_type="text/plain; charset=utf-8")
