"""The errors of senders, and of what is set up for them.

Any other exception of a sender is a defect of SpeedTrack: the row is given up, and the error is stored.
"""


class TemporaryFailure(Exception):
    """Sending may succeed later.

    The row is retried after ``after_s`` seconds if the receiver named a time, otherwise with growing pauses.
    """

    def __init__(self, message: str, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s


class ReceiverAway(TemporaryFailure):
    """The receiver does not answer, or refuses everything. All rows for it wait."""


class Unanswered(ReceiverAway):
    """The receiver got the whole message but did not answer. The row is retried only once."""


class PermanentFailure(Exception):
    """Sending will never succeed. The row is given up at once; the message names cause and remedy."""


class UnfitChannel(Exception):
    """The input is not valid for a channel; the message has the reason. ``field`` names the input."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
