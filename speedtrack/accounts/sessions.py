"""The browsers in which somebody is logged in."""

import time
from datetime import timedelta

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from speedtrack.clientaddress import client_address

NO_ADDRESS = "0.0.0.0"  # noqa: S104 (of a request through a unix socket; nothing listens there)
SEEN_EVERY = timedelta(minutes=5)
LAST_NOTED = "seen"  #: key of the session: when it was last noted that it is used


def address_of(request: HttpRequest) -> str:
    return client_address(request) or NO_ADDRESS


def begin(request: HttpRequest) -> None:
    """Store in the session that it is used now; from now on its use is noted."""
    request.session[LAST_NOTED] = int(time.time())


def note_use(request: HttpRequest) -> None:
    """Note that a session is used, and from where, every few minutes."""
    last = request.session.get(LAST_NOTED)
    if not isinstance(last, int) or time.time() - last < SEEN_EVERY.total_seconds():
        return
    UserSession.objects.filter(session_key=request.session.session_key).update(
        last_seen_at=timezone.now(),
        ip=address_of(request),
        user_agent=request.headers.get("User-Agent", "")[: UserSession._meta.get_field("user_agent").max_length],
    )
    begin(request)


def of(user: User) -> list[UserSession]:
    """Return the person's sessions that have not ended, the one used last first."""
    known = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    return list(UserSession.objects.filter(user=user, session_key__in=known).order_by("-last_seen_at", "-pk")[:200])


@transaction.atomic
def end(user: User, pk: int) -> UserSession | None:
    """End one of this person's sessions at once; None if there is none with this number."""
    found = UserSession.objects.filter(user=user, pk=pk).first()
    if found:
        forget([found.session_key])
    return found


@transaction.atomic
def end_all(user: User, but: str | None = None) -> int:
    """End all sessions of a person, except the one with key ``but``. Return their number."""
    keys = UserSession.objects.filter(user=user).exclude(session_key=but or "").values_list("session_key", flat=True)
    return forget(list(keys))


def forget(keys: list[str]) -> int:
    Session.objects.filter(session_key__in=keys).delete()
    return int(UserSession.objects.filter(session_key__in=keys).delete()[0])
