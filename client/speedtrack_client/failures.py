"""The failures that end a command: one line for people, and an exit code."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit code; docs/client.md promises these numbers."""

    FINE = 0
    REGRESSION = 1
    USAGE = 2
    SERVER = 3
    REFUSED = 4
    TIMED_OUT = 5
    NOT_DONE = 6
    NO_OUTPUT = 7
    INTERNAL = 70
    INTERRUPTED = 130


class Failure(Exception):
    """The message has the cause and the remedy."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


class NothingStored(Failure):
    """The server stored none of the results that were sent.

    ``reasons``: why; one may be that of several results. ``count``: how many results there are.
    """

    def __init__(self, message: str, reasons: list[str], count: int) -> None:
        super().__init__(message, Exit.NOT_DONE)
        self.reasons, self.count = reasons, count


class InvalidFields(Failure):
    """The server cannot use fields of what was sent. ``pointers``: JSON pointers to them."""

    def __init__(self, message: str, pointers: list[str]) -> None:
        super().__init__(message, Exit.USAGE)
        self.pointers = pointers


class UnfitFile(Failure):
    """A file of results cannot be used, but others may be."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


class ServerAway(Failure):
    """The server does not answer now, but may do so later."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.SERVER)


def misused(message: str) -> Failure:
    return Failure(message, Exit.USAGE)
