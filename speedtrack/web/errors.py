"""Answers to requests that fail: a JSON document for programs, a page for people. None of them asks the database."""

import sys
from typing import NamedTuple

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string

PROGRAMS = ("/api/", "/hooks/")  # addresses that programs call
DATABASE_AWAY = (OperationalError, InterfaceError)
RETRY_AFTER_S = 10


class Words(NamedTuple):
    title: str
    sentence: str


WORDS: dict[int, Words] = {
    400: Words("Bad request", "The server cannot read this request: check its address, its Host header and its form."),
    403: Words(
        "Not allowed", "The form is too old, or cookies are off: go back, load the page anew, and send the form again."
    ),
    404: Words("Not found", "There is nothing at this address."),
    405: Words("Not possible", "This address takes no such method: the Allow header names those that it takes."),
    411: Words("Length needed", "The body has no Content-Length: send it in one piece, with its length."),
    413: Words("Too large", "The body is too large: the limit is {limit} bytes."),
    500: Words("Defect", "The server failed at this request. Its log says where."),
    503: Words("Not now", f"The database does not answer. Nothing is lost: try again in {RETRY_AFTER_S} seconds."),
}


def is_program(request: HttpRequest) -> bool:
    return request.path_info.startswith(PROGRAMS)


def answer(request: HttpRequest, status: int, **values: object) -> HttpResponse:
    """The answer with this status; ``values`` fill the placeholders of its sentence."""
    title, sentence = WORDS[status]
    return told(request, status, Words(title, sentence.format(**values)))


def told(request: HttpRequest, status: int, words: Words) -> HttpResponse:
    if is_program(request):
        return JsonResponse({"error": words.sentence}, status=status)
    return HttpResponse(render_to_string("web/error.html", words._asdict()), status=status)


def database_away(request: HttpRequest) -> HttpResponse:
    response = answer(request, 503)
    response["Retry-After"] = str(RETRY_AFTER_S)
    return response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(request, 400)


def forbidden(request: HttpRequest, exception: Exception | None = None, reason: str = "") -> HttpResponse:
    """Django's handler of 403, and of forms without a valid token."""
    return answer(request, 403)


def failed(request: HttpRequest) -> HttpResponse:
    """Django's handler of exceptions, called while the exception is handled; Django writes its traceback to the log."""
    return database_away(request) if isinstance(sys.exception(), DATABASE_AWAY) else answer(request, 500)
