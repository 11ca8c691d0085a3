"""Operations on stored webhook calls: list them, replay them, and delete them by hand.

``retention`` deletes them by age.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from speedtrack.projects import intake
from speedtrack.projects.forges.bodies import Body
from speedtrack.projects.forges.providers import BY_NAME
from speedtrack.projects.models import Delivery, Project, Refusal

MOST_REPLAYED = 1000  # at once

Status = Delivery.Status


class DeliveryConflict(Exception):
    """These calls cannot be replayed or deleted; the message has the reason."""


@dataclass(frozen=True)
class Purged:
    deliveries: int
    refusals: int

    def __str__(self) -> str:
        return f"{self.deliveries:,} deliveries and {self.refusals:,} counts of refused calls"


def list_calls(project: Project, status: str = "") -> "QuerySet[Delivery]":
    """The calls of a project without their bodies, newest first."""
    rows = project.deliveries.defer("packed_body", "headers").order_by("-id")
    return rows.filter(status=status) if status else rows


def calls_numbered(project: Project, numbers: Iterable[int]) -> "QuerySet[Delivery]":
    """The calls with these numbers. Raises DeliveryConflict if the project lacks one."""
    ids = set(numbers)
    calls = list_calls(project).filter(pk__in=ids)
    if missing := ids - set(calls.values_list("pk", flat=True)):
        raise DeliveryConflict(f"{project.slug} has no delivery {', '.join(map(str, sorted(missing)[:10]))}")
    return calls


def replay(project: Project, rows: "QuerySet[Delivery]") -> int:
    """Handle these calls as if they had just arrived: each causes a fetch. Return the number of calls.

    Raises DeliveryConflict while the project is not tracked, and for more than MOST_REPLAYED.
    """
    if project.untracked_at:
        raise DeliveryConflict(f"{project.slug} is not tracked: track it again first")
    numbers = list(rows.values_list("pk", flat=True)[: MOST_REPLAYED + 1])
    if len(numbers) > MOST_REPLAYED:
        raise DeliveryConflict(
            f"more than {MOST_REPLAYED:,} deliveries: one look covers all, so replay only the newest"
        )
    for number in reversed(numbers):  # the oldest first
        replay_one(Delivery.objects.select_related("project").get(pk=number))
    return len(numbers)


def replay_one(delivery: Delivery) -> None:
    """Store the facts of the call again, and queue a fetch. If an equal call already waits, that one is enough."""
    if provider := BY_NAME.get(delivery.provider):
        content_type = {name.lower(): value for name, value in delivery.headers.items()}.get("content-type", "")
        intake.note_facts(delivery.project, provider.meaning(delivery.event, Body.of(delivery.body), content_type))
    again = {"received_at": Now(), "copies": intake.ONCE_MORE}
    try:
        with transaction.atomic():
            Delivery.objects.filter(pk=delivery.pk).update(status=Status.RECEIVED, outcome="", **again)
    except IntegrityError:
        equal = Delivery.objects.filter(project=delivery.project, body_digest=delivery.body_digest)
        equal.filter(status=Status.RECEIVED).update(**again)


def purge(project: Project, older_than_days: int, status: str = "") -> Purged:
    """Delete calls, and counts of refused ones, that arrived at least so many days ago, except waiting calls.

    Raises DeliveryConflict.
    """
    if not 0 <= older_than_days <= 36_500:
        raise DeliveryConflict("give a number of days from 0 to 36,500")
    if status == Status.RECEIVED:
        raise DeliveryConflict("calls that wait for a look are not deleted")
    before = Now() - timedelta(days=older_than_days)
    outdated = Q(received_at__lte=before) & ~Q(status=Status.RECEIVED)
    rows = project.deliveries.filter(outdated & Q(status=status) if status else outdated)
    refusals = Refusal.objects.none() if status else project.refusals.filter(last_at__lte=before)
    return Purged(rows.delete()[0], refusals.delete()[0])
