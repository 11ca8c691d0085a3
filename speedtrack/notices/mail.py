"""The mails: of an alert as text and HTML, of a machine as text."""

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.notices.models import Outbox
from speedtrack.runs.models import MachineEvent

SUBJECT_LENGTH = 120
MOST_CANDIDATES = 10  # commits of a range that a mail lists
MACHINE_SUBJECTS: dict[str, str] = {
    MachineEvent.Kind.QUARANTINED: "in quarantine: its canary moved",
    MachineEvent.Kind.LIFTED: "at work again",
    MachineEvent.Kind.BLIND: "its canary cannot be measured",
}


def message_of(row: Outbox) -> EmailMultiAlternatives:
    """The mail of whatever the row is about."""
    return message(row) if row.alert_id else machine_message(row)


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
        body=render_to_string("notices/mail.txt", context),
        to=[row.recipient],
        headers={
            "Message-ID": row.message_id(),
            "Auto-Submitted": "auto-generated",
            "List-Id": f"{alert.project.slug} <{alert.project.slug}.speedtrack>",
            "X-SpeedTrack-Project": alert.project.slug,
            "X-SpeedTrack-Commit": alert.commit.sha,
        },
    )
    mail.attach_alternative(render_to_string("notices/mail.html", context), "text/html")
    return mail


def machine_message(row: Outbox) -> EmailMultiAlternatives:
    """The mail of what happened to a machine, as text."""
    event = row.machine_event
    assert event is not None
    return EmailMultiAlternatives(
        subject=f"[{event.machine}] {MACHINE_SUBJECTS[event.kind]}",
        body=render_to_string(
            "notices/machine.txt",
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
