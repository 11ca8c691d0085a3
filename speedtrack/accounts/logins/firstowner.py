"""The one-time link by which the first operator of an installation makes an account."""

import hashlib
import secrets

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from speedtrack.accounts.models import OwnerLink

MOST_LINKS = 20  # a server makes one at each start


class NoLonger(Exception):
    """The link makes no account; the message has the reason."""


def is_needed() -> bool:
    """Return whether this installation has no operator yet."""
    return not User.objects.filter(is_superuser=True, is_active=True).exists()


@transaction.atomic
def make_link() -> str:
    """Make a link that is valid until it, or another one, is used. Only its digest is stored.

    Raises NoLonger if there is an operator.
    """
    if not is_needed():
        raise NoLonger("there is an operator already: the list of accounts shows who")
    code = secrets.token_urlsafe(32)
    OwnerLink.objects.create(digest=digest_of(code))
    newest = OwnerLink.objects.order_by("-pk").values("pk")[:MOST_LINKS]
    OwnerLink.objects.exclude(pk__in=list(newest.values_list("pk", flat=True))).delete()
    return f"{settings.URL}/accounts/first/{code}/"


def digest_of(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def check(code: str) -> None:
    """Raise NoLonger unless the code can make an account now."""
    if not is_needed():
        raise NoLonger("this installation has an operator already, and such a link is used once: log in, or ask them")
    if not OwnerLink.objects.filter(digest=digest_of(code)).exists():
        raise NoLonger("this is not the link, or no longer: copy all of it, or make another one")


@transaction.atomic
def use(code: str, name: str, password: str, email: str = "") -> User:
    """Make the first operator. If two use links at the same time, the second one gets NoLonger."""
    list(OwnerLink.objects.select_for_update().order_by("pk"))
    check(code)
    OwnerLink.objects.all().delete()
    user = User.objects.create_superuser(name, email, password)
    if email:
        EmailAddress.objects.create(user=user, email=email.lower(), primary=True, verified=True)
    return user
