"""Decide who may make an account, by the setting SIGNUP."""

from django.conf import settings
from django.http import HttpRequest

from speedtrack.accounts import invitations

#: The session key under which the page of an invitation keeps its code.
INVITATION = "invitation"


def is_open(request: HttpRequest) -> bool:
    """Return whether this visitor may make an account."""
    if settings.SIGNUP == "invited":
        return bool(invitation(request))
    return bool(settings.SIGNUP == "open")


def invitation(request: HttpRequest) -> str:
    """The code of the invitation that this visitor has opened, if it still admits somebody; "" without one."""
    code = str(request.session.get(INVITATION, ""))
    return code if code and invitations.admits(code) else ""


def is_restricted(provider: str) -> bool:
    """Return whether only certain people may log in by this provider. They count as invited."""
    return bool(settings.GITHUB_ORGANISATION if provider == "github" else settings.OIDC_EMAIL_DOMAINS)
