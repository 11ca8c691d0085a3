"""Send what waits in the outbox, once: a row waits until a server took it."""

import logging
import smtplib
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from speedtrack.notices.mail import machine_message, message
from speedtrack.notices.models import Outbox

log = logging.getLogger(__name__)

AWAY = (OSError, smtplib.SMTPException)  # the mail server's failures, which time may heal
MAX_ATTEMPTS = 12  # with doubling pauses from 30 s: about 17 hours


def send_due() -> int:
    """Send the mails that are due. Returns how many a server took. A refusal is tried again later, with pauses."""
    sent = 0
    for outbox_id in Outbox.objects.due().values_list("pk", flat=True):
        with transaction.atomic():
            row = Outbox.objects.due().select_for_update(skip_locked=True).filter(pk=outbox_id).first()
            if row:
                sent += send(row)
    return sent


def send(row: Outbox) -> bool:
    """Send one mail, and note what became of it. The row is locked by the caller."""
    try:
        make = message if row.alert_id else machine_message
        make(row).send()
    except Exception as e:  # the loop's top: one mail that cannot be made must not hold back the others
        log.warning("mail %s to %s: %s", row.pk, row.recipient, e, exc_info=not isinstance(e, AWAY))
        last = row.attempts + 1 >= MAX_ATTEMPTS or not isinstance(e, AWAY)
        Outbox.objects.filter(pk=row.pk).update(
            attempts=F("attempts") + 1,
            error=str(e)[:2000],
            not_before=Now() + timedelta(seconds=30 * 2**row.attempts),
            given_up_at=Now() if last else None,
        )
        return False
    Outbox.objects.filter(pk=row.pk).update(attempts=F("attempts") + 1, sent_at=Now(), error="")
    return True
