"""The addresses of the streams by which pages hear of changes (``speedtrack/processes/live``)."""

from django.conf import settings

from speedtrack.accounts.access import Access
from speedtrack.runs.models import Run
from speedtrack.runs.tickets import ticket_for


def stream_of_queue() -> str:
    return stream("queue")


def stream_of_run(run: Run, access: Access) -> str:
    """The address of a run's stream.

    For a private project it has a ticket that names the viewer, because the process of streams has no sessions.
    """
    user = access.caller.user
    if run.project.is_public or user is None:
        return stream(f"runs/{run.pk}")
    return stream(f"runs/{run.pk}/{ticket_for(user.pk, run.pk)}")


def stream(path: str) -> str:
    """The address of a stream; empty without a process of streams: pages then ask every few seconds."""
    if settings.LIVE_URL == settings.URL:  # by whatever name the page was reached
        return f"/live/{path}"
    return f"{settings.LIVE_URL}/live/{path}" if settings.LIVE_URL else ""
