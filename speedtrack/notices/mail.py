"""The mails: about one alert as text and HTML with pictures, about several as a table, everything else as text."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from email.mime.image import MIMEImage

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse

from speedtrack.alerts.headlines import Change, DirectionSummary, headline, summaries_of
from speedtrack.alerts.hunks.findings import hunks_of
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.alerts.pairs import counts
from speedtrack.alerts.pairs.sizes import settling_verdicts
from speedtrack.alerts.triage.restorations import restoration_in_words
from speedtrack.judging.instructions import is_time_only, works_of
from speedtrack.judging.layouts import layout_sentences
from speedtrack.judging.whole import whole_effect_of
from speedtrack.notices import seeing, subscribing
from speedtrack.notices.errors import PermanentFailure
from speedtrack.notices.mailtext import ascii_line, at_80_columns
from speedtrack.notices.models import Notice, Outbox, Subscriber
from speedtrack.projects.models import Project
from speedtrack.reports.readings.lines import lines_of_alert
from speedtrack.runs.models import MachineEvent

log = logging.getLogger(__name__)

MOST_CANDIDATES = 10  # commits of a range that a mail lists at most
MOST_PICTURES = 3
MOST_LISTED = 25  # alerts that a digest lists at most
MOST_REFERENCES = 20
MACHINE_SUBJECTS: dict[str, str] = {
    MachineEvent.Kind.QUARANTINED: "in quarantine: its canary moved",
    MachineEvent.Kind.LIFTED: "at work again",
    MachineEvent.Kind.BLIND: "its canary cannot be measured",
}


class RelatedMail(EmailMultiAlternatives):
    """A mail whose attachments are the pictures in its HTML part."""

    mixed_subtype = "related"


def message_of(row: Outbox) -> EmailMultiAlternatives:
    """The mail of a row of the outbox."""
    if row.digest:
        return digest_message(row)
    if row.alarm_id:
        return alarm_message(row)
    if row.token_id:
        return token_message(row)
    return alert_message(row) if row.alert_id else machine_message(row)


def alert_message(row: Outbox) -> EmailMultiAlternatives:
    """The mail about an alert: as text, which is complete, and as HTML with pictures of the worst changes."""
    alert = row.alert
    assert alert is not None
    notices = notices_of(row)
    require_sight(row, notices, [alert.project])
    links = subscription_links(notices)
    earlier = list(earlier_mails(row))
    changes = changes_of(alert)
    works = works_of(changes)
    pictures = pictures_of(changes)
    verdicts = settling_verdicts(changes)
    function_tables = counts.function_tables(changes, verdicts)
    context = {
        "alert": alert,
        "changes": changes,
        "works": works,
        "is_time_only": is_time_only(works),
        "whole": whole_effect_of(alert),
        "summaries": summaries_of(changes),
        "headline": headline(changes),
        "pictures": [(cp, cid_of(cp)) for cp in changes if cp.pk in pictures],
        "is_praise": alert.improvement and any(notice.own for notice in notices),
        "happened": [n.event for n in notices if is_shown(n.event, row)],
        "restoration": restoration_in_words(list(alert.events.order_by("pk"))),
        "candidates": list(alert.candidates().reverse()[:MOST_CANDIDATES]) or [alert.commit],
        "branches": alert.branch_names(),
        "layouts": layout_sentences(works, verdicts),
        "function_tables": function_tables,
        "lines": lines_of_alert(alert, function_tables, hunks_of(alert)).results,
        "url": settings.URL + reverse("alert", args=[alert.pk]),
        "project_url": settings.URL + reverse("project", args=[alert.project.slug]),
        **links,
    }
    mail = RelatedMail(
        subject=f"Re: {subject_of(alert)}" if earlier else subject_of(alert),
        body=at_80_columns(render_to_string("notices/mail.txt", context)),
        to=[row.recipient],
        headers=headers_of(row, links)
        | thread_headers(earlier)
        | {
            "List-Id": f"{alert.project.slug} <{alert.project.slug}.speedtrack>",
            "X-SpeedTrack-Project": alert.project.slug,
            "X-SpeedTrack-Commit": alert.commit.sha,
        },
    )
    mail.attach_alternative(render_to_string("notices/mail.html", context), "text/html")
    for cp in changes:
        if cp.pk in pictures:
            mail.attach(inline_image(pictures[cp.pk], cid_of(cp)))
    return mail


def is_shown(event: AlertEvent, row: Outbox) -> bool:
    """Return whether a mail mentions an event: not the first one, whose changes it lists."""
    is_again = event.kind == AlertEvent.Kind.RAISED and row.event != AlertEvent.Kind.RAISED
    return is_again or event.kind not in (AlertEvent.Kind.RAISED, AlertEvent.Kind.GREW)


def digest_message(row: Outbox) -> EmailMultiAlternatives:
    """One mail about several alerts as a table, the worst first."""
    notices = notices_of(row)
    require_sight(row, notices, {n.event.alert.project for n in notices})
    links = subscription_links(notices)
    alerts = {n.event.alert_id: n.event.alert for n in notices}
    lines = sorted((DigestLine.of(alert) for alert in alerts.values()), key=lambda line: -line.size)
    context = {
        "listed": lines[:MOST_LISTED],
        "left_out": max(0, len(lines) - MOST_LISTED),
        "count": len(lines),
        "url": settings.URL + reverse("all-alerts"),
        **links,
    }
    mail = EmailMultiAlternatives(
        subject=digest_subject(lines),
        body=at_80_columns(render_to_string("notices/digest.txt", context)),
        to=[row.recipient],
        headers=headers_of(row, links) | {"List-Id": "SpeedTrack digests <digests.speedtrack>"},
    )
    mail.attach_alternative(render_to_string("notices/digest.html", context), "text/html")
    return mail


def require_sight(row: Outbox, notices: Iterable[Notice], projects: Iterable[Project]) -> None:
    """Raise PermanentFailure if the receiver may no longer see one of these projects.

    It may have become private since the mail was queued, or the account was deactivated.
    """
    subscribers = {notice.subscriber for notice in notices}
    for project in projects:
        if len(seeing.who_see(project, subscribers)) < len(subscribers):
            raise PermanentFailure(f"{row.recipient} may no longer see {project}")


def machine_message(row: Outbox) -> EmailMultiAlternatives:
    """The mail about an event of a machine, as text."""
    event = row.machine_event
    assert event is not None
    return EmailMultiAlternatives(
        subject=f"[{event.machine}] {MACHINE_SUBJECTS[event.kind]}",
        body=render_to_string(
            "notices/machine.txt",
            {"event": event, "url": settings.URL + reverse("machine", args=[event.machine.name])},
        ),
        to=[row.recipient],
        headers=headers_of(row, {}),
    )


def alarm_message(row: Outbox) -> EmailMultiAlternatives:
    """The mail about an alarm that has begun or ended, as text."""
    alarm = row.alarm
    assert alarm is not None
    about = (
        reverse("machine", args=[alarm.machine.name])
        if alarm.machine
        else reverse("project", args=[alarm.branch.project.slug])
        if alarm.branch
        else ""
    )
    is_over = row.event == "ended"
    return EmailMultiAlternatives(
        subject=f"[{alarm.subject}] {'over: ' if is_over else ''}{alarm.words}",
        body=at_80_columns(
            render_to_string("notices/alarm.txt", {"alarm": alarm, "is_over": is_over, "url": settings.URL + about})
        ),
        to=[row.recipient],
        headers=headers_of(row, {}),
    )


def token_message(row: Outbox) -> EmailMultiAlternatives:
    """The mail about a person's token that ends soon, as text."""
    token = row.token
    assert token is not None and token.expires_at is not None
    context = {"token": token, "scopes": ", ".join(token.scopes), "url": settings.URL + reverse("own-tokens")}
    return EmailMultiAlternatives(
        subject=ascii_line(f"SpeedTrack: your token {token.name} expires on {token.expires_at:%Y-%m-%d}"),
        body=at_80_columns(render_to_string("notices/token.txt", context)),
        to=[row.recipient],
        headers=headers_of(row, {}),
    )


def trial_message(subscriber: Subscriber) -> EmailMultiAlternatives:
    """The mail that the test button of the settings sends."""
    context = {"url": settings.URL, "manage_url": manage_url(subscriber)}
    return EmailMultiAlternatives(
        subject="SpeedTrack: a test",
        body=at_80_columns(render_to_string("notices/trial.txt", context)),
        to=[subscriber.email],
        headers={"Auto-Submitted": "auto-generated"},
    )


@dataclass(frozen=True)
class DigestLine:
    """A row of a digest's table. ``summaries``: of slowdowns, then of improvements."""

    alert: Alert
    summaries: list[DirectionSummary]
    url: str

    @staticmethod
    def of(alert: Alert) -> "DigestLine":
        url = settings.URL + reverse("alert", args=[alert.pk])
        return DigestLine(alert, summaries_of(changes_of(alert)), url)

    @property
    def worst(self) -> Change | None:
        """The worst change; None if the alert has no change points left."""
        return self.summaries[0].largest if self.summaries else None

    @property
    def size(self) -> float:
        """The size of the worst change, for sorting; improvements are below zero."""
        if self.worst is None:
            return 0
        return abs(self.worst.ratio - 1) * (1 if self.worst.is_slowdown else -1)

    @property
    def cause(self) -> str:
        """The cause in words. It names no single commit as long as another one may be the cause."""
        if self.alert.drift:
            return f"little by little since {self.alert.drift}"
        return self.alert.commit.subject if self.alert.width == 1 else f"one of {self.alert.width} commits"

    @property
    def where(self) -> str:
        return f"{self.alert.branch.name} {commits_in_words(self.alert)}"


def notices_of(row: Outbox) -> list[Notice]:
    related = (
        "subscriber",
        "event__who",
        "event__alert__project",
        "event__alert__branch",
        "event__alert__before",
        "event__alert__commit",
    )
    return list(row.notices.select_related(*related).order_by("event_id"))


def headers_of(row: Outbox, links: dict[str, str]) -> dict[str, str]:
    """Return the headers of a mail.

    If a subscription is the reason for the mail, two headers let the reader end it with one click (RFC 8058).
    """
    headers = {"Message-ID": row.message_id(), "Auto-Submitted": "auto-generated"}
    if links:
        headers["List-Unsubscribe"] = f"<{links['unsubscribe_url']}>"
        headers["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    return headers


def subscription_links(notices: list[Notice]) -> dict[str, str]:
    """Return the URLs by which a reader ends or changes subscriptions.

    Empty if no subscription is the reason for the mail.
    """
    if not notices:
        return {}
    subscriber = notices[0].subscriber
    token = subscribing.unsubscribe_token(subscriber, notices)
    return {
        "unsubscribe_url": settings.URL + reverse("unsubscribe", args=[token]),
        "manage_url": manage_url(subscriber),
    }


def manage_url(subscriber: Subscriber) -> str:
    if subscriber.user_id:
        return settings.URL + reverse("notifications")
    return settings.URL + reverse("notifications-of", args=[subscribing.manage_token(subscriber)])


def earlier_mails(row: Outbox) -> Iterable[Outbox]:
    """The earlier mails to the recipient about the alert, including digests, oldest first."""
    about = Q(alert=row.alert_id) | Q(notices__event__alert=row.alert_id)
    return Outbox.objects.filter(about, recipient=row.recipient, pk__lt=row.pk).distinct().order_by("pk")


def thread_headers(earlier: list[Outbox]) -> dict[str, str]:
    """The headers that put a mail into the thread of earlier ones; of many, they name only the first and the newest."""
    if not earlier:
        return {}
    ids = [row.message_id() for row in earlier]
    return {"In-Reply-To": ids[-1], "References": " ".join([ids[0], *ids[1:][1 - MOST_REFERENCES :]])}


def changes_of(alert: Alert) -> list[ChangePoint]:
    """The alert's change points, the worst first."""
    changes = alert.change_points.select_related("series__benchmark", "series__machine", "before", "commit", "branch")
    return sorted(changes, key=lambda cp: cp.rank)


def pictures_of(changes: list[ChangePoint]) -> dict[int, bytes]:
    """By change point id: the PNGs of the worst changes.

    One that cannot be drawn is left out: the text is complete without it.
    """
    from speedtrack.notices import charts  # only the process that sends mails imports it

    pictures = {}
    for cp in changes[:MOST_PICTURES]:
        try:
            pictures[cp.pk] = charts.picture(cp)
        except Exception:  # a picture that fails must not stop the mail
            log.exception("change point %s cannot be drawn", cp.pk)
    return pictures


def cid_of(cp: ChangePoint) -> str:
    return f"change{cp.pk}@speedtrack"


def inline_image(png: bytes, cid: str) -> MIMEImage:
    image = MIMEImage(png, "png")
    image.add_header("Content-ID", f"<{cid}>")
    image.add_header("Content-Disposition", "inline", filename=f"{cid.partition('@')[0]}.png")
    return image


def commits_in_words(alert: Alert) -> str:
    """The short sha of the cause, or the range as long as the cause is unknown."""
    return alert.commit.short if alert.width == 1 else f"{alert.before.short}..{alert.commit.short}"


def subject_of(alert: Alert) -> str:
    """Size, benchmarks, branch and commit or range, such as ``[redis] slower +5.2%: get-p16 and 2 more, ...``."""
    changes = changes_of(alert)
    where = f"{alert.branch.name} {commits_in_words(alert)}"
    if not changes:
        return ascii_line(f"[{alert.project.slug}] alert {alert.pk}, {where}")
    return ascii_line(f"[{alert.project.slug}] {headline(changes)}, {where}")


def digest_subject(lines: list[DigestLine]) -> str:
    projects = sorted({line.alert.project.slug for line in lines})
    name = projects[0] if len(projects) == 1 else "SpeedTrack"
    count = f"{len(lines)} change{'' if len(lines) == 1 else 's'}"
    if not lines or not lines[0].summaries:
        return ascii_line(f"[{name}] {count}")
    return ascii_line(f"[{name}] {count}, the largest: {lines[0].summaries[0].text()}")


def event_in_words(event: AlertEvent) -> str:
    """One sentence about an event of an alert, such as ``ada: confirmed to expected; intended``."""
    author = event.who.get_username() if event.who else "SpeedTrack"
    move = event.after if not event.before else f"{event.before} to {event.after}"
    sentence = "; ".join(clause for clause in (move if event.after else "", event.note) if clause)
    return f"{author}: {sentence or event.kind}"
