"""Failures of repositories: temporary ones, those that a person must fix, and missing commits."""


class RepositoryError(Exception):
    """The repository cannot be used as requested; the message names cause and remedy."""


class RepositoryUnreachable(RepositoryError):
    """The repository did not answer; the next try may succeed."""


class NoSuchCommit(RepositoryError):
    """The repository has no such commit."""


class NotFetched(RepositoryError):
    """The repository was not fetched yet, or never will be, as in a project imported from a file."""


class NoSuchBranch(RepositoryError):
    """The repository has no such branch that can be tracked."""


class UnusableName(RepositoryError):
    """A project cannot have this name."""


class UnusablePatch(RepositoryError):
    """A patch that cannot become a commit; the message says what is wrong with it, and the remedy."""


class GitFailed(RepositoryError):
    """git failed with this exit code (negative: a signal) and this standard error."""

    def __init__(self, message: str, returncode: int, stderr: str) -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


class Interrupted(Exception):
    """git was killed because this process ends. The repository did not fail; another process fetches it later."""
