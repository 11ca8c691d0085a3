"""Tell people, once: mails wait in the outbox until a server took them."""

import logging
import smtplib
from datetime import timedelta

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.template.loader import render_to_string
from django.urls import reverse

from speedtrack.alerts.models import Alert, ChangePoint, Outbox
from speedtrack.benchmarks import numbers
from speedtrack.runs.models import MachineEvent

log = logging.getLogger(__name__)

AWAY = (OSError, smtplib.SMTPException)  # the mail server's failures, which time may heal
MAX_ATTEMPTS = 12  # with doubling pauses from 30 s: about 17 hours
SUBJECT_LENGTH = 120
MOST_CANDIDATES = 10  # commits of a range that a mail lists
MACHINE_SUBJECTS: dict[str, str] = {
    MachineEvent.Kind.QUARANTINED: "in quarantine: its canary moved",
    MachineEvent.Kind.LIFTED: "at work again",
    MachineEvent.Kind.BLIND: "its canary cannot be measured",
}


def announce(alert: Alert, event: str) -> None:
    """Put one mail per subscriber into the outbox, in the caller's transaction. Once per alert and event."""
    emails = alert.project.subscriptions.values_list("email", flat=True)
    Outbox.objects.bulk_create(
        [Outbox(recipient=email, alert=alert, event=event) for email in emails], ignore_conflicts=True
    )


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


def message(row: Outbox) -> EmailMultiAlternatives:
    """The mail of an alert: text complete by itself, and the same as HTML."""
    alert = row.alert
    assert alert is not None
    context = {
        "alert": alert,
        "changes": changes(alert),
        "candidates": list(alert.candidates().reverse()[:MOST_CANDIDATES]) or [alert.commit],
        "branches": alert.branch_names(),
        "url": settings.URL + reverse("alert", args=[alert.pk]),
        "project_url": settings.URL + reverse("project", args=[alert.project.slug]),
    }
    mail = EmailMultiAlternatives(
        subject=subject(alert),
        body=render_to_string("alerts/mail.txt", context),
        to=[row.recipient],
        headers={
            "Message-ID": row.message_id(),
            "Auto-Submitted": "auto-generated",
            "List-Id": f"{alert.project.slug} <{alert.project.slug}.speedtrack>",
            "X-SpeedTrack-Project": alert.project.slug,
            "X-SpeedTrack-Commit": alert.commit.sha,
        },
    )
    mail.attach_alternative(render_to_string("alerts/mail.html", context), "text/html")
    return mail


def machine_message(row: Outbox) -> EmailMultiAlternatives:
    """The mail of what happened to a machine, as text."""
    event = row.machine_event
    assert event is not None
    return EmailMultiAlternatives(
        subject=f"[{event.machine}] {MACHINE_SUBJECTS[event.kind]}",
        body=render_to_string(
            "alerts/machine.txt",
            {"event": event, "url": settings.URL + reverse("machine", args=[event.machine.name])},
        ),
        to=[row.recipient],
        headers={"Message-ID": row.message_id(), "Auto-Submitted": "auto-generated"},
    )


def changes(alert: Alert) -> list[ChangePoint]:
    """The alert's change points, the worst first."""
    found = alert.change_points.select_related("series__benchmark", "series__machine", "before", "commit")
    return sorted(found, key=lambda cp: (not cp.is_slowdown, -abs(cp.ratio - 1)))


def subject(alert: Alert) -> str:
    """One line in ASCII, with the worst change first; text from commits is stripped of control characters."""
    found = changes(alert)
    worst = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    effect = numbers.effect(worst.metric, worst.is_slowdown)
    since = f"since {alert.commit.short} {alert.commit.subject}"
    if alert.width > 1:
        since = f"by one of {alert.width} commits, {alert.before.short}..{alert.commit.short}"
    line = (
        f"[{alert.project.slug}] {effect}: {worst.series.benchmark.name} {worst.metric.title} "
        f"{100 * (worst.ratio - 1):+.1f}%{more} {since}"
    )
    plain = " ".join("".join(c if c.isprintable() else " " for c in line.encode("ascii", "replace").decode()).split())
    return plain if len(plain) <= SUBJECT_LENGTH else plain[: SUBJECT_LENGTH - 3] + "..."
