"""The browsers in which somebody is logged in: each session has a row, whatever the way of login.

Django's login reports a session when it begins; if its key changes later, the next answer lists it again.
"""

import time
from datetime import timedelta

from allauth.usersessions.models import UserSession
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from speedtrack.http.clientaddress import client_address

NO_ADDRESS = "0.0.0.0"  # noqa: S104 (of a request through a unix socket; nothing listens there)
SEEN_EVERY = timedelta(minutes=5)
LAST_NOTED = "seen"  #: key in the session: time of the last stored use
LISTED = "listed"  #: key in the session: the session key of its row
LONGEST_AGENT = UserSession._meta.get_field("user_agent").max_length


def address_of(request: HttpRequest) -> str:
    return client_address(request) or NO_ADDRESS


def begin(request: HttpRequest, user: User) -> None:
    """List the session as one of this person. From now on its use is stored."""
    if not request.session.session_key:
        request.session.save()
    key = request.session.session_key
    facts = {"user": user, "ip": address_of(request), "user_agent": agent_of(request), "last_seen_at": timezone.now()}
    UserSession.objects.update_or_create(session_key=key, defaults=facts)
    request.session[LISTED], request.session[LAST_NOTED] = key, int(time.time())


def agent_of(request: HttpRequest) -> str:
    return str(request.META.get("HTTP_USER_AGENT", ""))[:LONGEST_AGENT]


def is_listed(request: HttpRequest) -> bool:
    """Return whether the session has a row, from the session's own data."""
    return bool(request.session.session_key) and request.session.get(LISTED) == request.session.session_key


def note_use(request: HttpRequest) -> None:
    """Store the time and address of a session's use, every few minutes."""
    last = request.session.get(LAST_NOTED)
    if not isinstance(last, int) or time.time() - last < SEEN_EVERY.total_seconds():
        return
    UserSession.objects.filter(session_key=request.session.session_key).update(
        last_seen_at=timezone.now(), ip=address_of(request), user_agent=agent_of(request)
    )
    request.session[LAST_NOTED] = int(time.time())


def of(user: User) -> list[UserSession]:
    """Return the person's sessions that have not ended, the one used last first."""
    session_keys = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    return list(
        UserSession.objects.filter(user=user, session_key__in=session_keys).order_by("-last_seen_at", "-pk")[:200]
    )


@transaction.atomic
def end(user: User, pk: int) -> UserSession | None:
    """End one of this person's sessions at once; None if there is none with this number."""
    session = UserSession.objects.filter(user=user, pk=pk).first()
    if session:
        forget([session.session_key])
    return session


@transaction.atomic
def end_all(user: User, but: str | None = None) -> int:
    """End all sessions of a person, except the one with key ``but``. Return their number."""
    session_keys = set(UserSession.objects.filter(user=user).values_list("session_key", flat=True))
    return forget(sorted((session_keys | unlisted(user)) - {but or ""}))


def unlisted(user: User) -> set[str]:
    """The keys of the person's sessions without a row: an older version began them, and they were not used since."""
    sessions = Session.objects.filter(expire_date__gt=timezone.now())
    sessions = sessions.exclude(session_key__in=UserSession.objects.values("session_key"))
    return {
        session.session_key for session in sessions.iterator() if session.get_decoded().get(SESSION_KEY) == str(user.pk)
    }


def forget(keys: list[str]) -> int:
    """End these sessions. Return their number."""
    ended_keys = {*Session.objects.filter(session_key__in=keys).values_list("session_key", flat=True)}
    ended_keys |= {*UserSession.objects.filter(session_key__in=keys).values_list("session_key", flat=True)}
    Session.objects.filter(session_key__in=ended_keys).delete()
    UserSession.objects.filter(session_key__in=ended_keys).delete()
    return len(ended_keys)
