"""Put what has happened into the outbox, once for each who wants to hear of it."""

import logging

from django.conf import settings
from django.db import transaction

from speedtrack.alerts.models import AlertEvent
from speedtrack.notices.channels import telling as channels
from speedtrack.notices.models import Outbox
from speedtrack.runs.models import MachineEvent

log = logging.getLogger(__name__)

MAILED = (AlertEvent.Kind.RAISED,)


@transaction.atomic
def tell_subscribers() -> None:
    """Put one mail per subscriber into the outbox for each event of an alert that they have not been told of."""
    events = AlertEvent.objects.filter(untold=True).select_for_update(skip_locked=True, of=("self",)).order_by("id")
    for event in events.select_related("alert__project"):
        if event.kind in MAILED:
            emails = event.alert.project.subscriptions.values_list("email", flat=True)
            Outbox.objects.bulk_create(
                [Outbox(recipient=email, alert=event.alert, event=event.kind) for email in emails],
                ignore_conflicts=True,
            )
        channels.tell(event)
    AlertEvent.objects.filter(pk__in=[event.pk for event in events]).update(untold=False)


@transaction.atomic
def tell_operators() -> None:
    """Put one mail per operator into the outbox for each event of a machine that they have not been told of."""
    events = MachineEvent.objects.filter(untold=True).select_for_update(skip_locked=True).order_by("id")
    for event in events:
        Outbox.objects.bulk_create(
            [Outbox(recipient=email, machine_event=event, event=event.kind) for email in settings.OPERATORS],
            ignore_conflicts=True,
        )
        if not settings.OPERATORS:
            log.warning("machine %s: %s (no mail: OPERATORS names nobody)", event.machine, event.why)
    MachineEvent.objects.filter(pk__in=[event.pk for event in events]).update(untold=False)
