"""Queue an event of an alert for the channels that get it."""

from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.notices.channels import statuses
from speedtrack.notices.channels.document import worst_first
from speedtrack.notices.channels.sending import event_key
from speedtrack.notices.models import Channel, Outbox

#: Kinds of events for chats; webhooks get all. An alert that grew, or got a note, needs no action.
CHATTED = frozenset({"raised", "narrowed", "moved", "decided", "fixed"})


def queue_messages(event: AlertEvent) -> None:
    """Put a message into the outbox for each channel that gets the event. Events of the past are not sent."""
    statuses.look_again(event)
    if event.past:
        return
    channels = Channel.objects.filter(project=event.alert.project_id, paused_at=None).exclude(kind__in=Channel.FORGES)
    Outbox.objects.bulk_create(
        [
            Outbox(channel=channel, alert=event.alert, event=event_key(event))
            for channel in channels
            if wants_event(channel, event)
        ],
        ignore_conflicts=True,
    )


def has_message(channel: Channel, alert: Alert) -> bool:
    return Outbox.objects.filter(channel=channel, alert=alert).exists()


def wants_event(channel: Channel, event: AlertEvent) -> bool:
    if channel.kind != Channel.Kind.WEBHOOK and event.kind not in CHATTED:
        return False
    if event.kind == AlertEvent.Kind.RAISED and not channel.improvements and has_message(channel, event.alert):
        return False  # the channel has the slowdown; only an improvement joined
    changes = worst_first(event.alert)
    return channel.improvements or not changes or changes[0].is_slowdown
