"""Count and time every request, name it in the log lines that it causes; and decide who may read the metrics."""

import hmac
import logging
import re
import time
import uuid
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bind_contextvars, clear_contextvars

from speedtrack.ground.observing import traces
from speedtrack.monitoring.counters import REQUEST_SECONDS, REQUESTS, known_method

log = logging.getLogger("speedtrack.access")

HEADER = "X-Request-Id"
ACCEPTED_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
RUNNERS = "/api/runner/"
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-Ip")
# The arguments of addresses that log lines name, and their names there.
SECRET = {"token", "code"}
SUBJECTS = {"run_id": "run", "slug": "project"}


class Monitoring:
    """The outermost middleware: there is no answer that it does not see."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        start = time.monotonic()
        # Strangers may not choose the trace that a request belongs to.
        caller = request.headers if request.path.startswith(RUNNERS) else None
        bind_contextvars(request=request_id(request))
        with traces.span("request", caller) as attributes:
            response = self.get_response(request)
            self.note(request, response, time.monotonic() - start)
            method, view = known_method(request.method), view_of(request)
            attributes |= {"name": f"{method} {view}", "http.request.method": method, "http.route": view}
            attributes["http.response.status_code"] = response.status_code
        clear_contextvars()  # the thread is used again
        return response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Bind what the request is about for log lines; in the runner's API, its run."""
        bind_contextvars(**{SUBJECTS[key]: value for key, value in kwargs.items() if key in SUBJECTS})

    def note(self, request: HttpRequest, response: HttpResponse, seconds: float) -> None:
        view, method = view_of(request), known_method(request.method)
        REQUESTS.labels(view, method, response.status_code).inc()
        REQUEST_SECONDS.labels(view).observe(seconds)
        if settings.ACCESS_LOG:
            # Without the query: it may hold a token.
            line = {
                "method": method,
                "path": path_without_secrets(request),
                "view": view,
                "status": response.status_code,
            }
            line["ms"] = round(seconds * 1000, 1)
            log.info("%(method)s %(path)s %(status)d in %(ms)s ms", line, extra={"access": line})


def path_without_secrets(request: HttpRequest) -> str:
    """The path as log lines may have it: without the token or code that some addresses consist of."""
    arguments = request.resolver_match.kwargs if request.resolver_match else {}
    path = request.path
    for key in SECRET & arguments.keys():
        path = path.replace(str(arguments[key]), "…")
    return path


def request_id(request: HttpRequest) -> str:
    """The request id of the proxy if it sends one, otherwise a new one."""
    header = request.headers.get(HEADER, "")
    return header if ACCEPTED_ID.fullmatch(header) else uuid.uuid4().hex[:16]


def view_of(request: HttpRequest) -> str:
    """The name of the request's address; there are no more names than in ``urls.py``."""
    if match := request.resolver_match:
        return match.view_name
    return "static" if request.path.startswith(settings.STATIC_URL) else "none"


def may_watch(request: HttpRequest) -> bool:
    """Return whether this client may read metrics: with METRICS_TOKEN, or without one set, from this host only."""
    if settings.METRICS_TOKEN:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(token.encode(), settings.METRICS_TOKEN.encode())
    return is_local(request)


def is_local(request: HttpRequest) -> bool:
    """Return whether a program of this host has called directly, not through a proxy."""
    if settings.BEHIND_TLS_PROXY or any(name in request.headers for name in FORWARDED):
        return False
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
