"""Send each row of the outbox once: a row waits until its receiver has accepted it.

Rows for one receiver form a lane; the mail server is one. One session at a time works on a lane, in one connection,
and takes the rows one by one without holding row locks. So a receiver that hangs delays only its own lane.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import timedelta

from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest, Now

from speedtrack.ground.observing import failpoints
from speedtrack.ground.postgres import pgsession
from speedtrack.notices.channels.sending import deliver
from speedtrack.notices.errors import PermanentFailure, ReceiverAway, TemporaryFailure, Unanswered
from speedtrack.notices.mail import message_of
from speedtrack.notices.models import Outbox
from speedtrack.runs.errors import NoSuchThing

log = logging.getLogger(__name__)

Sender = Callable[[Outbox], object]

LANE_LOCK = 0x5340  # class of the advisory lock of a lane; the object is the lane's number
MAX_ATTEMPTS = 12  # with doubling pauses from 30 s: about 17 hours
FIRST_PAUSE_S, LONGEST_PAUSE_S = 30, 24 * 3600
TAKEN_S = 600  # no other session takes a row for so long: its sender ends earlier, or has crashed
LANE_S = 60  # a connection takes no further row after this


@contextmanager
def mail_sender() -> Iterator[Sender]:
    """A function that sends mails over one connection, which is opened with the first mail."""
    mails = get_connection()
    try:
        yield lambda row: mails.send_messages([message_of(row)])
    finally:
        mails.close()


def sender_of(row: Outbox) -> AbstractContextManager[Sender]:
    """The function that sends this row and others of its lane. It raises TemporaryFailure or PermanentFailure."""
    return nullcontext(deliver) if row.channel_id else mail_sender()


def send_due() -> int:
    """Send the due rows, lane by lane. Return the number of rows that their receivers accepted."""
    return sum(send_lane(lane) for lane in Outbox.objects.due().lanes())


def send_lane(lane: int) -> int:
    """Send the rows of a lane until none is due or the receiver is away.

    Does nothing if another session works on the lane. Returns the number of rows accepted.
    """
    accepted = 0
    with pgsession.holding(LANE_LOCK, lane) as is_mine:
        if not is_mine or (row := take_row(lane)) is None:
            return 0
        until = time.monotonic() + LANE_S
        with sender_of(row) as sender:
            while row:
                is_sent = attempt_row(row, sender)
                accepted += is_sent is True
                row = take_row(lane) if is_sent is not None and time.monotonic() < until else None
    return accepted


def send_mail_now(mail: EmailMessage) -> None:
    """Send a mail without the outbox, such as a test.

    If the server refuses, raises TemporaryFailure or PermanentFailure.
    """
    with closing(get_connection()) as server:
        server.send_messages([mail])


@transaction.atomic
def take_row(lane: int) -> Outbox | None:
    """Take the oldest due row of the lane, for TAKEN_S seconds. The attempt counts even if this process crashes."""
    due = Outbox.objects.due().of_lane(lane)
    row = due.select_for_update(skip_locked=True, of=("self",)).order_by("id").first()
    if row:
        row.attempts += 1
        Outbox.objects.filter(pk=row.pk).update(attempts=row.attempts, not_before=Now() + timedelta(seconds=TAKEN_S))
    return row


def attempt_row(row: Outbox, sender: Sender) -> bool | None:
    """Send one row and store the outcome. True: sent; False: not sent; None: the lane's receiver is away."""
    try:
        sender(row)
    except TemporaryFailure as e:
        log.warning("outbox row %s to %s: %s", row.pk, row.receiver, e)
        postpone(row, e)
        return None if isinstance(e, ReceiverAway) else False
    except PermanentFailure as e:
        log.warning("outbox row %s to %s is given up: %s", row.pk, row.receiver, e)
        give_up_row(row, str(e))
        return False
    except Exception as e:  # a row whose message cannot be made must not hold up the others
        log.exception("outbox row %s to %s is given up", row.pk, row.receiver)
        give_up_row(row, f"{type(e).__name__}: {e} (a defect of SpeedTrack: its log says where)")
        return False
    failpoints.reach("send.sent")
    Outbox.objects.filter(pk=row.pk).update(sent_at=Now(), error="")
    return True


def postpone(row: Outbox, error: TemporaryFailure) -> None:
    """Retry the row later, and the whole lane later if the receiver is away. Give it up after the last attempt."""
    unanswered = row.unanswered + isinstance(error, Unanswered)
    if unanswered > 1:
        give_up_row(row, f"{error}; twice the receiver got all of it and did not answer, so it may have arrived")
    elif row.attempts >= MAX_ATTEMPTS:
        give_up_row(row, f"{error} (attempt {row.attempts}, the last)")
    else:
        Outbox.objects.filter(pk=row.pk).update(
            error=str(error)[:2000], unanswered=unanswered, not_before=Now() + pause_of(row, error)
        )
    if isinstance(error, ReceiverAway):
        not_before = Now() + min(pause_of(row, error), timedelta(seconds=max(600, error.after_s or 0)))
        Outbox.objects.due().of_lane(row.lane).update(not_before=Greatest(F("not_before"), not_before))


def pause_of(row: Outbox, error: TemporaryFailure) -> timedelta:
    backoff = FIRST_PAUSE_S * 2 ** min(row.attempts - 1, MAX_ATTEMPTS)
    return timedelta(seconds=min(max(backoff, error.after_s or 0), LONGEST_PAUSE_S))


def give_up_row(row: Outbox, why: str) -> None:
    """Give a row up. ``manage.py outbox`` lists it for operators, and can send it again."""
    Outbox.objects.filter(pk=row.pk).update(error=why[:2000], given_up_at=Now())


def failures_in_words() -> list[str]:
    """The rows that could not be sent, one line each, for operators."""
    rows = Outbox.objects.failing().order_by("pk")
    return [
        f"{row.pk}  {row.receiver}  {'given up' if row.given_up_at else 'waits'} after {row.attempts}"
        f" attempt{'' if row.attempts == 1 else 's'}: {row.error}"
        for row in rows
    ]


def send_again(numbers: Sequence[int]) -> int:
    """Queue these rows that were given up again, or all of them. Return their number. Raises NoSuchThing."""
    rows = Outbox.objects.filter(sent_at=None, given_up_at__isnull=False)
    selection = rows.filter(pk__in=numbers) if numbers else rows
    if absent := sorted(set(numbers) - set(selection.values_list("pk", flat=True))):
        raise NoSuchThing(f"{', '.join(map(str, absent))}: not given up: only what is can be sent again")
    return selection.update(given_up_at=None, attempts=0, unanswered=0, not_before=Now())
