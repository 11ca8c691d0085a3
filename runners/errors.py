"""The kinds of failure. An unexpected error is Transient; Permanent is raised on purpose, with cause and remedy."""


class RunnerError(Exception):
    """Anything that ends a run early; the text is one line with the cause and the remedy."""

    kind = "transient"


class Transient(RunnerError):
    """Another attempt of the same run may succeed."""


class Stopped(RunnerError):
    """The runner stops, and hands the run back."""

    kind = "stopped"


class Permanent(RunnerError):
    """Another attempt would fail in the same way."""

    kind = "permanent"


class LeaseLost(RunnerError):
    """The run is no longer leased to this runner: stop the work and report nothing."""


class Cancelled(RunnerError):
    """The server asked to cancel this run: stop the work and report nothing."""


class Unauthorized(RunnerError):
    """The server does not know the token of this machine."""

    kind = "permanent"


class WrongVersion(RunnerError):
    """The server does not work with a runner of this version."""


class NoSpace(Stopped):
    """The disk is full: the run is handed back, and none is taken until there is space."""


class BenchmarkFailed(Permanent):
    """One benchmark cannot be measured; the others of the run can."""


class OutOfReach(BenchmarkFailed):
    """This machine cannot run a benchmark: a fact about the machine, not a failure of the commit."""


class SettingsError(Exception):
    """The runner cannot start; the text is one line with the cause and the remedy."""


def one_line(error: BaseException) -> str:
    """The text of an error on one line."""
    return " ".join(str(error).split())
