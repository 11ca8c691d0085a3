"""Subscribe addresses and persons, and end subscriptions by the links in mails."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.core import signing
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from speedtrack.accounts import people
from speedtrack.notices.models import Notice, Subscriber, Subscription
from speedtrack.projects.models import Project
from speedtrack.runs.errors import NoSuchThing

UNSUBSCRIBE, MANAGE = "speedtrack.unsubscribe", "speedtrack.manage"


def check_addresses(emails: Iterable[str]) -> None:
    """Raise NoSuchThing if an address is invalid."""
    for email in emails:
        try:
            validate_email(email)
        except ValidationError:
            raise NoSuchThing(f"{email!r} is not a mail address") from None


def subscribe(project: Project, emails: Iterable[str]) -> None:
    """Subscribe these addresses to slowdowns of the project, at once. Safe to repeat."""
    for email in emails:
        subscriber = Subscriber.objects.filter(email__iexact=email).first() or Subscriber.objects.create(email=email)
        if not subscriber.subscriptions.filter(project=project).exists():
            Subscription.objects.create(subscriber=subscriber, project=project)


def subscriber_of(user: User) -> Subscriber:
    """The person's subscriber row, created if there is none.

    If their address was subscribed without an account, that row becomes theirs. Raises NoSuchThing if the account has
    no address of its own.
    """
    if subscriber := Subscriber.objects.filter(user=user).first():
        return subscriber
    if not user.email:
        raise NoSuchThing("Your account has no mail address: an operator gives it one.")
    with transaction.atomic():
        subscriber = Subscriber.objects.select_for_update().filter(email__iexact=user.email).first()
        if subscriber and subscriber.user_id:
            raise NoSuchThing(f"{user.email} belongs to another account: ask an operator for an address of your own.")
        subscriber = subscriber or Subscriber(email=user.email)
        subscriber.user = user
        subscriber.save()
    return subscriber


@dataclass(frozen=True)
class Unsubscription:
    """The subscriptions, and notices about own commits, that a link in a mail ends."""

    subscriber: Subscriber
    subscriptions: list[Subscription]
    own_commits: bool

    @property
    def is_empty(self) -> bool:
        return not self.subscriptions and not self.own_commits


def unsubscribe_token(subscriber: Subscriber, notices: Iterable[Notice]) -> str:
    """A signed token that ends the subscriptions behind these notices; only the subscriber's mails contain it."""
    reasons = list(notices)
    ids = sorted({n.subscription_id for n in reasons if n.subscription_id})
    return signing.dumps([subscriber.pk, ids, any(n.own for n in reasons)], salt=UNSUBSCRIBE)


def unsubscription_of(token: str) -> Unsubscription | None:
    """Return the subscriptions and notices that the token ends, as far as they still exist.

    None if the signature is wrong or the subscriber is gone.
    """
    try:
        pk, ids, own = signing.loads(token, salt=UNSUBSCRIBE)
    except signing.BadSignature:
        return None
    subscriber = Subscriber.objects.filter(pk=pk).first()
    if subscriber is None:
        return None
    return Unsubscription(
        subscriber,
        list(subscriber.subscriptions.filter(pk__in=ids).select_related("project").order_by("pk")),
        bool(own) and subscriber.own_commits,
    )


@transaction.atomic
def unsubscribe(ending: Unsubscription) -> None:
    """End the subscriptions, and delete the notices that wait because of them. Safe to repeat."""
    unmailed = ending.subscriber.notices.filter(mail=None)
    unmailed.filter(subscription__in=ending.subscriptions).delete()
    ending.subscriber.subscriptions.filter(pk__in=[s.pk for s in ending.subscriptions]).delete()
    if ending.own_commits:
        unmailed.filter(own=True).delete()
        Subscriber.objects.filter(pk=ending.subscriber.pk).update(own_commits=False)


def manage_token(subscriber: Subscriber) -> str:
    """A signed token that opens the settings of an address without an account."""
    return signing.dumps([subscriber.pk, subscriber.email], salt=MANAGE)


def managed_by(token: str) -> Subscriber | None:
    """The subscriber whose settings the token opens.

    None if the signature is wrong, or if the address has an account to log in to.
    """
    try:
        pk, email = signing.loads(token, salt=MANAGE)
    except signing.BadSignature:
        return None
    return Subscriber.objects.filter(pk=pk, email=email, user=None).first()


@transaction.atomic
def give_address(user_name: str, email: str) -> None:
    """Change the mail address of an account: its owner logs in with it, and gets mails there. Raises NoSuchThing."""
    check_addresses([email])
    user = User.objects.filter(username=user_name).first()
    if user is None:
        raise NoSuchThing(f"there is no account {user_name!r}: add it first")
    is_taken = Subscriber.objects.filter(email__iexact=email).exclude(user=user).exclude(user=None).exists()
    if is_taken or people.owner_of(email) not in (None, user):
        raise NoSuchThing(f"{email} belongs to another account")
    if Subscriber.objects.filter(email__iexact=email, user=None).exists() and hasattr(user, "subscriber"):
        raise NoSuchThing(f"{email} is subscribed without an account: unsubscribe it first, by the link in its mails")
    people.set_address(user, email)
    Subscriber.objects.filter(user=user).update(email=email)


def follow(user: User, email: str) -> None:
    """Send a person's mails to their new, verified address from now on.

    If that address was subscribed without an account, these subscriptions end.
    """
    with transaction.atomic():
        Subscriber.objects.filter(email__iexact=email, user=None).delete()
        if not Subscriber.objects.filter(email__iexact=email).exclude(user=user).exists():
            Subscriber.objects.filter(user=user).update(email=email)
