"""Send one row of the outbox to its channel, and store the outcome on the channel."""

import hashlib
import hmac
import logging
import time
import uuid
from urllib.parse import quote

from django.db.models import F, Q
from django.db.models.functions import Now

from speedtrack.alerts.models import AlertEvent
from speedtrack.ground.secrets.sealed import KeyLost, Secret
from speedtrack.notices.channels import document, pulls
from speedtrack.notices.channels.calls import Gone, OutgoingCall, Response, call, encoded, require_success
from speedtrack.notices.channels.former import former_document
from speedtrack.notices.channels.shapes import SHAPES
from speedtrack.notices.errors import PermanentFailure, ReceiverAway, TemporaryFailure, Unanswered
from speedtrack.notices.models import Channel, Outbox
from speedtrack.reports.alerts import AlertMessage

log = logging.getLogger(__name__)

PAUSE_AFTER = 20  # failures in a row
DELIVERIES = uuid.UUID("6f1d5f2e-6ce0-4f0e-9d0b-0a6f5f7c1b11")  # the name space of delivery ids
MATRIX_SEND = "/_matrix/client/v3/rooms/{room}/send/m.room.message/{transaction}"
LONGEST_ERROR = 2000
REPEATABLE = (Channel.Kind.WEBHOOK, Channel.Kind.MATRIX)  # their receivers can recognise a repetition


def deliver(row: Outbox) -> None:
    """Send a row to its channel, and store the outcome on it. Raises TemporaryFailure or PermanentFailure."""
    channel = row.channel
    assert channel is not None
    try:
        if row.commit_status:
            pulls.report_commit(row.commit_status)
        else:
            post(channel, document.message_of(event_of(row), delivery_id(row)))
    except (TemporaryFailure, PermanentFailure, KeyLost) as e:
        note_failed_delivery(channel, e)
        if isinstance(e, KeyLost):
            raise PermanentFailure(str(e)) from e
        raise
    Channel.objects.filter(pk=channel.pk).update(tried_at=Now(), delivered_at=Now(), failures=0, error="")


def event_key(event: AlertEvent) -> str:
    """The value of ``event`` in an outbox row of a channel."""
    return f"{event.kind}:{event.pk}"


def event_of(row: Outbox) -> AlertEvent:
    return AlertEvent.objects.select_related("who").get(pk=int(row.event.rpartition(":")[2]))


def delivery_id(row: Outbox) -> str:
    """The id of a delivery: the same for each attempt, so that a receiver can recognise a repetition."""
    return str(uuid.uuid5(DELIVERIES, f"{row.channel_id}/{row.event}/{row.pk}"))


def post(channel: Channel, event_message: AlertMessage) -> Response:
    """Send a message in the shape of the channel. Raises TemporaryFailure, PermanentFailure or KeyLost."""
    try:
        return require_success(call(call_of(channel, event_message)), channel.origin)
    except Unanswered as e:
        if channel.kind in REPEATABLE:
            raise ReceiverAway(str(e)) from e
        raise


def call_of(channel: Channel, event_message: AlertMessage) -> OutgoingCall:
    url, message = channel.url.reveal(), SHAPES[channel.kind](event_message)
    if channel.kind == Channel.Kind.WEBHOOK:
        body = encoded(former_document(event_message, channel.project.name) if channel.former_document else message)
        return OutgoingCall(
            "POST", url, headers=signed_headers(channel, body, int(time.time()), event_message.delivery), body=body
        )
    if channel.kind == Channel.Kind.MATRIX:
        path = MATRIX_SEND.format(
            room=quote(channel.place, safe=""), transaction=quote(transaction(event_message), safe="")
        )
        return OutgoingCall(
            "PUT", url.rstrip("/") + path, message, {"Authorization": f"Bearer {channel.secret.reveal()}"}
        )
    return OutgoingCall("POST", url, message)


def transaction(event_message: AlertMessage) -> str:
    """The transaction id of a message: Matrix shows two messages with the same id once. Each test has its own id."""
    return f"test-{time.time_ns()}" if event_message.delivery == "test" else event_message.delivery


def signed_headers(channel: Channel, body: bytes, timestamp: int, delivery: str) -> dict[str, str]:
    """The headers by which a receiver verifies the sender and the time, and recognises a repetition."""
    secrets = [secret for secret in (channel.secret, channel.former_secret) if secret]
    return {
        "Content-Type": "application/json",
        "X-SpeedTrack-Delivery": delivery,
        "X-SpeedTrack-Timestamp": str(timestamp),
        "X-SpeedTrack-Signature": ",".join(signature(secret, timestamp, body) for secret in secrets),
    }


def signature(secret: Secret, timestamp: int, body: bytes) -> str:
    signed_bytes = f"{timestamp}.".encode() + body
    return "v1=" + hmac.new(secret.reveal().encode(), signed_bytes, hashlib.sha256).hexdigest()


def note_failed_delivery(channel: Channel, error: Exception) -> None:
    """Store a failure on the channel.

    The channel is paused if its receiver is gone, or after PAUSE_AFTER failures in a row.
    """
    log.warning("channel %s of %s: %s", channel, channel.project, error)
    mine = Channel.objects.filter(pk=channel.pk)
    mine.update(tried_at=Now(), failures=F("failures") + 1, error=str(error)[:LONGEST_ERROR])
    if isinstance(error, Gone):
        mine.filter(paused_at=None).update(paused_at=Now(), paused_why="its receiver answered that it is gone (410)")
    many = Q(paused_at=None, failures__gte=PAUSE_AFTER)
    mine.filter(many).update(paused_at=Now(), paused_why=f"its last {PAUSE_AFTER} deliveries failed")
