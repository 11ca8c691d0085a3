"""Where pages hear of what changes: the addresses of their streams (``speedtrack/live``)."""

from django.conf import settings


def stream_of_queue() -> str:
    return stream("queue")


def stream_of_run(pk: int) -> str:
    return stream(f"runs/{pk}")


def stream(path: str) -> str:
    """The address of a stream; "" without a process of streams: then pages ask every few seconds."""
    if settings.LIVE_URL == settings.URL:  # by whatever name the page was reached
        return f"/live/{path}"
    return f"{settings.LIVE_URL}/live/{path}" if settings.LIVE_URL else ""
