"""Logging in, with a limit on failures: django-axes counts them per account and address, however it is named."""

import math
import unicodedata
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import LoginForm as AccountLoginForm
from allauth.account.internal.userkit import filter_users_by_email, get_user_by_username
from axes.helpers import get_client_username
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from speedtrack.accounts.logins.hashing import LONGEST as LONGEST_PASSWORD
from speedtrack.benchmarks import numbers
from speedtrack.ground.texts.text import UNSTORABLE
from speedtrack.http.clientaddress import client_address
from speedtrack.web.requests import errors

LONGEST_NAME = 254  # of a mail address; the column that counts failures holds 255


class LoginForm(AccountLoginForm):
    """User name or mail address, and password."""

    def add_prefix(self, field_name: str) -> str:
        """The field is called `username`, as programs that fill in passwords expect it."""
        return "username" if field_name == "login" else str(super().add_prefix(field_name))

    def clean(self) -> Any:
        name, password = (self.cleaned_data.get(field) or "" for field in ("login", "password"))
        if len(name) > LONGEST_NAME or len(password) > LONGEST_PASSWORD:
            raise get_adapter().validation_error("username_password_mismatch")
        return super().clean()


def name_of(request: HttpRequest | None, credentials: dict[str, Any] | None = None) -> str:
    """The name for which failures are counted: the user name of the account that the given name finds.

    So the user name and all mail addresses of an account are one name. What finds none counts for itself.
    """
    fields = credentials or (request.POST if request else {})
    name = str(fields.get("username") or fields.get("email") or fields.get("login") or "").strip()[:LONGEST_NAME]
    return spelled_plainly(account_name(name) or account_name(spelled_plainly(name)) or name)


def spelled_plainly(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().upper().lower()[:LONGEST_NAME]


def account_name(name: str) -> str:
    """The user name of the account that a login with this name is for, as django-allauth finds it; empty without one.

    Both searches are made for each name, so that the time tells nothing.
    """
    if UNSTORABLE.search(name):
        return ""
    by_mail, by_name = filter_users_by_email(name), get_user_by_username(name)
    users = sorted([*by_mail, *([by_name] if by_name else [])], key=lambda user: user.pk)
    return users[0].get_username() if users else ""


def too_many(request: HttpRequest, response: HttpResponse | None, credentials: dict[str, Any] | None) -> HttpResponse:
    """The response of django-axes after too many failures; another attempt meanwhile does not extend the wait."""
    attempts = AccessAttempt.objects.filter(
        username=get_client_username(request, credentials), ip_address=client_address(request)
    )
    last = attempts.aggregate(last=Max("attempt_time"))["last"] or timezone.now()
    wait_s = max(1, math.ceil((last + settings.AXES_COOLOFF_TIME - timezone.now()).total_seconds()))
    sentence = f"There were too many failed logins with this user name. Try again in {numbers.duration(wait_s)}."
    response = errors.text_response(request, 429, errors.ErrorText("Too many failed logins", sentence))
    response["Retry-After"] = str(wait_s)
    return response
