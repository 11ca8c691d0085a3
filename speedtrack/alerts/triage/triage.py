"""What people decide about an alert: its status, its assignee, and a note. Each decision is an event."""

from collections.abc import Mapping
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
    """``seen`` is the status that the person saw."""

    seen: str
    status: str
    assignee: User | None
    note: str = ""


@dataclass(frozen=True)
class Decisions:
    """The result of one decision on several alerts.

    ``refused``: a sentence for each alert for which it was not saved.
    """

    changed: int
    unchanged: int
    refused: list[str]


@transaction.atomic
def decide(alert: Alert, decision: Decision, who: User) -> bool:
    """Save a decision, if the alert still has the status that was seen. False if it changes nothing.

    Raises Stale, and ValueError for a status that a person may not give, or that needs a note and has none.
    """
    changed = decision.status != decision.seen
    if changed and decision.status not in CHOICES:
        raise ValueError(f"an alert cannot be made {decision.status!r}: say {', '.join(CHOICES)}")
    if changed and decision.status in WHY and not decision.note.strip():
        raise ValueError(f"say in a note why it is {decision.status}")
    words = [decision.note.strip()]
    before = Alert.objects.select_for_update(of=("self",)).select_related("assignee").get(pk=alert.pk)
    if decision.assignee != before.assignee:
        words.insert(0, f"assigned to {decision.assignee}" if decision.assignee else "assigned to nobody")
    note = "; ".join(word for word in words if word)
    if not changed and not note:
        return False
    same = Alert.objects.standing().filter(pk=alert.pk, status=decision.seen)
    fixed_by = before.fixed_by_id if decision.status == Status.FIXED else None
    try:
        with transaction.atomic():
            written = same.update(status=decision.status, assignee=decision.assignee, fixed_by=fixed_by)
    except IntegrityError as e:
        raise Stale("another open alert covers the same commits: look at that one") from e
    if before.merged_into_id:
        raise Stale(f"the alert was merged into alert {before.merged_into_id} meanwhile: look at that one")
    if written != 1:
        raise Stale(f"the alert is {before.status} meanwhile: look at it again")
    AlertEvent.objects.create(
        alert=alert,
        kind=kind_of(decision, before),
        who=who,
        improvement=before.improvement,
        before=decision.seen if changed else "",
        after=decision.status if changed else "",
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
    found = assignable(alert).filter(username=storable(name)).first()
    if found is None:
        raise NotAssignable(f"{name[:150]!r} is no member of {alert.project}: name one, or an operator")
    return found


def take(alert: Alert, seen: str, note: str, who: User) -> bool:
    """Assign an alert to whoever acknowledges it; its status stays. Raises Stale, as ``decide`` does."""
    return decide(alert, Decision(seen, seen, who, note), who)


def settle(alert: Alert, seen: str, status: str, note: str, who: User) -> bool:
    """Give an alert a status; its assignee stays. Raises Stale and ValueError, as ``decide`` does."""
    return decide(alert, Decision(seen, status, alert.assignee, note), who)


def decide_each(seen: Mapping[int, str], action: str, note: str, who: User) -> Decisions:
    """Save the same decision on several alerts, each by itself: one that cannot be saved does not stop the others.

    ``seen``: by alert id, the status that the person saw. ``action``: ``take``, or a status of CHOICES.
    """
    changed, unchanged, refused = 0, 0, []
    known = Alert.objects.select_related("assignee").in_bulk(seen)
    for pk, status in seen.items():
        try:
            if pk not in known:
                raise Stale("it does not exist any more")
            alert = known[pk]
            done = take(alert, status, note, who) if action == TAKE else settle(alert, status, action, note, who)
            changed, unchanged = changed + done, unchanged + (not done)
        except (Stale, ValueError) as e:
            refused.append(f"alert {pk}: {e}")
    return Decisions(changed, unchanged, refused)


def kind_of(decision: Decision, before: Alert) -> Kind:
    if decision.status != decision.seen:
        opens = decision.status in Alert.OPEN and decision.seen not in Alert.OPEN
        return Kind.REOPENED if opens else Kind.DECIDED
    return Kind.DECIDED if decision.assignee != before.assignee else Kind.NOTED
