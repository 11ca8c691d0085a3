"""Give, replace and revoke tokens of machines, and have a runner replace its own."""

from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from speedtrack.ground.secrets.tokentexts import TokenText
from speedtrack.runs.models import Machine, MachineEvent, MachineToken
from speedtrack.runs.models.tokens import MOST_DAYS
from speedtrack.runs.scheduling.quarantine import record_event

ASK_AGAIN = timedelta(minutes=1)  # for a runner that did not hear that its new token is known


class WrongToken(Exception):
    """A runner offers a token that cannot be stored."""


def give(machine: Machine, days: int | None = None) -> str:
    """Give the machine an additional token and return it. Only its digest is stored.

    ``days``: how long it is valid; None: for ever.
    """
    token = MachineToken.new_text()
    MachineToken.store(machine, token, checked_days(days))
    return token.text


def checked_days(days: int | None) -> int | None:
    """``days`` unchanged. Raises WrongToken if no token can be valid for so long."""
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise WrongToken(f"a token is valid for 1 to {MOST_DAYS} days, or for ever without a number")
    return days


def replace(machine: Machine, days: int | None = None) -> str:
    """Give the machine another token, and refuse all that it had. Return it."""
    revoke(machine)
    return give(machine, days)


def revoke(machine: Machine) -> int:
    """Make all tokens of the machine invalid, at once. Return how many were valid."""
    return MachineToken.objects.valid().filter(machine=machine).update(revoked_at=Now())


def ask_to_rotate(machine: Machine) -> int:
    """Have the runner replace its token with its next call. Return the number of tokens that this concerns."""
    return MachineToken.objects.valid().filter(machine=machine).update(rotate_at=Now())


@transaction.atomic
def rotate(old: MachineToken, successor: TokenText) -> None:
    """Store the token that the runner has made to replace its own; both are valid until the new one is used.

    The same call again changes nothing, so a runner that did not hear the answer may repeat it: it is asked again until
    it uses the new one. Raises WrongToken if another token has its key.
    """
    stored_token = MachineToken.objects.filter(key=successor.key).first()
    if stored_token and (stored_token.machine_id, stored_token.digest) == (old.machine_id, successor.digest):
        return
    try:
        with transaction.atomic():
            MachineToken.store(old.machine, successor, old.days)
    except IntegrityError:
        raise WrongToken("another token has this key: make a new one") from None
    MachineToken.objects.filter(pk=old.pk).update(rotate_at=Now() + ASK_AGAIN)
    record_event(old.machine, MachineEvent.Kind.ROTATED, "by its runner; the old one ends when the new one is used")
