"""Headers that Django 5 does not set by itself, limits on bodies, and the form of answers to what fails."""

import logging
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from speedtrack.web import errors

log = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponse]
KEPT = ("Allow", "Retry-After")  # headers of a refusal that stay when it gets another body


def content_security_policy(get_response: GetResponse) -> GetResponse:
    """Send the policy of SECURE_CSP: no inline script or style, nothing from elsewhere. Django 6 has this built in."""
    policy = "; ".join(f"{name} {value}" for name, value in settings.SECURE_CSP.items())

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", policy)
        return response

    return middleware


def worded_refusals(get_response: GetResponse) -> GetResponse:
    """Say why, whoever refused (a view, Django or django-ninja): in JSON to programs, on a page where it is empty."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_json = response.get("Content-Type", "").startswith("application/json")
        worded = is_json if errors.is_program(request) else response.streaming or response.content
        if worded or response.status_code not in errors.WORDS:
            return response
        refusal = errors.answer(request, response.status_code, limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        for name in KEPT:
            if name in response:
                refusal[name] = response[name]
        return refusal

    return middleware


def bounded_bodies(get_response: GetResponse) -> GetResponse:
    """Refuse a body that is too large before it is read, and one of unknown length, which Django takes for empty."""

    def middleware(request: HttpRequest) -> HttpResponse:
        length, limit = request.META.get("CONTENT_LENGTH") or "", settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if not length and "HTTP_TRANSFER_ENCODING" in request.META:
            return errors.answer(request, 411)
        if length.isdecimal() and int(length[:20]) > limit:
            return errors.answer(request, 413, limit=limit)
        return get_response(request)

    return middleware


class DatabaseAway:
    """Answer 503 while PostgreSQL is away. What raises outside of a view is ``errors.failed``'s."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, errors.DATABASE_AWAY):
            return None
        log.warning("%s %s: the database does not answer: %s", request.method, request.path, str(error).strip())
        return errors.database_away(request)
