"""Mails about an account, sent after the answer of its page.

So a mail server that hangs blocks no thread of the web server, and the time of an answer does not reveal whether there
is an account with an address. A mail that fails is logged without its text, which may hold a link that logs in.
"""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from django.core.mail import EmailMessage

MOST_WAITING = 50

log = logging.getLogger(__name__)
senders = ThreadPoolExecutor(max_workers=2, thread_name_prefix="account-mails")
waiting_room = threading.BoundedSemaphore(MOST_WAITING)


def post(message: EmailMessage) -> None:
    """Send a mail soon, in another thread.

    It is dropped while MOST_WAITING others wait, since people can request it again.
    """
    if not waiting_room.acquire(blocking=False):
        log.error("a mail about an account was not sent: %s others wait for the mail server", MOST_WAITING)
        return
    senders.submit(send, message)


def send(message: EmailMessage) -> None:
    try:
        message.send()
    except Exception as e:  # the top of a thread
        log.error("the mail %r was not sent: %s", message.subject, e)
    finally:
        waiting_room.release()
