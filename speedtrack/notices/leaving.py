"""End the account of a person who leaves, and remove name and address from other rooms' data."""

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from speedtrack.accounts import people
from speedtrack.alerts.models import Bisection
from speedtrack.notices.models import Channel, Outbox, Subscriber
from speedtrack.runs.models import Import, MachineEvent

# Sentences with the name of the person who acted.
NAMED = (
    (Bisection, "note", "stopped by {}"),
    (Channel, "paused_why", "paused by {}"),
    (MachineEvent, "why", "by a code of {}"),
)


@transaction.atomic
def leave(user: User) -> str:
    """End an account for ever. Return the name that replaces it in the history. Raises ``people.AccountUnchanged``."""
    name, addresses = user.username, people.addresses_of(user)
    former = people.remove(user)
    for address in addresses:
        Subscriber.objects.filter(email__iexact=address).delete()
        if address not in map(str.lower, settings.OPERATORS):
            Outbox.objects.filter(recipient__iexact=address).delete()
    Import.objects.filter(by=user).update(name=former)
    for model, field, sentence in NAMED:
        model._base_manager.filter(**{field: sentence.format(name)}).update(**{field: sentence.format(former)})
    return former
