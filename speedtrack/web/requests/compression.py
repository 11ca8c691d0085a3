"""Compress answers that show no secret."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from typing import cast

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers

DATA = (
    *("application/json", "application/x-ndjson", "application/atom+xml", "application/openmetrics-text"),
    *("text/csv", "text/plain"),
)
PAGE = "text/html"
MUCH = 50_000  # bytes
GZIP = 16 + zlib.MAX_WBITS  # with gzip's head and tail
SECRET_ARGUMENTS = {"token", "code", "key"}  # of addresses


class Compression(GZipMiddleware):
    """GZip for data and pages, of visitors and of people who are logged in.

    The length of a compressed page shows what it has in common with a word in its address (BREACH): whoever makes a
    person's browser ask for one page thousands of times, with other words each time, learns a secret that stands on it.
    So pages that show a secret are not compressed: those that no cache may keep, and those whose address has a token.
    The other pages of a person have nothing to learn. The token of a form is masked anew by Django in each answer, and
    so is the signature of a stream's ticket, which has the time. Other sites get no answer for a person but by opening
    a whole page (``SameSite=Lax``), whose length varies by Django's up to 100 random bytes. Runners are near, and what
    they fetch is compressed already.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not may_compress(request, response):
            return response
        if is_data(response) and (not isinstance(response, HttpResponse) or len(response.content) > MUCH):
            return compress_fast(request, response)
        return super().process_response(request, response)


def compress_fast(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """A few per cent larger, in a third of the time."""
    patch_vary_headers(response, ("Accept-Encoding",))
    if "Content-Encoding" not in response and "gzip" in request.headers.get("Accept-Encoding", ""):
        if isinstance(response, HttpResponse):
            response.content = gzip.compress(response.content, compresslevel=1, mtime=0)
            response.headers["Content-Length"] = str(len(response.content))
        elif isinstance(response, StreamingHttpResponse):
            response.streaming_content = compressed(cast(Iterable[bytes], response.streaming_content))
            del response.headers["Content-Length"]
        response.headers["Content-Encoding"] = "gzip"
        if response.headers.get("ETag", "").startswith('"'):  # no longer the same bytes
            response.headers["ETag"] = f"W/{response.headers['ETag']}"
    return response


def compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    stream = zlib.compressobj(level=1, wbits=GZIP)
    for piece in pieces:
        if output := stream.compress(piece):
            yield output
    yield stream.flush()


def is_data(response: HttpResponseBase) -> bool:
    return content_type(response) in DATA


def content_type(response: HttpResponseBase) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0]


def may_compress(request: HttpRequest, response: HttpResponseBase) -> bool:
    is_page = content_type(response) == PAGE and not has_secret(request, response)
    return not request.path.startswith("/api/runner/") and (is_data(response) or is_page)


def has_secret(request: HttpRequest, response: HttpResponseBase) -> bool:
    """Return whether a page shows a secret: its view sets ``no-store``, or its address has a token."""
    match = request.resolver_match
    is_kept = "no-store" not in response.headers.get("Cache-Control", "")
    return not is_kept or match is None or not SECRET_ARGUMENTS.isdisjoint(match.kwargs)
