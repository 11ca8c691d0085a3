"""Headers of every answer of the API: versions of what was read, and the caller's allowance."""

import hashlib
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response, patch_vary_headers

from speedtrack.http import problems

GetResponse = Callable[[HttpRequest], HttpResponse]


def api_headers(get_response: GetResponse) -> GetResponse:
    """Middleware. An answer that the client has already (If-None-Match) becomes 304."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if not problems.is_api(request.path_info):
            return get_response(request)
        response = get_response(request)
        if standing := getattr(request, "standing", None):
            for name, value in standing.headers.items():
                response.headers[name] = value
        patch_vary_headers(response, ("Authorization", "Cookie"))
        return with_version(request, response)

    return middleware


def with_version(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The answer with its ETag, or 304. A client may keep it, and use it once the server says that it is current."""
    if request.method not in ("GET", "HEAD") or response.status_code != 200 or response.streaming:
        response.headers.setdefault("Cache-Control", "no-store")
        return response
    response.headers.setdefault("Cache-Control", "private, no-cache")
    etag = f'"{hashlib.sha256(response.content).hexdigest()[:32]}"'
    response.headers["ETag"] = etag
    return get_conditional_response(request, etag, response=response) or response
