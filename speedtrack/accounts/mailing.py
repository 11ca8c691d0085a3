"""Mails about an account, sent while its page is already answered.

So a mail server that hangs holds no thread of the web server, and how long an answer takes does not tell whether there
is an account with an address. What is not sent is logged, without its text: it may hold a link that logs in.
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

    It is dropped while MOST_WAITING others wait: people can ask for it again.
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
