"""What people decide about an alert: its status, its assignee, and a note. Each decision is an event."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from speedtrack.accounts.models import Membership
from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.ground.texts.text import storable

Status = Alert.Status
Kind = AlertEvent.Kind
#: the statuses that a person may give
CHOICES = (Status.CONFIRMED, Status.EXPECTED, Status.INVALID, Status.FIXED)
TAKE = "take"  #: not a status: whoever acknowledges an alert is assigned to it
WHY = (Status.EXPECTED, Status.INVALID)  #: statuses that need a note, for whoever sees the commit later


class Stale(Exception):
    """Somebody else decided meanwhile; the message says what."""


class NotAssignable(ValueError):
    """An alert cannot be assigned to this name; the message says to whom it can."""


@dataclass(frozen=True)
class Decision:
    """``seen``: the status that the person saw."""

    seen: str
    status: str
    assignee: User | None
    note: str = ""


@transaction.atomic
def decide(alert: Alert, decision: Decision, user: User) -> bool:
    """Save a decision, if the alert still has the status that was seen. False if it changes nothing.

    Raises Stale, and ValueError for a status that a person may not give, or that needs a note and has none.
    """
    has_new_status = decision.status != decision.seen
    if has_new_status and decision.status not in CHOICES:
        raise ValueError(f"an alert cannot be made {decision.status!r}: say {', '.join(CHOICES)}")
    if has_new_status and decision.status in WHY and not decision.note.strip():
        raise ValueError(f"say in a note why it is {decision.status}")
    sentences = [decision.note.strip()]
    before = Alert.objects.select_for_update(of=("self",)).select_related("assignee").get(pk=alert.pk)
    if decision.assignee != before.assignee:
        sentences.insert(0, f"assigned to {decision.assignee}" if decision.assignee else "assigned to nobody")
    note = "; ".join(sentence for sentence in sentences if sentence)
    if not has_new_status and not note:
        return False
    same = Alert.objects.standing().filter(pk=alert.pk, status=decision.seen)
    fixed_by = before.fixed_by_id if decision.status == Status.FIXED else None
    try:
        with transaction.atomic():
            count = same.update(status=decision.status, assignee=decision.assignee, fixed_by=fixed_by)
    except IntegrityError as e:
        raise Stale("another open alert covers the same commits: look at that one") from e
    if before.merged_into_id:
        raise Stale(f"the alert was merged into alert {before.merged_into_id} meanwhile: look at that one")
    if count != 1:
        raise Stale(f"the alert is {before.status} meanwhile: look at it again")
    AlertEvent.objects.create(
        alert=alert,
        kind=kind_of(decision, before),
        who=user,
        improvement=before.improvement,
        before=decision.seen if has_new_status else "",
        after=decision.status if has_new_status else "",
        note=note,
    )
    return True


def assignable(alert: Alert) -> QuerySet[User]:
    """The people to whom an alert may be assigned: members of its project, operators, and whoever has it now."""
    members = Membership.objects.filter(project=alert.project_id).values("user")
    fitting = Q(is_active=True) & (Q(is_superuser=True) | Q(pk__in=members))
    return User.objects.filter(fitting | Q(pk=alert.assignee_id)).order_by("username")


def assignee_named(alert: Alert, name: str) -> User | None:
    """The person of this name among those of ``assignable``; None for an empty name.

    Raises NotAssignable, with the same sentence for a name that nobody has: it does not tell who has an account.
    """
    if not name:
        return None
    member = assignable(alert).filter(username=storable(name)).first()
    if member is None:
        raise NotAssignable(f"{name[:150]!r} is no member of {alert.project}: name one, or an operator")
    return member


def kind_of(decision: Decision, before: Alert) -> Kind:
    if decision.status != decision.seen:
        opens = decision.status in Alert.OPEN and decision.seen not in Alert.OPEN
        return Kind.REOPENED if opens else Kind.DECIDED
    return Kind.DECIDED if decision.assignee != before.assignee else Kind.NOTED
