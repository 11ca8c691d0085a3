"""Note when sessions are used, and send people to set up the second step where it is required."""

from collections.abc import Callable
from contextlib import suppress
from typing import cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from speedtrack.accounts.logins import second_step, sessions
from speedtrack.web.requests import errors

GetResponse = Callable[[HttpRequest], HttpResponse]

#: What leads to a second step, and out of the session.
WITHOUT_SECOND_STEP = (
    *("/login/", "/logout/", "/static/", "/help/"),
    *("/accounts/2fa/", "/accounts/reauthenticate/", "/accounts/password/", "/accounts/email/"),
)
IS_SET_UP = "second_step"  #: key of the session


def seen(get_response: GetResponse) -> GetResponse:
    """Middleware that lists each session, and stores when and from where it was last used."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.session.accessed and response.status_code < 500 and request.user.is_authenticated:
            with suppress(*errors.DATABASE_AWAY):  # pages are read from a replica meanwhile
                note(request)
        return response

    return middleware


def note(request: HttpRequest) -> None:
    if sessions.is_listed(request):
        sessions.note_use(request)
    else:  # its key was changed, or an older version began it
        sessions.begin(request, cast(User, request.user))


def second_step_where_required(get_response: GetResponse) -> GetResponse:
    """Send those whom REQUIRE_MFA asks for a second step, and who have none, to the page that sets it up."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if settings.REQUIRE_MFA != "nobody" and lacks_second_step(request):
            if errors.is_program(request):
                return errors.error_response(request, 403)
            messages.warning(request, "This installation asks you for a second step: set it up, then go on.")
            return redirect("mfa_activate_totp")
        return get_response(request)

    return middleware


def lacks_second_step(request: HttpRequest) -> bool:
    if settings.SESSION_COOKIE_NAME not in request.COOKIES or request.path_info.startswith(WITHOUT_SECOND_STEP):
        return False
    if not request.user.is_authenticated or request.session.get(IS_SET_UP):
        return False
    user = request.user
    if second_step.is_required(user) and not second_step.is_set_up(user):
        return True
    if second_step.is_required(user):
        request.session[IS_SET_UP] = True
    return False
