"""Responses to requests that fail: JSON for programs, a page for people. They work without the database."""

import logging
import sys
from typing import NamedTuple

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string

from speedtrack.http import problems

log = logging.getLogger(__name__)

PROGRAMS = ("/api/", "/hooks/", "/readyz", "/metrics")  # the paths that programs call
DATABASE_AWAY = (OperationalError, InterfaceError)
RETRY_AFTER_S = 10
RETRY_LATER_S = 300


class ErrorText(NamedTuple):
    title: str
    sentence: str


ERROR_TEXTS: dict[int, ErrorText] = {
    400: ErrorText(
        "Bad request", "The server cannot read this request: check its address, its Host header and its form."
    ),
    403: ErrorText(
        "Not allowed", "The form has expired, or cookies are off: go back, reload the page, and send the form again."
    ),
    404: ErrorText("Not found", "There is nothing at this address."),
    405: ErrorText(
        "Method not allowed", "This address does not accept the method: the Allow header lists those that it accepts."
    ),
    411: ErrorText("Length required", "The body has no Content-Length: send it in one piece, with its length."),
    413: ErrorText("Too large", "The body is too large: the limit is {limit} bytes."),
    429: ErrorText(
        "Too many requests", "Too many requests of this kind came from you lately: try again in a few minutes."
    ),
    500: ErrorText("Server error", "The server failed on this request. Its log has the traceback."),
    503: ErrorText(
        "Temporarily unavailable",
        f"The database does not answer. Nothing is lost: try again in {RETRY_AFTER_S} seconds.",
    ),
}


def is_program(request: HttpRequest) -> bool:
    return request.path_info.startswith(PROGRAMS)


def error_response(request: HttpRequest, status: int, **values: object) -> HttpResponse:
    """The response with this status; ``values`` fill the placeholders of its sentence."""
    title, sentence = ERROR_TEXTS[status]
    return text_response(request, status, ErrorText(title, sentence.format(**values)))


def text_response(request: HttpRequest, status: int, text: ErrorText) -> HttpResponse:
    if is_program(request):
        return program_response(request, status, text.sentence)
    return HttpResponse(render_to_string("web/error.html", text._asdict()), status=status)


def program_response(request: HttpRequest, status: int, sentence: str) -> HttpResponse:
    """A refusal for a program, in the form of the API that it calls."""
    if problems.is_api(request.path_info):
        document = problems.document(problems.of_status(status), sentence, request.path_info)
        return JsonResponse(document, status=status, content_type=problems.MEDIA_TYPE)
    return JsonResponse({"error": sentence}, status=status)


def refused(request: HttpRequest, sentence: str) -> HttpResponse:
    """The response to somebody who is logged in but may not do this.

    ``sentence``: which role it needs, and who gives that.
    """
    return text_response(request, 403, ErrorText("Not allowed", sentence))


def log_database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    log.warning("%s %s: the database does not answer: %s", request.method, request.path, str(error).strip())
    return database_away(request)


def database_away(request: HttpRequest) -> HttpResponse:
    response = error_response(request, 503)
    response["Retry-After"] = str(RETRY_AFTER_S)
    return response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(request, 400)


def forbidden(request: HttpRequest, exception: Exception | None = None, reason: str = "") -> HttpResponse:
    """Django's handler for 403, and for forms without a valid token."""
    return error_response(request, 403)


def too_many_requests(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The response of django-allauth beyond ACCOUNT_RATE_LIMITS."""
    response = error_response(request, 429)
    response["Retry-After"] = str(RETRY_LATER_S)
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler for exceptions, called while the exception is handled; Django logs the traceback."""
    return database_away(request) if isinstance(sys.exception(), DATABASE_AWAY) else error_response(request, 500)
