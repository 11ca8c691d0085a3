"""Logging in, with a limit on failures: django-axes counts them per user name and address."""

import math
from typing import Any

from axes.helpers import get_client_username
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from speedtrack.benchmarks import numbers
from speedtrack.clientaddress import client_address
from speedtrack.web.requests import errors

LONGEST_NAME, LONGEST_PASSWORD = 150, 4096  # 150 as in Django's users; the column that counts failures holds 255


class LoginForm(AuthenticationForm):
    def clean(self) -> dict[str, Any]:
        name, password = (self.cleaned_data.get(field) or "" for field in ("username", "password"))
        if len(name) > LONGEST_NAME or len(password) > LONGEST_PASSWORD:
            raise self.get_invalid_login_error()
        return super().clean()


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
