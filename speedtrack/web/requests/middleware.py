"""Headers that Django 5 does not set by itself, limits on bodies, and responses to requests that fail."""

from collections.abc import Callable

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse

from speedtrack.http import bodylimits, browserheaders, problems
from speedtrack.web.requests import errors

GetResponse = Callable[[HttpRequest], HttpResponse]
KEPT_HEADERS = ("Allow", "Retry-After")  # of a response whose body is replaced


def head_like_get(get_response: GetResponse) -> GetResponse:
    """Middleware that answers HEAD like GET at every address (RFC 9110, 9.3.2); the web server leaves out the body."""

    def middleware(request: HttpRequest) -> HttpResponse:
        method = request.method
        request.method = "GET" if method == "HEAD" else method
        response = get_response(request)
        request.method = method
        return response

    return middleware


def content_security_policy(get_response: GetResponse) -> GetResponse:
    """Send the policy of SECURE_CSP: no inline script or style, nothing from other hosts. Django 6 does it itself."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        policy = "; ".join(f"{name} {value}" for name, value in settings.SECURE_CSP.items())
        response.headers.setdefault("Content-Security-Policy", policy)
        return response

    return middleware


def permissions_policy(get_response: GetResponse) -> GetResponse:
    """Middleware that sends the header Permissions-Policy: no page uses a device of the visitor."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Permissions-Policy", browserheaders.PERMISSIONS)
        return response

    return middleware


def headers_without_page(get_response: GetResponse) -> GetResponse:
    """Middleware that sends the headers of answers that are no pages, as the web server does with its own refusals."""
    headers = browserheaders.without_page(settings.SECURE_HSTS_SECONDS)

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        for name, value in headers:
            response.headers.setdefault(name, value)
        return response

    return middleware


def reasons_of_refusals(get_response: GetResponse) -> GetResponse:
    """Middleware that gives each refusal a reason: JSON for programs, a page where the response is empty.

    That applies to refusals of a view, of Django and of django-ninja.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_json = response.get("Content-Type", "").startswith(("application/json", problems.MEDIA_TYPE))
        has_reason = is_json if errors.is_program(request) else response.streaming or response.content
        if has_reason or response.status_code not in errors.ERROR_TEXTS:
            return response
        limit = bodylimits.limit_of(request.path_info)
        explained = errors.error_response(request, response.status_code, limit=limit)
        for name in KEPT_HEADERS:
            if name in response:
                explained[name] = response[name]
        return explained

    return middleware


def bounded_bodies(get_response: GetResponse) -> GetResponse:
    """Middleware that refuses a body that is too large before reading it, and one of unknown length.

    Django treats a body of unknown length as empty.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        length, limit = request.META.get("CONTENT_LENGTH") or "", bodylimits.limit_of(request.path_info)
        if not length and "HTTP_TRANSFER_ENCODING" in request.META:
            return errors.error_response(request, 411)
        if length.isdecimal() and int(length[:20]) > limit:
            return errors.error_response(request, 413, limit=limit)
        response = get_response(request)
        if length.isdecimal() and int(length[:20]) > bodylimits.PAGES:
            # What was stored of it is in a buffer of libpq, which it keeps for as long as the connection lives.
            connection.close_at = 0
        return response

    return middleware


class DatabaseAway:
    """Answer 503 while PostgreSQL is away. ``errors.server_error`` does so for exceptions outside of a view."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, errors.DATABASE_AWAY):
            return None
        return errors.log_database_away(request, error)
