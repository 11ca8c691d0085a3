"""Turn events of alerts into notices for subscribers, and due notices, events of machines and tokens into mails."""

import logging
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import F, Min
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.accounts.models import Membership, PersonToken, Role
from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.ground.postgres.steps import take_each
from speedtrack.notices import seeing
from speedtrack.notices.channels import telling as channels
from speedtrack.notices.matching import interests_in
from speedtrack.notices.models import Notice, Outbox, Pace, Subscriber
from speedtrack.runs.models import Alarm, MachineEvent

log = logging.getLogger(__name__)

#: Kinds that notify subscribers who do not know of the alert yet; two of them, since a joining change may match them.
FIRST = ("raised", "grew", "measured")
#: Kinds that notify those who already know of the alert.
FOLLOW_UPS = ("traced", "narrowed", "moved", "decided", "noted", "fixed", "reopened")
TOKEN_WARNING = timedelta(days=7)  # its owner is mailed so long before a token expires
FIRST_MAIL = "raised"  # the value of ``event`` in the outbox row of the first mail about an alert
BURST = 5  # more alerts than this at once are one mail with a table


def tell_subscribers(now: datetime | None = None) -> None:
    """Write notices for new events, and put the mails that are due into the outbox."""
    take_each(partial(note_events, now or timezone.now()), partial(mail_due, now or timezone.now()))


def note_events(now: datetime) -> None:
    """Write one notice for each new event and each subscriber to notify. An event that fails holds up no other."""
    untold = AlertEvent.objects.tellable().order_by("id").values_list("pk", flat=True)
    take_each(*[partial(note_event, pk, now) for pk in untold])


@transaction.atomic
def note_event(pk: int, now: datetime) -> None:
    """Write the notices of one event, unless another process does so."""
    untold = AlertEvent.objects.tellable().select_for_update(skip_locked=True, of=("self",)).filter(pk=pk)
    event = untold.select_related("alert__project", "alert__branch", "alert__commit").first()
    if event is None:
        return
    earlier = earlier_notices(event.alert)
    if event.kind in FIRST:
        notices = first_notices(event, earlier, now)
    else:
        notices = follow_up_notices(event, earlier, now) if is_follow_up(event) else []
    Notice.objects.bulk_create(notices, ignore_conflicts=True)
    channels.queue_messages(event)
    AlertEvent.objects.filter(pk=pk).update(untold=False)


def is_follow_up(event: AlertEvent) -> bool:
    """Return whether the event is sent to those who know of the alert.

    Notes by a person are sent; notes by SpeedTrack are only shown with the alert. A merge by SpeedTrack is sent,
    because it means that a drift was none.
    """
    if event.kind == AlertEvent.Kind.MERGED:
        return event.who_id is None
    return event.kind in FOLLOW_UPS and (event.kind != AlertEvent.Kind.NOTED or event.who_id is not None)


def earlier_notices(alert: Alert) -> dict[int, Notice]:
    """The first notice about the alert, by subscriber."""
    first = Notice.objects.filter(event__alert=alert).values("subscriber").annotate(first=Min("pk"))
    notices = Notice.objects.filter(pk__in=first.values("first")).select_related("subscriber")
    return {notice.subscriber_id: notice for notice in notices}


def first_notices(event: AlertEvent, earlier: dict[int, Notice], now: datetime) -> list[Notice]:
    """Notices for subscribers who do not know of the alert yet.

    If it is raised again, because it now has changes of both directions, those who know of it are notified once more:
    their mail has only the improvements, or only the slowdowns.
    """
    informed: dict[int, Notice] = {} if is_first_slowdown(event) else earlier
    new = [interest for interest in interests_in(event.alert) if interest.subscriber.pk not in informed]
    notices = [notice_of(event, w.subscriber, w.pace, now, subscription=w.subscription, own=w.is_own) for w in new]
    if event.kind == AlertEvent.Kind.GREW:
        return notices
    subscribers = {interest.subscriber.pk for interest in new}
    follow_ups = {pk: notice for pk, notice in earlier.items() if pk not in subscribers}
    return notices + follow_up_notices(event, follow_ups, now)


def is_first_slowdown(event: AlertEvent) -> bool:
    """Return whether an alert that was an improvement is raised again, because something got worse."""
    if event.kind != AlertEvent.Kind.RAISED or event.improvement:
        return False
    return not event.alert.events.filter(pk__lt=event.pk, improvement=False).exists()


def follow_up_notices(event: AlertEvent, earlier: dict[int, Notice], now: datetime) -> list[Notice]:
    """Notices, at their pace, for those who know of the alert, want to hear more about it and may still see it.

    The person who caused the event gets none.
    """
    knowing = seeing.who_see(event.alert.project, (first.subscriber for first in earlier.values()))
    return [
        notice_of(event, first.subscriber, first.pace, now, subscription_id=first.subscription_id, own=first.own)
        for first in earlier.values()
        if first.subscriber_id in knowing
        and first.subscriber.follow_ups
        and (event.who_id is None or first.subscriber.user_id != event.who_id)
    ]


def notice_of(event: AlertEvent, subscriber: Subscriber, pace: str, now: datetime, **why: Any) -> Notice:
    hours = subscriber.hours
    pace = Pace.DAILY if event.past and pace == Pace.NOW else pace
    due = hours.after_quiet(now) if pace == Pace.NOW else hours.digest(now, weekly=pace == Pace.WEEKLY)
    return Notice(event=event, subscriber=subscriber, pace=pace, not_before=due, **why)


def mail_due(now: datetime) -> None:
    """Put due notices into the outbox as mails. A subscriber for whom that fails holds up no other."""
    due = Notice.objects.filter(mail=None, not_before__lte=now).order_by("subscriber")
    subscribers = due.values_list("subscriber", flat=True).distinct()
    take_each(*[partial(mail_subscriber, pk, now) for pk in subscribers])


@transaction.atomic
def mail_subscriber(pk: int, now: datetime) -> None:
    """Put a subscriber's due notices into the outbox, one mail per alert, unless another process does so.

    They become one digest if there are many or the pace is a digest. In quiet hours nothing is sent. Mails beyond the
    daily limit wait for tomorrow's digest, except those about the person's own commits.
    """
    subscriber = Subscriber.objects.select_for_update(skip_locked=True).filter(pk=pk).first()
    if subscriber is None:
        return
    unmailed = subscriber.notices.filter(mail=None, not_before__lte=now).select_related("event__alert__project")
    due = without_hidden(subscriber, list(unmailed.order_by("pk")))
    if (after_quiet := subscriber.hours.after_quiet(now)) > now:
        Notice.objects.filter(pk__in=[n.pk for n in due]).update(not_before=after_quiet)
        return
    plan = plan_mails(due, subscriber.most_per_day - mails_since(subscriber, subscriber.hours.midnight(now)))
    for alert, notices in plan.single:
        queue_mail(subscriber, notices, alert=alert, event=mail_key(subscriber, notices[0].event))
    if plan.table:
        queue_mail(subscriber, plan.table, digest=True, event=f"digest {plan.table[0].pk}")
    tomorrow = subscriber.hours.digest(subscriber.hours.midnight(now) + timedelta(days=1, seconds=-1))
    Notice.objects.filter(pk__in=[n.pk for n in plan.held]).update(pace=Pace.DAILY, not_before=tomorrow)


def without_hidden(subscriber: Subscriber, notices: list[Notice]) -> list[Notice]:
    """Drop the notices of projects that have become private, or that the subscriber was removed from."""
    projects = {notice.event.alert.project for notice in notices}
    hidden = {project.pk for project in projects if not seeing.sees(subscriber, project)}
    Notice.objects.filter(pk__in=[notice.pk for notice in notices if notice.event.alert.project_id in hidden]).delete()
    return [notice for notice in notices if notice.event.alert.project_id not in hidden]


class MailPlan(NamedTuple):
    """Due notices divided among mails.

    ``single``: a mail for each alert; ``table``: all in one digest; ``held``: for tomorrow's digest.
    """

    single: list[tuple[Alert, list[Notice]]]
    table: list[Notice]
    held: list[Notice]


def plan_mails(due: list[Notice], room: int) -> MailPlan:
    """Divide due notices among mails, if ``room`` more may be sent today; those about own commits do not count."""
    own = by_alert([n for n in due if n.pace == Pace.NOW and n.own])
    foreign = by_alert([n for n in due if n.pace == Pace.NOW and not n.own])
    table = [n for n in due if n.pace != Pace.NOW]
    if len(own) > BURST:
        table += [n for _, notices in own for n in notices]
        own, room = [], max(room, 1)
    if room <= 0:
        return MailPlan(own, [], table + [n for _, notices in foreign for n in notices])
    if len(own) + len(foreign) > BURST or len(foreign) + bool(table) > room:
        table += [n for _, notices in foreign for n in notices]
        foreign = []
    return MailPlan(own + foreign, sorted(table, key=lambda n: n.pk), [])


def by_alert(notices: list[Notice]) -> list[tuple[Alert, list[Notice]]]:
    ordered = sorted(notices, key=lambda n: (n.event.alert_id, n.pk))
    groups = [list(group) for _, group in groupby(ordered, key=lambda n: n.event.alert_id)]
    return [(group[0].event.alert, group) for group in groups]


def mails_since(subscriber: Subscriber, moment: datetime) -> int:
    return Outbox.objects.filter(notices__subscriber=subscriber, created__gte=moment).distinct().count()


def mail_key(subscriber: Subscriber, event: AlertEvent) -> str:
    """The value of ``event`` in the outbox row of a mail about an alert.

    An alert that is raised again shares its first mail if nobody has tried to send that yet: mails are written when
    they are sent, so it will have the changes of both directions.
    """
    if event.kind != AlertEvent.Kind.RAISED:
        return f"{event.kind} {event.pk}"
    mails = Outbox.objects.filter(recipient=subscriber.email, alert=event.alert_id, event=FIRST_MAIL)
    untried = mails.filter(attempts=0, sent_at=None, given_up_at=None).select_for_update(skip_locked=True)
    return f"{event.kind} {event.pk}" if mails.exists() and not untried.first() else FIRST_MAIL


def queue_mail(subscriber: Subscriber, notices: list[Notice], **about: Any) -> None:
    """Put a mail with these notices into the outbox."""
    row, _ = Outbox.objects.get_or_create(recipient=subscriber.email, **about)
    Notice.objects.filter(pk__in=[n.pk for n in notices]).update(mail=row)


@transaction.atomic
def tell_operators() -> None:
    """Put one mail per operator into the outbox for each new event of a machine."""
    events = MachineEvent.objects.filter(untold=True).select_for_update(skip_locked=True).order_by("id")
    for event in events:
        Outbox.objects.bulk_create(
            [Outbox(recipient=email, machine_event=event, event=event.kind) for email in settings.OPERATORS],
            ignore_conflicts=True,
        )
        if not settings.OPERATORS:
            log.warning("machine %s: %s (no mail: OPERATORS names nobody)", event.machine, event.why)
    MachineEvent.objects.filter(pk__in=[event.pk for event in events]).update(untold=False)


@transaction.atomic
def tell_of_alarms() -> None:
    """Put a mail to each recipient into the outbox, for each alarm that has begun and each that has ended."""
    alarms = Alarm.objects.filter(untold=True).select_for_update(skip_locked=True, of=("self",)).order_by("id")
    for alarm in alarms.select_related("machine", "branch__project"):
        event, recipients = "ended" if alarm.ended_at else "began", recipients_of(alarm)
        Outbox.objects.bulk_create(
            [Outbox(recipient=email, alarm=alarm, event=event) for email in recipients], ignore_conflicts=True
        )
        if not recipients:
            log.warning("%s: alarm %s: %s (no mail: OPERATORS names nobody)", alarm.subject, event, alarm.why)
    Alarm.objects.filter(pk__in=[alarm.pk for alarm in alarms]).update(untold=False)


def recipients_of(alarm: Alarm) -> list[str]:
    """The mail addresses of the operators; about a gone branch also those of owners, who can follow another."""
    owners = Membership.objects.none()
    if alarm.branch and alarm.kind == Alarm.Kind.GONE:
        owners = alarm.branch.project.memberships.filter(role=Role.OWNER, user__is_active=True).exclude(user__email="")
    return [*dict.fromkeys([*owners.values_list("user__email", flat=True), *settings.OPERATORS])]


def tell_of_tokens() -> None:
    """Put one mail into the outbox for each token that expires soon.

    Tokens that were made for a few days only are left out.
    """
    soon = PersonToken.objects.filter(
        revoked_at=None,
        expires_at__range=(Now(), Now() + TOKEN_WARNING),
        expires_at__gt=F("created") + 2 * TOKEN_WARNING,
        user__is_active=True,
        outbox=None,
    )
    rows = soon.exclude(user__email="").values_list("pk", "user__email")
    Outbox.objects.bulk_create(
        [Outbox(recipient=email, token_id=pk, event="expires") for pk, email in rows], ignore_conflicts=True
    )
