"""What a sender raises. Whatever else it raises is a defect of SpeedTrack: the row is given up, with the error kept."""


class Temporary(Exception):
    """Time may heal it: the row is tried again, after ``after_s`` if the receiver named a time, else with backoff."""

    def __init__(self, message: str, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s


class Away(Temporary):
    """The receiver does not answer, or refuses everything: all rows for it wait."""


class Unanswered(Away):
    """The receiver has the whole message, but never said whether it took it: the row is tried once more only."""


class Permanent(Exception):
    """Refused for good: the row is given up at once. The message says cause and remedy."""
