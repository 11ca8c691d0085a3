"""Read pages from the replica, if there is one (DATABASE_REPLICA_URL). What writes is done by the primary.

During a view, the thread's default connection is that to the replica: the ORM and plain SQL of whatever the view calls
read there, and nothing has to know. A page that the replica cannot give (it is away, is without a row that was just
written, or would have to write) is read from the primary, and the other way round if the primary is away.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import Error, OperationalError, connections
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from speedtrack.ground.postgres.replica import watch
from speedtrack.ground.postgres.replica.watch import PRIMARY, REPLICA, ReplicaState, ReplicaWatch, Source
from speedtrack.web.requests import errors

Render = Callable[[], HttpResponseBase]

SAFE = ("GET", "HEAD")
WITHOUT_DATABASE = ("healthz", "login")
NOTE = "SpeedTrack-Note"  # header with what the foot of a page says
PIN = "read_primary"  # cookie of somebody who has just written, so that he sees what he wrote
PIN_MARGIN_S = 3


@contextmanager
def reading_from(alias: str) -> Iterator[None]:
    """Use the connection ``alias`` as this thread's default connection in the block."""
    own = connections[PRIMARY]
    connections[PRIMARY] = connections[alias]
    try:
        yield
    finally:
        connections[PRIMARY] = own


class ReplicaRouting:
    """The innermost middleware: it calls the views of pages itself, up to twice."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not watch.is_configured():
            raise MiddlewareNotUsed
        self.get_response = get_response
        self.watch = ReplicaWatch()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.method not in SAFE and not errors.is_program(request):
            pin(response)
        if note := getattr(request, "database_note", ""):
            response.headers[NOTE] = note
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponseBase], args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        match = request.resolver_match
        is_page = request.method in SAFE and not errors.is_program(request)
        # Pages of an account are read from the primary: what they raise to ask for a password must pass on.
        is_page = is_page and not request.path_info.startswith("/accounts/")
        if not is_page or match is None or match.url_name in WITHOUT_DATABASE:
            return None
        try:
            return self.read(request, lambda: view(request, *args, **kwargs))
        except errors.DATABASE_AWAY as e:
            return errors.log_database_away(request, e)

    def read(self, request: HttpRequest, render: Render) -> HttpResponseBase:
        source = self.watch.choose()
        is_pinned = PIN in request.COOKIES and source.standing is not ReplicaState.ALONE
        alias = PRIMARY if is_pinned else source.alias
        try:
            return read_from(alias, source, request, render)
        except (Http404, Error) as e:
            fallback, source = self.second_choice(alias, source, e)
        return read_from(fallback, source, request, render)

    def second_choice(self, failed: str, source: Source, error: Exception) -> tuple[str, Source]:
        """The server from which to read a page that could not be read from ``failed``.

        Raises the error if the other server would not help.
        """
        if isinstance(error, errors.DATABASE_AWAY):
            connections[failed].close()
            source = self.watch.choose_anew()
        if failed == REPLICA:
            if source.standing is ReplicaState.ALONE and isinstance(error, Http404):
                raise OperationalError("the replica does not know it, and the primary is away") from error
            return PRIMARY, source
        if source.standing is ReplicaState.ALONE:
            return REPLICA, source
        raise error


def read_from(alias: str, source: Source, request: HttpRequest, render: Render) -> HttpResponseBase:
    request.database_note = source.note  # type: ignore[attr-defined]
    with reading_from(alias):
        response = render()
        if isinstance(response, StreamingHttpResponse):
            pieces = iter(response)
            first = next(pieces, b"")  # now, while another server may still be chosen
            response.streaming_content = chain([first], pieces_from(alias, pieces))
    return response


def pieces_from(alias: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces, each made with the connection of ``alias``: they are sent after the view has returned."""
    while True:
        with reading_from(alias):
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


def pin(response: HttpResponse) -> None:
    """Set a cookie with which this browser reads from the primary for some seconds.

    After that time the replica has what was just written, or it is known to be behind and is not read from.
    """
    response.set_cookie(
        PIN,
        "1",
        max_age=settings.REPLICA_LAG_S + watch.LONGEST_HOLD_S + PIN_MARGIN_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
