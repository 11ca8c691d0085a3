"""Two kinds of failure of a repository: what time may heal, and what a person must mend."""


class RepositoryError(Exception):
    """The repository cannot be used as asked; the message names cause and remedy."""


class RepositoryUnreachable(RepositoryError):
    """The repository did not answer; the next look may succeed."""
