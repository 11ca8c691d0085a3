"""Logging in, with a limit on failures: counted by django-axes for each user name and address."""

import math
from ipaddress import IPv6Address, ip_address
from typing import Any

from axes.helpers import get_client_username
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from speedtrack.benchmarks import numbers
from speedtrack.web import errors

LONGEST_NAME, LONGEST_PASSWORD = 150, 4096  # a name as Django's users have it; the counted one is a column of 255


class LoginForm(AuthenticationForm):
    def clean(self) -> dict[str, Any]:
        name, password = (self.cleaned_data.get(field) or "" for field in ("username", "password"))
        if len(name) > LONGEST_NAME or len(password) > LONGEST_PASSWORD:
            raise self.get_invalid_login_error()
        return super().clean()


def client_address(request: HttpRequest) -> str | None:
    """Whom failures are counted for: who connects, or whom the TLS proxy names. Of IPv6 the network that one user has.

    Only the last address of X-Forwarded-For is the proxy's own word; all before it are the client's.
    """
    connected: str = request.META.get("REMOTE_ADDR", "")
    named = request.headers.get("X-Forwarded-For", "") if settings.BEHIND_TLS_PROXY else ""
    for address in (named.rpartition(",")[2].strip(), connected):
        try:
            found = ip_address(address)
        except ValueError:
            continue
        if isinstance(found, IPv6Address) and not found.ipv4_mapped:
            return str(IPv6Address(int(found) >> 64 << 64))
        return str(getattr(found, "ipv4_mapped", None) or found)
    return None  # a unix socket, whose other end has no address


def too_many(request: HttpRequest, response: HttpResponse | None, credentials: dict[str, Any] | None) -> HttpResponse:
    """The answer of django-axes to who has failed too often; a failure while it lasts does not make it longer."""
    attempts = AccessAttempt.objects.filter(
        username=get_client_username(request, credentials), ip_address=client_address(request)
    )
    last = attempts.aggregate(last=Max("attempt_time"))["last"] or timezone.now()
    wait_s = max(1, math.ceil((last + settings.AXES_COOLOFF_TIME - timezone.now()).total_seconds()))
    sentence = f"There were too many failed logins with this user name. Try again in {numbers.duration(wait_s)}."
    answer = errors.told(request, 429, errors.Words("Too many failed logins", sentence))
    answer["Retry-After"] = str(wait_s)
    return answer
