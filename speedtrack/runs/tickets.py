"""Tickets for the streams of private projects: the process of streams has no sessions, so a page says who looks."""

from datetime import timedelta

from django.core import signing

SALT = "speedtrack.live"
VALID = timedelta(hours=12)  # a page that is open for longer is loaded again


def ticket_for(user_id: int, run_id: int) -> str:
    """A signed text that says which user the stream of a run is for."""
    return signing.dumps([user_id, run_id], salt=SALT)


def viewer_of(ticket: str, run_id: int) -> int | None:
    """The id of the user whose ticket for this run it is; None if the ticket is not valid."""
    try:
        user, run = signing.loads(ticket, salt=SALT, max_age=VALID)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return user if run == run_id and isinstance(user, int) else None
