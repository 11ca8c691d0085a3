"""Tokens of people's programs."""

import hmac
from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.accounts.access import Caller
from speedtrack.accounts.models import PersonToken, Scope
from speedtrack.ground.secrets.tokentexts import PERSON, NotAToken, TokenText
from speedtrack.projects.models import Project

MOST = 100  # valid ones of one person
ENDED_SHOWN = 20
SEEN_EVERY = timedelta(minutes=1)


class UnknownToken(Exception):
    """No person has this token, or it is no longer valid."""


class TooManyTokens(Exception):
    """The person has MOST valid tokens already."""


def issue(
    user: User, name: str, scopes: Iterable[Scope], days: int | None, project: Project | None = None
) -> tuple[PersonToken, str]:
    """Make a token, valid for so many days (None: for ever). Its text is not stored: it is shown once.

    Raises TooManyTokens.
    """
    if valid_of(user).count() >= MOST:
        raise TooManyTokens(f"there are {MOST} valid tokens already: revoke those that nothing uses")
    text = TokenText.new(PERSON)
    token = PersonToken.objects.create(
        user=user,
        name=name,
        scopes=sorted(set(scopes)),
        project=project,
        key=text.key,
        digest=text.digest,
        expires_at=Now() + timedelta(days=days) if days else None,
    )
    return token, text.text


def valid_of(user: User) -> QuerySet[PersonToken]:
    return PersonToken.objects.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), user=user, revoked_at=None)


def of(user: User) -> list[PersonToken]:
    """Return a person's tokens, newest first: all valid ones, and the last few that are no longer valid."""
    everything = PersonToken.objects.filter(user=user).select_related("project").order_by("-pk")
    invalid = everything.exclude(pk__in=valid_of(user).values("pk"))[:ENDED_SHOWN]
    return [*everything.filter(pk__in=valid_of(user).values("pk")), *invalid]


def revoke(user: User, pk: int) -> PersonToken | None:
    """Revoke one of a person's tokens; None if there is no valid one with this number."""
    token = PersonToken.objects.filter(user=user, pk=pk, revoked_at=None).first()
    if token is None or not PersonToken.objects.filter(pk=pk, revoked_at=None).update(revoked_at=Now()):
        return None
    return token


def find(text: str, address: str | None) -> Caller:
    """Return the caller with this token, and store the time and address of its use.

    Raises UnknownToken with the reason.
    """
    try:
        token_text = TokenText.parse(text, PERSON)
    except NotAToken as e:
        raise UnknownToken("this is no token of a person, or a part of one: copy it again") from e
    valid = Q(expires_at=None) | Q(expires_at__gt=Now())
    token = PersonToken.objects.filter(valid, key=token_text.key, revoked_at=None).select_related("user").first()
    if token is None or not token.user.is_active or not hmac.compare_digest(token.digest, token_text.digest):
        raise UnknownToken("this token is unknown, was revoked, or has expired: make another in your settings")
    if token.last_used_at is None or abs(timezone.now() - token.last_used_at) > SEEN_EVERY:
        PersonToken.objects.filter(pk=token.pk).update(last_used_at=Now(), last_used_from=address)
    return Caller(token.user, frozenset(token.scopes), token.project_id, token.pk)
