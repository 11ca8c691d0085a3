"""Kinds of failure of a repository: what time may heal, what a person must mend, and what is simply not there."""


class RepositoryError(Exception):
    """The repository cannot be used as asked; the message names cause and remedy."""


class RepositoryUnreachable(RepositoryError):
    """The repository did not answer; the next look may succeed."""


class NoSuchCommit(RepositoryError):
    """The repository was asked and has no such commit."""


class GitFailed(RepositoryError):
    """git ended with this exit code (negative: a signal) and said this on its standard error."""

    def __init__(self, message: str, returncode: int, said: str) -> None:
        super().__init__(message)
        self.returncode = returncode
        self.said = said


class Interrupted(Exception):
    """git was ended because this process ends: no failure of the repository, which the next process looks at."""
