"""Find out who calls: by a token in the header Authorization, by a session for reading, or nobody known.

Each caller has an allowance.
"""

from typing import Any, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest
from ninja.security import HttpBearer

from speedtrack.accounts import access, tokens
from speedtrack.accounts.access import ANYBODY, Caller, Refused
from speedtrack.accounts.models import Role, Scope
from speedtrack.accounts.tokens import UnknownToken
from speedtrack.api.v1.serving.refusals import TooMany, WrongMediaType
from speedtrack.calls import rates
from speedtrack.calls.rates import RateStanding
from speedtrack.ground.texts.text import UNSTORABLE
from speedtrack.http.clientaddress import client_address
from speedtrack.operations.performing import Actor
from speedtrack.projects.models import Project
from speedtrack.reports.common import Tried

SAFE = ("GET", "HEAD")
JSON = "application/json"


class ApiRequest(HttpRequest):
    """A request of the API. ``standing``: the state of its caller's allowance."""

    auth: Caller
    standing: RateStanding | None


class AnyCaller(HttpBearer):
    """Authenticates by ``Authorization: Bearer stpt_...``.

    Without it, whoever is logged in may read, and anybody may read what is public.
    """

    def __call__(self, request: HttpRequest) -> Caller:
        call = cast(ApiRequest, request)
        call.standing = None
        header = request.headers.get("Authorization")
        try:
            caller = caller_by(header, request) if header is not None else caller_without_token(request)
        except UnknownToken:
            allow(call, ANYBODY)  # whoever tries tokens is slowed down as well
            raise
        allow(call, caller)
        if request.method in SAFE and Scope.READ not in caller.scopes:
            raise Refused("this token has no scope `read`: make one that has it in your settings")
        check_media_type(request)
        return caller

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        return caller_by(f"Bearer {token}", request)


def caller_by(header: str, request: HttpRequest) -> Caller:
    """The caller by the header Authorization. Raises UnknownToken."""
    kind, _, token = header.partition(" ")
    if kind.lower() != "bearer" or UNSTORABLE.search(token):
        raise UnknownToken("the header must be `Authorization: Bearer stpt_...`, with a token of your settings")
    return tokens.find(token.strip(), client_address(request))


def caller_without_token(request: HttpRequest) -> Caller:
    """Whoever is logged in, for reading only.

    Writing needs a token, so that no other site can make a browser write.
    """
    if request.method in SAFE:
        return access.person(request.user)
    raise UnknownToken("writing needs a token: send `Authorization: Bearer stpt_...`; your settings make one")


def allow(call: ApiRequest, caller: Caller) -> None:
    """Take a request from the caller's allowance. Raises TooMany."""
    per_minute = settings.API_RATE if caller.user else settings.API_RATE_ANONYMOUS
    if not per_minute:
        return
    subject = f"token {caller.token_id}" if caller.token_id else f"user {caller.user.pk}" if caller.user else ""
    call.standing = rates.take(subject or f"address {client_address(call)}", per_minute)
    if not call.standing.is_allowed:
        raise TooMany(f"more than {per_minute} requests a minute: the next one may follow in {call.standing.wait_s} s")


def check_media_type(request: HttpRequest) -> None:
    """Raise WrongMediaType for a body that is not declared to be JSON."""
    has_body = (request.META.get("CONTENT_LENGTH") or "0") != "0"
    if request.method not in SAFE and has_body and request.content_type not in (JSON, ""):
        raise WrongMediaType(f"the body is {(request.content_type or '')[:100]}: send `Content-Type: {JSON}`")


def project_or_404(call: ApiRequest, slug: str) -> Project:
    """A project that the caller may see. Raises Http404, for hidden ones as for those that do not exist."""
    project: Project | None = access.visible(call.auth).filter(slug=slug).first()
    if project is None:
        raise Http404(f"There is no project {slug[:100]!r}, or it is private.")
    return project


def user_of(call: ApiRequest) -> User:
    """The person who owns the token. Raises UnknownToken without one."""
    if call.auth.user is None:
        raise UnknownToken("this needs a token: send `Authorization: Bearer stpt_...`")
    return call.auth.user


def actor_of(call: ApiRequest, order: Tried | None = None) -> Actor:
    """Whoever calls, for operations; what these need is kept for ``check_rights``. ``order``: may be tried only."""
    return Actor(call.auth, bool(order and order.dry_run), needed_rights(call))


def needed_rights(call: ApiRequest) -> list[Any]:
    """What the request has needed so far: project, role and scope; nothing of these for an operator's right."""
    rights: list[Any] = call.__dict__.setdefault("needed_rights", [])
    return rights


def check_rights(call: ApiRequest, rights: list[Any]) -> None:
    """Raise Http404 or Refused, as the request itself does, unless the caller has all these rights."""
    for right in rights:
        if not right:
            access.require_operator(call.auth)
            continue
        project, role, scope = right
        visible_project = access.visible(call.auth).filter(pk=project).first()
        if visible_project is None:
            raise Http404("The project of this request is private, or there is no such project any more.")
        access.require(call.auth, Role(role), visible_project, Scope(scope))
