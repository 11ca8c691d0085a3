"""The way of runners' calls through a part of the middleware: RUNNERS_MIDDLEWARE of the settings.

A runner has no session, form or page, and many runners call all day.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from speedtrack.web.requests.monitoring import RUNNERS

GetResponse = Callable[[HttpRequest], HttpResponse]


class OwnWayOfRunners:
    """The first middleware: requests to RUNNERS leave all others out."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.to_runners = chain_of(settings.RUNNERS_MIDDLEWARE)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.to_runners(request) if request.path_info.startswith(RUNNERS) else self.get_response(request)


def chain_of(paths: Sequence[str]) -> GetResponse:
    """These middlewares around the views, as ``BaseHandler.load_middleware`` makes it of the setting MIDDLEWARE."""
    handler: Any = BaseHandler()  # Django's stubs leave out what it keeps for itself
    handler._view_middleware, handler._exception_middleware = [], []
    handler._template_response_middleware = []
    respond: Any = convert_exception_to_response(handler._get_response)
    for path in reversed(paths):
        middleware = import_string(path)(respond)
        if hasattr(middleware, "process_view"):
            handler._view_middleware.insert(0, middleware.process_view)
        if hasattr(middleware, "process_exception"):
            handler._exception_middleware.append(middleware.process_exception)
        respond = convert_exception_to_response(middleware)
    return cast(GetResponse, respond)
