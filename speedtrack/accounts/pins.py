"""A person's board of pinned timelines and comparisons.

Pins are a preference: nobody else sees them and nothing is sent because of them. So they are no operations of the
catalogue, and the audit log has no entries of them.
"""

from collections.abc import Sequence

from django.contrib.auth.models import User
from django.db import transaction

from speedtrack.accounts.models import MOST_PINS, Pin


class BoardIsFull(Exception):
    """The board has as many pins as it may have; the message has the remedy."""


def pins_of(user: User) -> list[Pin]:
    """The pins in their order on the board."""
    return list(user.pins.order_by("place"))


def locked_pins(user: User) -> list[Pin]:
    """The pins, which no other transaction can change until this one ends."""
    User.objects.select_for_update(no_key=True).values_list("pk").get(pk=user.pk)
    return pins_of(user)


@transaction.atomic
def pin(user: User, address: str) -> bool:
    """Put an address at the end of the board. Return False if it is there already. Raises BoardIsFull."""
    pins = locked_pins(user)
    if any(row.address == address for row in pins):
        return False
    if len(pins) >= MOST_PINS:
        raise BoardIsFull(f"your board has {MOST_PINS} pins, the most there can be: unpin one first")
    Pin.objects.create(user=user, address=address, place=len(pins))
    return True


@transaction.atomic
def unpin(user: User, number: int) -> None:
    """Remove a pin; of another person, or of one that is gone, nothing."""
    remaining = [row for row in locked_pins(user) if row.pk != number]
    user.pins.filter(pk=number).delete()
    arrange(remaining)


@transaction.atomic
def move(user: User, number: int, by: int) -> None:
    """Move a pin by so many places, at most to an end of the board."""
    pins = locked_pins(user)
    row = next((candidate for candidate in pins if candidate.pk == number), None)
    if row:
        position = min(max(row.place + by, 0), len(pins) - 1)
        pins.remove(row)
        pins.insert(position, row)
        arrange(pins)


def arrange(pins: Sequence[Pin]) -> None:
    for position, row in enumerate(pins):
        row.place = position
    Pin.objects.bulk_update(pins, ["place"])
