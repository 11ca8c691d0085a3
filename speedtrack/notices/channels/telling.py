"""Which channels hear of an alert's event."""

from speedtrack.alerts.models import AlertEvent
from speedtrack.notices.channels import statuses
from speedtrack.notices.channels.document import worst_first
from speedtrack.notices.channels.sending import event_key
from speedtrack.notices.models import Channel, Outbox

#: Kinds of which chats are told; webhooks hear of all. That an alert grew, or got a note, calls nobody to work.
CHATTED = frozenset({"raised", "narrowed", "moved", "decided", "fixed"})


def queue_messages(event: AlertEvent) -> None:
    """Put one message per channel that wants to hear of the event into the outbox. Of the past nobody is told."""
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


def wants_event(channel: Channel, event: AlertEvent) -> bool:
    if channel.kind != Channel.Kind.WEBHOOK and event.kind not in CHATTED:
        return False
    found = worst_first(event.alert)
    return channel.improvements or not found or found[0].is_slowdown
