"""The errors of senders.

Any other exception is a defect of SpeedTrack: the row is given up, and the error is stored.
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
