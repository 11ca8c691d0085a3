"""Programs that read a page's address: by a token in the header Authorization, where the address takes one."""

from django.http import HttpRequest, HttpResponse

from speedtrack.accounts import access, tokens
from speedtrack.accounts.access import Caller
from speedtrack.accounts.models import Scope
from speedtrack.accounts.tokens import UnknownToken
from speedtrack.ground.texts.text import UNSTORABLE
from speedtrack.http.clientaddress import client_address


def has_token(request: HttpRequest) -> bool:
    """Return whether the header has a token; it may also have a password that is for a proxy."""
    return request.headers.get("Authorization", "").partition(" ")[0].lower() == "bearer"


def caller_of(request: HttpRequest) -> Caller:
    """The caller by the token. Raises UnknownToken."""
    token = request.headers["Authorization"].partition(" ")[2]
    if UNSTORABLE.search(token):
        raise UnknownToken("the header must be `Authorization: Bearer stpt_...`, with a token of your settings")
    return tokens.find(token.strip(), client_address(request))


def reads(caller: Caller, slug: str) -> bool:
    """Return whether the caller may read a project, which exists then."""
    return Scope.READ in caller.scopes and access.visible(caller).filter(slug=slug).exists()


def refused(error: UnknownToken) -> HttpResponse:
    response = HttpResponse(f"{error}\n", status=401, content_type="text/plain; charset=utf-8")
    response.headers["WWW-Authenticate"] = 'Bearer realm="SpeedTrack"'
    response.headers["Cache-Control"] = "private"
    response.headers["Vary"] = "Authorization, Cookie"
    return response
