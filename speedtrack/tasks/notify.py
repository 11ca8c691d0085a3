"""The task of the process ``notify``: it waits for mail servers, chats and forges."""

from celery import shared_task

from speedtrack.ground.postgres.steps import take_each
from speedtrack.notices.channels import statuses
from speedtrack.notices.sending import send_due
from speedtrack.notices.telling import tell_of_alarms, tell_of_tokens, tell_operators, tell_subscribers


@shared_task(name="speedtrack.tasks.notify")
def notify() -> None:
    """Put notices into the outbox, post commit statuses, and send due messages."""
    take_each(
        tell_subscribers,
        tell_operators,
        tell_of_alarms,
        tell_of_tokens,
        statuses.update_statuses,
        send_due,
    )
