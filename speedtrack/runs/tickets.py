"""Tickets for the streams of private projects. The process of streams has no sessions, so a page tells it who looks."""

from datetime import timedelta

from django.core import signing

SALT = "speedtrack.live"
VALID = timedelta(hours=12)  # a page that is open for longer is loaded again


def ticket_for(user_id: int, run_id: int) -> str:
    """Return a signed text that lets this user read the stream of a run."""
    return signing.dumps([user_id, run_id], salt=SALT)


def viewer_of(ticket: str, run_id: int) -> int | None:
    """Return the id of the user that the ticket was made for; None if it is not valid for this run."""
    try:
        user, run = signing.loads(ticket, salt=SALT, max_age=VALID)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return user if run == run_id and isinstance(user, int) else None
