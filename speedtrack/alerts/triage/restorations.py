"""The one sentence about what of an open alert is back, while something else of it is not."""

from collections.abc import Sequence

from speedtrack.alerts.models import AlertEvent

NOT_FIXED = "not fixed yet: "  # begins the note of an event that says which series are back


def restoration_in_words(events: Sequence[AlertEvent]) -> str:
    """The newest sentence about which series of an open alert are back; empty without one. ``events``: all, in order.

    Pages, the API and mails show it.
    """
    for event in reversed(events):
        if event.who_id is None and event.note.startswith(NOT_FIXED):
            return event.note
        if event.after:  # a status from which it counts anew
            return ""
    return ""
