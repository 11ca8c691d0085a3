"""What people decide about an alert: its status, who looks after it, and a note. Each decision is an event."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from speedtrack.alerts.models import Alert, AlertEvent

#: what a person may say of an alert
CHOICES = (Alert.Status.CONFIRMED, Alert.Status.EXPECTED, Alert.Status.INVALID, Alert.Status.FIXED)


class Stale(Exception):
    """Somebody else decided meanwhile; the message says what."""


@dataclass(frozen=True)
class Decision:
    """``seen`` is the status that the person had before their eyes."""

    seen: str
    status: str
    assignee: User | None
    note: str = ""


@transaction.atomic
def decide(alert: Alert, decision: Decision, who: User) -> bool:
    """Write a decision, if the alert still has the status that was seen. False if it changes nothing.

    Raises Stale, and ValueError for a status that is not a person's to give.
    """
    changed = decision.status != decision.seen
    if changed and decision.status not in CHOICES:
        raise ValueError(f"an alert cannot be made {decision.status!r}: say {', '.join(CHOICES)}")
    words = [decision.note.strip()]
    before = Alert.objects.select_for_update(of=("self",)).select_related("assignee").get(pk=alert.pk)
    if decision.assignee != before.assignee:
        words.insert(0, f"assigned to {decision.assignee}" if decision.assignee else "assigned to nobody")
    note = "; ".join(word for word in words if word)
    if not changed and not note:
        return False
    same = Alert.objects.filter(pk=alert.pk, status=decision.seen)
    try:
        with transaction.atomic():
            written = same.update(status=decision.status, assignee=decision.assignee)
    except IntegrityError as e:
        raise Stale("another open alert covers the same commits: look at that one") from e
    if written != 1:
        raise Stale(f"the alert is {before.status} meanwhile: look at it again")
    AlertEvent.objects.create(
        alert=alert,
        kind=AlertEvent.Kind.DECIDED,
        who=who,
        before=decision.seen if changed else "",
        after=decision.status if changed else "",
        note=note,
    )
    return True
